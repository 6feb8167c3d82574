"""Bytes that are nowhere any more, as the memory of the only device that had them is gone."""

from haulage.errors import CoherenceError
from haulage.runtime.device import Device
from haulage.runtime.memory import owners
from haulage.runtime.ranges import Ranges


class Lost:
    """The bytes that a storage has lost.

    Args:
        name: that of the storage, for messages.

    Attributes:
        pieces: which bytes, and where they were, in words.
    """

    __slots__ = ("_name", "pieces")

    def __init__(self, name: object) -> None:
        self._name = name
        self.pieces: list[tuple[Ranges, str]] = []

    def note(self, part: Ranges, device: Device, closed_at: owners.Mark) -> None:
        """Bytes were current on a device only, whose memory was given back at a line."""
        where = f" at {owners.site(closed_at)}" if closed_at else ""
        self.pieces.append((part, f"{device}, whose memory was given back{where}"))

    def forget(self, part: Ranges) -> None:
        """Bytes are current somewhere again."""
        self.pieces = [(left, told) for lost, told in self.pieces if (left := lost - part)]

    def check(self, part: Ranges) -> None:
        """See that none of these bytes is lost.

        Raises:
            CoherenceError: some are.
        """
        for lost, told in self.pieces:
            if lost & part:
                raise CoherenceError(
                    f"{self._name}: {(lost & part).nbytes} bytes of it were current only on "
                    f"{told}, and are lost. Look at the array before (np.asarray(a)), or assign to "
                    "it now"
                )
