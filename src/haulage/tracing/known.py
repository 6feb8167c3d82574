"""What was copied last from where to where: by which a copy is found to have been needed or not."""

import hashlib
import threading
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from haulage.runtime.devices.device import Device
    from haulage.runtime.memory import Block

# So many copies are remembered.
_MOST = 4096
# No more than this part of a device's memory is held only to be looked at later.
_PART_HELD = 4


class Copied(NamedTuple):
    """A copy that was made.

    Attributes:
        digest: of the bytes.
        block: the memory of the device's end, if it is there still.
        address, nbytes: where they are in it.
        dense: whether they lie one behind the other there, as on the host.
        down: whether it was to the host.
        stayed: whether the bytes were there until the program closed the block.
        again: whether it repeated unchanged data.
        row: of which copies it is one.
    """

    digest: bytes
    block: "weakref.ref[Block]"
    address: int
    nbytes: int
    dense: bool
    down: bool
    again: bool
    row: Any
    stayed: bool = False


class Known:
    """The last copy under each of some keys.

    With `hold` the memory of the device that it was from or at is held, so that it can be looked at
    whether the bytes are still there when the program has let go of it; by the first key it is not.
    """

    def __init__(self, hold: bool) -> None:
        self._hold_blocks = hold
        self._copies: OrderedDict[Any, Copied] = OrderedDict()
        # By the number of the block: the block, and how many keys hold it.
        self._held: OrderedDict[int, tuple[Block, int]] = OrderedDict()
        # How many bytes that are, by device.
        self._bytes: dict[str, int] = {}
        self._lock = threading.RLock()

    def of(self, key: Any, sent: bytes) -> Copied | None:
        """The last copy under a key if it was one of the same bytes."""
        known = self._copies.get(key)
        return known if known is not None and known.digest == sent else None

    def note(self, keys: tuple[Any, ...], made: Copied, block: "Block") -> None:
        """A copy was made, which these keys stand for."""
        with self._lock:
            for number, key in enumerate(keys):
                before = self._copies.pop(key, None)
                self._copies[key] = made
                if number:
                    self._hold(block)
                    if before is not None:
                        self._release(before)
            while len(self._copies) > _MOST:
                _, oldest = self._copies.popitem(last=False)
                self._release(oldest)
            most = block.device.properties.total_memory // _PART_HELD
            beyond = self._bytes.get(str(block.device), 0) - most
        if beyond > 0:
            self.let_go(block.device, beyond)

    def is_still_there(self, known: Copied, host: "np.ndarray | None" = None) -> bool | None:
        """Whether the device's end still has the bytes, which `host` has too if it is given; None:
        that cannot be told."""
        block = known.block()
        if known.stayed:
            return True
        if block is None or block.closed or not known.dense or block.device.capturing:
            return None
        found = _bytes_at(block.device, known.address, known.nbytes)
        if host is not None and host.flags.forc:
            return _are_same(found, host.reshape(-1, order="A").view("u1"))
        return digest(found) == known.digest

    def closing(self, block: "Block") -> None:
        """Look at what a block has before the program closes it."""
        with self._lock:
            of_block = [
                (key, known) for key, known in self._copies.items() if known.block() is block
            ]
        for key, known in of_block:
            still = self.is_still_there(known)
            with self._lock:
                if still is False:
                    self._copies.pop(key, None)
                elif still:
                    self._copies[key] = known._replace(stayed=True)
        with self._lock:
            if block.generation in self._held:
                self._drop(block.generation)

    def let_go(self, device: "Device | None" = None, wanted: int | None = None) -> int:
        """Hold so many bytes less of a device, or none of it, or of any; how many less."""
        gone: list[Block] = []
        with self._lock:
            for number, (block, _) in list(self._held.items()):
                if wanted is not None and sum(each.nbytes for each in gone) >= wanted:
                    break
                if device is None or block.device is device:
                    gone.append(block)
                    self._drop(number)
        return sum(block.nbytes for block in gone)

    def _hold(self, block: "Block") -> None:
        if self._hold_blocks and block.pool is not None:
            _, count = self._held.pop(block.generation, (block, 0))
            self._held[block.generation] = block, count + 1
            if not count:
                device = str(block.device)
                self._bytes[device] = self._bytes.get(device, 0) + block.nbytes

    def _release(self, known: Copied) -> None:
        block = known.block()
        if block is not None and block.generation in self._held:
            _, count = self._held[block.generation]
            if count == 1:
                self._drop(block.generation)
            else:
                self._held[block.generation] = block, count - 1

    def _drop(self, number: int) -> None:
        block, _ = self._held.pop(number)
        self._bytes[str(block.device)] -= block.nbytes


def digest(host: "np.ndarray") -> bytes:
    """A digest of the bytes of an array, in the order in which they lie, and of their number."""
    made = hashlib.blake2b(digest_size=16)
    made.update(f"{host.nbytes}".encode())
    flat = host.reshape(-1, order="A") if host.flags.forc else host.flatten()
    made.update(flat.view("u1").data)
    return made.digest()


def _are_same(one: "np.ndarray", other: "np.ndarray") -> bool:
    """Whether two arrays of as many bytes have the same ones."""
    # As words, which is several times faster.
    words = one.size & -8
    return bool(
        (one[:words].view("u8") == other[:words].view("u8")).all()
        and (one[words:] == other[words:]).all()
    )


def _bytes_at(device: "Device", address: int, nbytes: int) -> "np.ndarray":
    """A copy of bytes of a device, once all its work is done."""
    import numpy as np

    from haulage.runtime.buffers import transfer

    device.synchronize()
    found = np.empty(nbytes, np.uint8)
    transfer.download_bytes(found, device.default_stream, address)
    return found
