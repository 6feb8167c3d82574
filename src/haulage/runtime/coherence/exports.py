"""Memory of a copy that other libraries have: DLPack's capsules, the CUDA array interface.

They tell nobody when they write, so as long as one has the memory, and may write to it, its bytes
count as changed there whenever another place needs them. It stays where it is meanwhile, as it is
referred to, and is kept up to date with what is written elsewhere.

Where the host has views of the same bytes that can be written to, both sides may have written. What
both had last is kept then, and tells who has.
"""

from haulage.errors import CoherenceError
from haulage.runtime.coherence.common import Common
from haulage.runtime.device import Device
from haulage.runtime.memory import owners
from haulage.runtime.ranges import Ranges


class Export:
    """What is known of memory that another library has.

    Attributes:
        device: whose memory it is.
        part: which bytes.
        writable: whether the other one may write to them.
        mark: the line that gave it away.
        is_alive: whether anybody still has it.
    """

    __slots__ = ("device", "is_alive", "mark", "part", "writable")

    def __init__(self, device: Device, part: Ranges, writable: bool, mark: owners.Mark) -> None:
        self.device = device
        self.part = part
        self.writable = writable
        self.mark = mark
        self.is_alive = True


class Hold:
    """What the other library holds; when it goes, nobody can write any more."""

    __slots__ = ("_export",)

    def __init__(self, export: Export) -> None:
        self._export = export

    def __del__(self) -> None:
        self._export.is_alive = False


class Exports(Common):
    """The memory of one storage that other libraries have.

    Args:
        name: that of the storage, for messages.
        grain: bytes of an element, which is written as a whole.

    Attributes:
        records: what is known of each, until one that nobody has any more has been counted.
    """

    __slots__ = ("_name", "records")

    def __init__(self, name: object, grain: int) -> None:
        super().__init__(grain)
        self._name = name
        self.records: list[Export] = []

    def add(self, device: Device, part: Ranges, writable: bool, mark: owners.Mark) -> Hold:
        """Note that another library has memory, as long as it holds what is returned.

        Raises:
            CoherenceError: one that may write has these bytes on another device.
        """
        for other in self.records:
            if writable and other.writable and other.device is not device and other.part & part:
                raise CoherenceError(
                    f"{self._name}: another library has it on {other.device}, to write to it, "
                    f"since {owners.site(other.mark)}, and was to have it on {device} at "
                    f"{owners.site(mark)}: nobody could tell what both write. Let go of the first "
                    "one before, or give one of them the array of get(where, 'r')"
                )
        made = Export(device, part, writable, mark)
        self.records = [each for each in self.records if not _is_in(each, made)]
        self.records.append(made)
        return Hold(made)

    def to_be_waited_for(self, place: Device | None, writing: bool, viewed: bool) -> list[Device]:
        """The devices that others may work on with what `place` (None: the host) is to have.

        `writing`: to write to it. `viewed`: there are views of the host that can be written to.
        """
        found: list[Device] = []
        for each in self.records:
            if (
                (each.writable or writing)
                and (viewed or each.device is not place)
                and each.device not in found
            ):
                found.append(each.device)
        return found

    def of(self, device: Device) -> Ranges:
        """The bytes of a device that somebody has."""
        part = Ranges()
        for each in self.records:
            if each.device is device:
                part |= each.part
        return part

    def written(self, place: Device | None, needed: Ranges) -> list[tuple[Export, Ranges]]:
        """What counts as written on devices when `needed` is needed at `place` (None: the host): of
        what nobody has any more, and is forgotten by that, all."""
        found: list[tuple[Export, Ranges]] = []
        for each in tuple(self.records):
            if each.device is not place:
                if not each.is_alive:
                    self.records.remove(each)
                if each.writable:
                    found.append((each, each.part & needed if each.is_alive else each.part))
        if not self.records:
            # Nobody says any more what is written.
            self.clear()
        return found

    def end(self, device: Device) -> list[Export]:
        """Forget all of a device, whose memory is gone; what could be written."""
        gone = [each for each in self.records if each.device is device]
        self.records = [each for each in self.records if each.device is not device]
        self.leave(device)
        return [each for each in gone if each.writable]

    def not_counted(self, place: Device | None) -> Ranges:
        """What may have been written on other devices than `place` and was not counted, though
        nobody has it any more."""
        part = Ranges()
        for each in self.records:
            if each.writable and not each.is_alive and each.device is not place:
                part |= each.part
        return part

    # ---- what a view of the host shows too --------------------------------------------------

    def is_written(self, device: Device) -> bool:
        """Whether another library may write what it has of a device."""
        return any(each.writable and each.device is device for each in self.records)

    def mark_of(self, device: Device, part: Ranges) -> owners.Mark:
        """The line that gave some of these bytes of a device to one that may write to them."""
        return next(
            each.mark
            for each in self.records
            if each.device is device and each.writable and each.part & part
        )

    def collision(self, device: Device, both: Ranges, viewed: owners.Mark) -> CoherenceError:
        """What tells that a view of the host, taken by a line, and another library have written the
        same elements."""
        given, taken = owners.site(self.mark_of(device, both)), owners.site(viewed)
        return CoherenceError(
            f"{self._name}: another library, which was given it on {device} at {given}, and the "
            f"host, through a view that was taken at {taken}, have written the same elements; what "
            "the host wrote is lost. Call get() or synchronize() between the two"
        )


def _is_in(one: Export, other: Export) -> bool:
    """Whether nobody has `one`, and what counts of it counts with `other` as well."""
    if one.is_alive:
        return False
    if not one.writable:
        return True
    return one.device is other.device and other.writable and other.part.covers(one.part)
