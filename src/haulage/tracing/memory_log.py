"""Who held how much memory when."""

from dataclasses import dataclass, field

# Memory that one device and kind has: (name of the device, kind of memory).
Group = tuple[str, str]


@dataclass(slots=True)
class Held:
    """What is held of one group, and what was when most was."""

    # place -> [bytes, blocks]
    now: dict[int, list[int]] = field(default_factory=dict)
    total: int = 0
    peak: int = 0
    peak_at: int = 0
    at_peak: dict[int, tuple[int, int]] = field(default_factory=dict)
    allocations: int = 0
    _copied: bool = True

    def change(self, at: int, place: int, nbytes: int) -> None:
        """Add an allocation (of bytes >= 0), or take away what one had (< 0: ~bytes)."""
        holder = self.now.setdefault(place, [0, 0])
        if nbytes >= 0:
            holder[0] += nbytes
            holder[1] += 1
            self.allocations += 1
            self.total += nbytes
            if self.total > self.peak:
                self.peak, self.peak_at, self._copied = self.total, at, False
            return
        # Who holds it at the peak is noted when the first block after it goes.
        self.note_peak()
        holder[0] -= ~nbytes
        holder[1] -= 1
        self.total -= ~nbytes
        if not holder[1]:
            del self.now[place]

    def note_peak(self) -> None:
        """Copy who holds what, if now is the peak."""
        if not self._copied:
            self._copied = True
            self.at_peak = {place: (n, blocks) for place, (n, blocks) in self.now.items()}


class MemoryLog:
    """Changes of memory: at most `most` of them, beyond that those near each other as one.

    The peaks, and who held what at them, are exact whatever is kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.groups: dict[Group, Held] = {}
        # (time in ns, group, place, bytes), in the order of time.
        self.changes: list[tuple[int, Group, int, int]] = []
        self.count = 0
        # Nanoseconds within which changes of one line are one; 0: none are.
        self.drawn_together = 0

    def add(self, at: int, group: Group, place: int, nbytes: int) -> None:
        """Keep an allocation (bytes >= 0) or what was freed (~bytes)."""
        self.count += 1
        held = self.groups.get(group)
        if held is None:
            held = self.groups[group] = Held()
        held.change(at, place, nbytes)
        self.changes.append((at, group, place, nbytes if nbytes >= 0 else -~nbytes))
        if len(self.changes) > self._most:
            self._thin()

    def _thin(self) -> None:
        first = self.changes[0][0]
        span = self.changes[-1][0] - first + 1
        width = max(2 * self.drawn_together, span // self._most, 1)
        while True:
            merged: dict[tuple[int, Group, int], list[int]] = {}
            for at, group, place, nbytes in self.changes:
                bin_ = (at - first) // width
                into = merged.setdefault((bin_, group, place), [at, 0])
                into[0] = at
                into[1] += nbytes
            self.changes = sorted(
                (at, group, place, nbytes)
                for (_, group, place), (at, nbytes) in merged.items()
                if nbytes
            )
            self.drawn_together = width
            if len(self.changes) <= self._most // 2 or width > span:
                break
            width *= 4
