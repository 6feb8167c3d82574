"""Bytes of a storage on their way between the host and a device."""

from collections.abc import Iterable

import numpy as np

from haulage.runtime import ordering
from haulage.runtime.arrays import transfer
from haulage.runtime.arrays.address import address_of
from haulage.runtime.coherence.copies import Copy
from haulage.runtime.device import Device
from haulage.runtime.memory import Block
from haulage.runtime.ranges import Ranges
from haulage.runtime.stream import Stream
from haulage.runtime.transfers.account import Account
from haulage.runtime.transfers.entry import HOST

# Into more runs than this, bytes are moved together with others that are the same at both ends.
MOST_RUNS = 8

# Bytes of a copy that are compared with the host's at a time.
_COMPARED = 4 << 20


def order(stream: Stream, others: Iterable[Stream]) -> None:
    """Let later work of `stream` start only when what `others`, streams of devices of one driver,
    hold now is done."""
    for other in others:
        if (other.handle != stream.handle or other.device is not stream.device) and (
            not other.idle()
        ):
            ordering.after(stream, other)


def _is_slow(host: np.ndarray, device: Device) -> bool:
    """Whether pinned memory of the host would be copied faster."""
    in_reach = device.properties.host_memory_is_device_memory
    return not in_reach and transfer.block_of(host) is None


def with_earlier(writers: tuple[Stream, ...], earlier: tuple[Stream, ...]) -> tuple[Stream, ...]:
    """`writers` after those of `earlier` that are not done. They need not be ordered: between the
    time when work was ordered and when it is handed over, other threads hand over theirs."""
    if not earlier or earlier == writers:
        return writers
    return (*(one for one in earlier if one not in writers and not one.idle()), *writers)


def download(
    host: np.ndarray, part: Ranges, device: Device, copy: Copy, account: Account, why: str
) -> None:
    """Bring bytes of a copy to the host; it is done when this returns."""
    # In the stream that wrote the bytes, there is nothing to be waited for.
    stream = copy.writers[-1] if copy.writers else device.default_stream
    order(stream, copy.writers)
    copy.block.use(stream)
    is_slow = _is_slow(host, device)
    for start, stop in part:
        _to_host(host[start:stop], copy.block, start, stream)
        own = Ranges.of(start, stop)
        account.moved(str(device), HOST, own, stream.handle, why, is_slow)
    if stream.handle:
        stream.finish()
    copy.writers = ()


def upload(
    host: np.ndarray,
    part: Ranges,
    copy: Copy,
    stream: Stream,
    account: Account,
    why: str,
    aside: bool,
) -> None:
    """Hand a copy of the host's bytes to `stream`. Those of pinned memory are not to be changed
    before the stream has made it, unless they are put `aside` first."""
    is_slow = _is_slow(host, stream.device)
    for start, stop in part:
        source = host[start:stop]
        if aside:
            source = transfer.pinned_array(stream.device, source.shape, (1,), source.dtype)
            source[...] = host[start:stop]
        copy.block.use(stream)
        target = copy.block.device_ptr + start
        size = (source.size,)
        transfer.move_untold(source, stream, target, (1,), address_of(source), (1,), size, 1)
        own = Ranges.of(start, stop)
        account.moved(HOST, str(stream.device), own, stream.handle, why, is_slow)
    copy.writers = (stream,)


def is_as_on_host(host: np.ndarray, part: Ranges, device: Device, copy: Copy) -> bool:
    """Whether a copy has the host's bytes; waits for all work with it."""
    stream = device.default_stream
    order(stream, copy.users())
    copy.block.use(stream)
    found = np.empty(min(_COMPARED, part.nbytes), np.uint8)
    for first, last in part:
        for start in range(first, last, _COMPARED):
            expected = host[start : min(start + _COMPARED, last)]
            own = found[: expected.size]
            _to_host(own, copy.block, start, stream)
            if not np.array_equal(own, expected):
                return False
    return True


def _to_host(target: np.ndarray, block: Block, start: int, stream: Stream) -> None:
    source = block.device_ptr + start
    transfer.move_untold(target, stream, address_of(target), (1,), source, (1,), (target.size,), 1)
