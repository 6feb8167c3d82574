"""Bringing bytes of a storage up to date where they are needed: on the host or on a device."""

from collections.abc import Iterable

import numpy as np

from haulage.errors import OutOfMemory
from haulage.interruption import on_error
from haulage.runtime import memory
from haulage.runtime.buffers import pinned_memory, transfer
from haulage.runtime.coherence.state import DeviceReplica, Mode, State
from haulage.runtime.devices import ordering
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry.ranges import Ranges
from haulage.runtime.transfers.account import Account
from haulage.runtime.transfers.entries import HOST

# Into more runs than this, bytes are moved together with others that are the same at both ends.
_MOST_RUNS = 8

# Where the host has written to so many places, all of it is brought there.
_MANY_RUNS = 64

# Bytes of a replica that are compared with the host's at a time.
_COMPARED = 4 << 20


# ---- the host -------------------------------------------------------------------------------


def bring_to_host(state: State, mode: Mode, why: str, part: Ranges) -> np.ndarray:
    """The host's memory, where `part` is current now, or may be overwritten with mode 'w'."""
    while state.uploads:
        state.uploads[-1].finish()
        state.uploads.pop()
    if state.shared is not None:
        # To be read once it is written, and written once nobody reads it.
        for stream in state.host_writers if mode == "r" else state.shared.users():
            stream.finish()
        state.host_writers = ()
    host = state.host
    if host is None:
        host = state.host = memory.on_host(np.empty, state.nbytes, np.uint8)
    if mode != "w":
        fetch(state, why, part - state.on_host.valid)
        return host
    prepare_overwriting(state, why, part)
    if len(state.on_host.valid.runs) > _MANY_RUNS:
        fetch(state, why, state.whole - state.on_host.valid)
    return host


def fetch(state: State, why: str, missing: Ranges) -> None:
    """Make bytes current on the host."""
    if not missing:
        return
    host, borrows = state.host, state.borrows
    assert host is not None
    if borrows.records:
        missing = borrows.whole_pieces(missing)
        borrows.check_in(missing, host)
    with on_error(borrows.copy_was_cut_short, missing):
        _download_missing(state, why, host, missing)
    state.on_host.valid |= missing
    state.defined |= missing
    borrows.forget_stale(missing)
    state.take_baselines()


def _download_missing(state: State, why: str, host: np.ndarray, missing: Ranges) -> None:
    on_host = state.on_host
    for device, replica in tuple(state.replicas.items()):
        found = missing & state.defined & replica.valid - on_host.valid
        if found:
            # What may be written meanwhile, by views or another thread, must not be copied over.
            same = state.not_being_written(state.borrows.not_borrowed(replica.valid))
            joined = found.joined(_MOST_RUNS, same)
            if state.shared is not None:
                # Devices that reach the host's memory may read it.
                for stream in state.shared.users():
                    stream.finish()
            download(host, joined, device, replica, state.account, why)
            on_host.valid |= found


def prepare_overwriting(state: State, why: str, part: Ranges) -> None:
    """The host is about to write all of `part`: views will show what is current there."""
    if state.borrows.records:
        fetch(state, why, state.borrows.partly_stale(part) - state.on_host.valid)
        state.borrows.check_in(part, state.host)
        state.borrows.forget_stale(part)


def room_on_host(device: Device, nbytes: int) -> np.ndarray | None:
    """Memory of the host for bytes of a device; None if it has none left either."""
    if not device.properties.host_memory_is_device_memory:
        try:
            # Copies from and to it are faster.
            return pinned_memory.pinned_array(device, (nbytes,), (1,), np.dtype(np.uint8))
        except OutOfMemory:
            pass  # pageable memory does as well
    try:
        return np.empty(nbytes, np.uint8)
    except MemoryError:
        return None


# ---- devices --------------------------------------------------------------------------------


def new_replica(state: State, device: Device) -> DeviceReplica:
    """The replica on a device, which had none.

    Raises:
        OutOfMemory: the device has no room for it.
    """
    # A callback for want of room may make one itself.
    try:
        made = DeviceReplica(memory.allocate(device, state.nbytes))
    except OutOfMemory:
        if device not in state.replicas:
            raise
        return state.replicas[device]
    state.evicted.discard(device)
    return state.replicas.setdefault(device, made)


def bring_to_device(
    state: State, replica: DeviceReplica, part: Ranges, stream: Stream, why: str
) -> None:
    """Let `stream` copy bytes to a replica that are current elsewhere."""
    # Before anything is in the stream: this may have to wait for another device.
    source = bring_to_host(state, "r", why, part)
    order(stream, replica.users())
    # Who has a view may write to it as soon as this returns, and the copy may run on.
    is_pinned = pinned_memory.block_of(source) is not None
    aside = is_pinned and state.borrows.reach(part)
    joined = part.joined(_MOST_RUNS, state.on_host.valid - replica.writing)
    upload(source, joined, replica, stream, state.account, why, aside)
    if stream.handle and not stream.idle():
        state.uploads.append(stream)


def upload_now(
    state: State, device: Device, replica: DeviceReplica, part: Ranges, within: Ranges, why: str
) -> None:
    """Copy the host's bytes to a replica; they are there when this returns. Bytes of `within` are
    the same on both sides, and may be copied with them."""
    assert state.host is not None
    stream, joined = device.default_stream, part.joined(_MOST_RUNS, within)
    order(stream, replica.users())
    upload(state.host, joined, replica, stream, state.account, why, aside=False)
    stream.finish()
    replica.writers = ()


# ---- copies and their order -----------------------------------------------------------------


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
    return not in_reach and pinned_memory.block_of(host) is None


def download(
    host: np.ndarray,
    part: Ranges,
    device: Device,
    replica: DeviceReplica,
    account: Account,
    why: str,
) -> None:
    """Copy bytes of a replica to the host; they are there when this returns."""
    # In the stream that wrote the bytes, there is nothing to be waited for.
    stream = replica.writers[-1] if replica.writers else device.default_stream
    order(stream, replica.writers)
    replica.block.use(stream)
    is_slow = _is_slow(host, device)
    for start, stop in part:
        transfer.download_bytes(host[start:stop], stream, replica.block.device_ptr + start)
        own = Ranges.of(start, stop)
        account.moved(str(device), HOST, own, stream.handle, why, is_slow)
    if stream.handle:
        stream.finish()
    replica.writers = ()


def upload(
    host: np.ndarray,
    part: Ranges,
    replica: DeviceReplica,
    stream: Stream,
    account: Account,
    why: str,
    aside: bool,
) -> None:
    """Let `stream` copy the host's bytes to a replica. Those of pinned memory must not be changed
    before it has, unless they are put `aside` first."""
    is_slow = _is_slow(host, stream.device)
    for start, stop in part:
        source = host[start:stop]
        if aside:
            source = pinned_memory.pinned_array(stream.device, source.shape, (1,), source.dtype)
            source[...] = host[start:stop]
        replica.block.use(stream)
        transfer.upload_bytes(source, stream, replica.block.device_ptr + start)
        own = Ranges.of(start, stop)
        account.moved(HOST, str(stream.device), own, stream.handle, why, is_slow)
    replica.writers = (stream,)


def is_as_on_host(host: np.ndarray, part: Ranges, device: Device, replica: DeviceReplica) -> bool:
    """Whether a replica has the host's bytes; waits for all work with it."""
    stream = device.default_stream
    order(stream, replica.users())
    replica.block.use(stream)
    found = np.empty(min(_COMPARED, part.nbytes), np.uint8)
    for first, last in part:
        for start in range(first, last, _COMPARED):
            expected = host[start : min(start + _COMPARED, last)]
            own = found[: expected.size]
            transfer.download_bytes(own, stream, replica.block.device_ptr + start)
            if not np.array_equal(own, expected):
                return False
    return True
