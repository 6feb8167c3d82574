"""Eviction: replicas on a device go where it has no room for something else, and no byte is lost.

The least recently used go first. First those are dropped that nobody needs, as the bytes are
current elsewhere or are out of date; that costs no copy. Then those are spilled whose bytes have to
be copied to the host before.
"""

import sys
from functools import partial
from types import SimpleNamespace

from haulage.runtime.coherence import updates, writes
from haulage.runtime.coherence.state import DeviceReplica, State, all_states
from haulage.runtime.devices.device import Device
from haulage.runtime.geometry.ranges import Ranges
from haulage.runtime.process import call_sites
from haulage.runtime.process.runtime import Runtime
from haulage.runtime.transfers.entries import HOST


def make_room(device: Device, nbytes: int, enough: int, copying: bool) -> int:
    """Evict replicas for an allocation of `nbytes` until `enough` bytes are given back; how many
    were. Only with `copying` are bytes copied to the host for that."""
    asked = call_sites.site(call_sites.current())
    why = (
        f"{'spilled' if copying else 'dropped'}: {device} had no room for {nbytes:,} bytes at "
        f"{asked.filename}:{asked.line}"
    )
    found = [
        (used, state) for state in all_states() if (used := _last_use(state, device)) is not None
    ]
    freed = 0
    for _, state in sorted(found, key=lambda one: one[0]):
        if freed >= enough:
            break
        freed += evict(state, device, copying, why)
    return freed


def _last_use(state: State, device: Device) -> int | None:
    """When the replica on a device was used last; 0: it is out of date; None: there is none."""
    replica = state.replicas.get(device)
    if replica is None:
        return None
    return replica.used if replica.valid else 0


def evict(state: State, device: Device, copying: bool, why: str) -> int:
    """Give the memory of a replica back if nobody uses it; how many bytes.

    Without `copying` only if that needs no copy. `why` is recorded. It never waits for another
    thread that is at work with the storage: then it gives 0.

    Raises:
        KernelError: a kernel that was waited for had failed.
    """
    # Who is inside may itself wait for the thread that looks for room.
    if not state.lock.enter_within(0):
        return 0
    try:
        state.forget_closed()
        replica, exports = state.replicas.get(device), state.exports
        if not state.nbytes or replica is None or _is_in_use(replica):
            return 0
        if exports.baseline.of(device):
            return 0
        if exports.of(device):
            # Nobody has it any more, but it may have been written to before.
            device.finish()
            for export in exports.end(device):
                part = export.part & replica.valid
                writes.record(state, device, part, (), export.call_site)
        if not _is_safe_without(state, device, replica, copying, why):
            return 0
        if replica.read_since_write and replica.valid:
            state.evicted.add(device)
        del state.replicas[device]
        return state.nbytes
    finally:
        state.lock.__exit__()


def _is_safe_without(
    state: State, device: Device, replica: DeviceReplica, copying: bool, why: str
) -> bool:
    """Whether no byte is lost with a replica; with `copying`, after its bytes were copied."""
    own = replica.valid & state.defined
    baseline = state.handed_out.baseline
    known = own & baseline.of(device)
    # The program may have written to its array and not reported it yet.
    if known and not (copying and updates.is_as_on_host(baseline.values, known, device, replica)):
        return False
    if state.borrows.records:
        # What views may have written is the host's, as for anybody who needs it.
        own -= state.borrows.fresh() & state.on_host.valid
    if not own:
        _note_dropped(state, device, Ranges(), why)
        return True
    if replica.read_since_write:
        # Work that writes may be in any stream.
        replica.writers = replica.users()
    elsewhere = Ranges()
    for other in state.all_replicas():
        if other is not replica:
            elsewhere |= other.valid
    if elsewhere.covers(own):
        if not replica.read_since_write:
            _note_dropped(state, device, Ranges(), why)
            return True
        # Whoever has the bytes for reading may have written, and reports it later.
        if (
            not copying
            or state.host is None
            or not state.on_host.valid.covers(own)
            or not updates.is_as_on_host(state.host, own, device, replica)
        ):
            return False
        _note_dropped(state, device, own, why)
        return True
    if not copying or state.not_being_written(own) != own:
        return False
    if state.host is None:
        state.host = updates.room_on_host(device, state.nbytes)
    if state.host is None:
        return False
    updates.bring_to_host(state, "r", why, own)
    return True


def _note_dropped(state: State, device: Device, compared: Ranges, why: str) -> None:
    stream = device.default_stream.handle
    state.account.moved(str(device), HOST, compared, stream, why)


# ---- who has a replica ----------------------------------------------------------------------


def _is_in_use(replica: DeviceReplica) -> bool:
    """Whether anybody may use it without acquiring it once more."""
    block = replica.block
    if replica.writing or block.closed or block.exported:
        return True
    del block
    # In this order: who has an array may make a view and let it go, but not the other way.
    if any(sys.getrefcount(replica.arrays.get(key)) > _KEPT for key in tuple(replica.arrays)):
        return True
    return sys.getrefcount(replica.block) > _ALONE + len(replica.arrays)


# How many references Python counts where only the replica has its block, or an array over it.
_SAMPLE = SimpleNamespace(block=object(), arrays={0: object()})
_ALONE = sys.getrefcount(_SAMPLE.block)
_KEPT = sys.getrefcount(_SAMPLE.arrays.get(0))


def _names() -> dict[int, str]:
    return {
        replica.block.generation: str(state.name)
        for state in all_states()
        for replica in tuple(state.replicas.values())
    }


def subscribe(to: Runtime) -> None:
    """Let replicas be evicted where a device has no room, and give blocks their storages' names."""
    to.block_names.append(_names)
    to.evict.append(partial(make_room, copying=False))
    to.spill.append(partial(make_room, copying=True))
