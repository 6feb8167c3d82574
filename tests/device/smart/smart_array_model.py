"""Which bytes of a SmartArray are where, and how many had to be moved: what the state machine of
`test_machine` compares it with."""

from collections import Counter

HOST = "host"


class Borrow:
    """A NumPy view that the program holds: which bytes it shows, and what of them is out of date,
    in pieces, each with the device that wrote it."""

    def __init__(self, part):
        self.part = part
        self.stale = []

    @property
    def fresh(self):
        return self.part - set().union(*(piece for piece, _ in self.stale))


class Model:
    """The bytes of one storage.

    Attributes:
        here: those that are current on the host.
        there: those that are current in the copy of each device that has one, the oldest first.
        shared: the devices that work on the host's copy.
        seen: the devices whose copies were given to work that reads, which may have written.
        came_along: the devices whose copies were taken to the host after that.
        lost: those that are nowhere any more.
        moved: how many were moved, by (source, target).
    """

    def __init__(self, nbytes, shared=()):
        self.whole = set(range(nbytes))
        self.here = set(self.whole)
        self.there = {}
        self.shared = set(shared)
        self.seen, self.came_along = set(), set()
        self.lost = set()
        self.held, self.gone = [], []
        self.moved = Counter()

    def current(self, part):
        """The places where bytes are current, the host first."""
        places = [HOST, *self.shared] if part <= self.here else []
        maybe_written = set().union(*(borrow.fresh & self.here for borrow in self.gone))
        return places + [
            device for device, there in self.there.items() if part <= there - maybe_written
        ]

    # ---- the host ---------------------------------------------------------------------------

    def looks(self, part):
        self.settles()
        self._bring_here(part)

    def writes(self, part, whole=True):
        """`whole`: it overwrites all of `part`."""
        if whole and not part <= self.here:
            self.overwrites(part)
        else:
            self.looks(part)
        self.host_wrote(part)

    def overwrites(self, part):
        self.settles()
        self._overwrite_stale(part)

    def cancels(self, part):
        """What was to be overwritten was not."""
        for device, there in self.there.items():
            self._go_stale((part & there) - self.here, device)
        self.host_wrote(part & self.here)

    def host_wrote(self, part):
        for there in self.there.values():
            there -= part
        self.came_along.clear()
        self.here |= part
        self.lost -= part

    def takes(self, part):
        borrow = Borrow(part)
        self.held.append(borrow)
        return borrow

    def lets_go(self, borrow):
        self.held.remove(borrow)
        self.gone.append(borrow)

    def is_copied(self, part):
        """Where it is current: on the host, if it is so there."""
        places = self.current(part)
        if not places or places[0] == HOST:
            self.looks(part)
        else:
            self.launches(places[0], part, "r")

    # ---- devices ----------------------------------------------------------------------------

    def launches(self, device, part, mode):
        """A kernel does something with an argument; mode 'w': it overwrites all of it."""
        self.acquires(device, part, mode)
        if mode in ("rw", "w"):
            self.device_wrote(device, part)

    def acquires(self, device, part, mode, writing=frozenset()):
        """`writing`: what other arguments of the same launch write."""
        if device in self.shared:
            self.settles()
            if mode == "w":
                self._overwrite_stale(part)
            else:
                self._bring_here(part)
            return
        self.settles(part - writing)
        there = self.there.setdefault(device, set())
        missing = part - there
        if mode != "w" and missing:
            self._bring_here(missing)
            self.moved[HOST, str(device)] += len(missing)
            there |= missing
        if mode == "w":
            there -= self.here.union(*(it for of, it in self.there.items() if of != device)) & part
        if mode not in ("rw", "w"):
            self.seen.add(device)
        self.came_along.discard(device)

    def device_wrote(self, device, part):
        if device in self.shared:
            self.host_wrote(part)
            return
        self._go_stale(part, device)
        self.seen.discard(device)
        self.came_along.clear()
        self.here -= part
        for other, there in self.there.items():
            if other == device:
                there |= part
            else:
                there -= part

    def waits(self, device):
        """The program has waited for all work of a device."""
        if any(of == device for borrow in self.held for _, of in borrow.stale):
            self.settles()
        for borrow in self.held:
            for piece, of in tuple(borrow.stale):
                if of == device and (piece, of) in borrow.stale:
                    self._bring_here(piece)

    def gives_way(self, device):
        """The copy on a device goes if nothing is lost by that: bytes that nobody else has are
        brought to the host before. Where work that reads may have written, it is compared."""
        there = self.there.get(device, set())
        for borrow in (*self.held, *self.gone):
            there = there - (borrow.fresh & self.here)
        elsewhere = self.here.union(
            *(part for other, part in self.there.items() if other != device)
        )
        if there and not there <= elsewhere:
            self._bring_here(there)
        elif there and device in self.seen:
            if not there <= self.here:
                return
            self.moved[str(device), HOST] += len(there)
        if self.there.pop(device, None) and device in self.seen:
            self.came_along.add(device)

    def has_out_of_date(self, device, part):
        """Whether it has a copy, or none, in which some of these bytes are not current."""
        if device in self.shared or device in self.came_along:
            return False
        return not part <= self.there.get(device, set())

    def loses(self, device):
        """The copy on a device is gone, whatever it had."""
        there = self.there.pop(device, set())
        self.lost |= there - set(self.here).union(*self.there.values())

    # ---- both -------------------------------------------------------------------------------

    def settles(self, needed=frozenset()):
        """What was written through views counts: of those that are gone all of it, of those that
        are held what a device needs."""
        counted = [borrow.fresh for borrow in self.gone]
        counted += [borrow.fresh & needed for borrow in self.held]
        self.gone.clear()
        for part in counted:
            if part & self.here:
                self.host_wrote(part & self.here)

    def _bring_here(self, part):
        """Pieces that are out of date in views come as a whole."""
        missing, before = part - self.here, None
        if not missing:
            return
        while missing != before:
            before = set(missing)
            for borrow in self.held:
                for piece, _ in borrow.stale:
                    if piece & missing:
                        missing |= piece
        for device, there in self.there.items():
            found = (missing & there) - self.here
            self.here |= found
            if found:
                self.moved[str(device), HOST] += len(found)
        self._forget_stale(missing)

    def _overwrite_stale(self, part):
        for borrow in self.held:
            for piece, _ in tuple(borrow.stale):
                if piece & part and not piece <= part:
                    self._bring_here(piece)
        self._forget_stale(part)

    def _go_stale(self, part, device):
        for borrow in self.held:
            if borrow.fresh & part:
                borrow.stale.append((borrow.fresh & part, device))

    def _forget_stale(self, part):
        for borrow in self.held:
            borrow.stale = [(piece, of) for piece, of in borrow.stale if not piece & part]
