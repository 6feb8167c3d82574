"""Device arrays that the program was given to write to, while views of the host can be written too.

The program says when it has written to such an array. What the host and the device had last is kept
until then, so that what was written through a view meanwhile is not lost unseen.
"""

import weakref

from haulage.runtime.coherence.common import Common
from haulage.runtime.device import Device
from haulage.runtime.memory import Block
from haulage.runtime.ranges import Ranges

# So many arrays are kept in mind before those are looked for that nobody has any more.
_MANY = 8


class Given(Common):
    """The arrays of one storage that the program was given on devices.

    Args:
        grain: bytes of an element, which is written as a whole.

    Attributes:
        records: of each, which bytes it has, and the block that its views hold too.
    """

    __slots__ = ("records",)

    def __init__(self, grain: int) -> None:
        super().__init__(grain)
        self.records: list[tuple[Ranges, weakref.ref[Block]]] = []

    def add(self, part: Ranges, block: Block) -> None:
        """Note that the program has an array, as long as it holds the block."""
        if len(self.records) > _MANY:
            self.let_go()
        self.records.append((part, weakref.ref(block)))

    def let_go(self) -> None:
        """Forget the arrays that nobody has any more."""
        self.records = [each for each in self.records if each[1]() is not None]

    def of(self, device: Device) -> Ranges:
        """The bytes of a device that the program has or, where they are common still, had."""
        part = self.common(device)
        for own, held in self.records:
            block = held()
            if block is not None and block.device is device:
                part |= own
        return part
