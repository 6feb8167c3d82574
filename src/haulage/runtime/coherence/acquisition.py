"""Acquiring bytes at a place: what is missing is brought there, and other uses are waited for."""

import numpy as np

from haulage.runtime.coherence import updates, writes
from haulage.runtime.coherence.state import DeviceReplica, Mode, State
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry.ranges import Ranges
from haulage.runtime.memory import Block
from haulage.runtime.transfers.entries import HOST


def check_mode(mode: str) -> None:
    """Raises:
    ValueError: mode is unknown.
    """
    if mode not in ("r", "rw", "w"):
        raise ValueError(f"mode {mode!r}: expected 'r', 'rw' or 'w'")


def on_host(state: State, mode: Mode, why: str, part: Ranges, around: int = 0) -> np.ndarray:
    """All bytes on the host, of which `part` may be used; see `Coherence.acquire_host`."""
    check_mode(mode)
    if mode == "r" and state.host is not None and state.is_at_rest_on_host(part):
        return state.host
    writes.count_unreported(state, HOST, part)
    state.check_lost(mode, part)
    if around and not state.on_host.valid.covers(part):
        part |= state.not_being_written(part.blocks(around, state.nbytes))
    host = updates.bring_to_host(state, mode, why, part)
    state.on_host.acquired |= part
    return host


def on_device(
    state: State, device: Device, mode: Mode, stream: Stream, why: str, part: Ranges
) -> DeviceReplica | Block:
    """The replica on a device, or the block of shared memory, of which work that is handed to
    `stream` from now on may use `part`; see `Coherence.acquire_device`."""
    check_mode(mode)
    if state.shared is not None and state.is_shared_with(device):
        return _shared(state, mode, stream, why, part)
    replica = _replica_with(state, device, mode, stream, why, part)
    replica.note_use(mode, stream, part)
    if mode != "r":
        _prepare_write(state, replica, mode, stream, part)
    return replica


def _replica_with(
    state: State, device: Device, mode: Mode, stream: Stream, why: str, part: Ranges
) -> DeviceReplica:
    """The replica on a device with `part` current, or to be overwritten with mode 'w'."""
    known = state.replicas.get(device)
    if state.borrows.records or state.exports.records:
        # Who writes there has counted what views wrote before.
        needed = part if known is None else part - known.writing
        writes.count_unreported(state, device, part, needed)
    state.check_lost(mode, part)
    replica = state.replicas.get(device) or updates.new_replica(state, device)
    is_there = mode == "w" or replica.valid.covers(part)
    missing = Ranges() if is_there else part - replica.valid
    sent = missing & state.defined
    state.account.used(part.nbytes, not sent)
    if sent:
        updates.bring_to_device(state, replica, sent, stream, why)
    else:
        updates.order(stream, replica.writers if mode == "r" else replica.users())
    if missing:
        replica.valid |= missing
        state.defined |= missing
    if sent and state.borrows.records and state.handed_out.records:
        state.take_baselines()
    return replica


def _prepare_write(
    state: State, replica: DeviceReplica, mode: Mode, stream: Stream, part: Ranges
) -> None:
    """See that each byte has one value also where a launch is interrupted, so that nobody says
    whether the kernel was handed over: that on the device, but where it was to be overwritten,
    that of the other places."""
    if replica.writers != (stream,):
        replica.writers = writes.with_earlier((stream,), replica.writers)
    for other in state.all_replicas():
        if other is replica:
            continue
        if mode == "w":
            replica.valid -= other.valid & part
        else:
            other.valid -= part


def _shared(state: State, mode: Mode, stream: Stream, why: str, part: Ranges) -> Block:
    """The host's memory, for work of a device that reaches it."""
    shared, on_host = state.shared, state.on_host
    assert shared is not None
    writes.count_unreported(state, shared.device, part)
    state.account.used(part.nbytes, on_host.valid.covers(part & state.defined))
    if mode != "w":
        updates.fetch(state, why, part - on_host.valid)
    else:
        updates.prepare_overwriting(state, why, part)
    updates.order(stream, state.host_writers if mode == "r" else shared.users())
    shared.use(stream)
    on_host.acquired |= part
    return shared
