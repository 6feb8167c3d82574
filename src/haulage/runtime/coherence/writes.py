"""Writes to a storage: what they make out of date, and how writes that nobody reports are found.

Nobody reports what is written through NumPy views that were borrowed, through memory that was
exported, and to device arrays that were handed out, until `mark_changed`. It is counted as written
when the bytes are needed at another place.
"""

import numpy as np

from haulage.errors import CoherenceError
from haulage.runtime.coherence import updates
from haulage.runtime.coherence.borrows import Borrow, outdated_views
from haulage.runtime.coherence.state import DeviceReplica, Place, State
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry.ranges import Ranges
from haulage.runtime.process import call_sites
from haulage.runtime.process.call_sites import CallSite
from haulage.runtime.transfers.entries import HOST, OTHERS, View


def record(
    state: State,
    place: Place,
    part: Ranges,
    writers: tuple[Stream, ...],
    call_site: CallSite,
    view: View | None = None,
) -> None:
    """Bytes were written at a place, or will be by work of `writers`: they are current only there.

    Args:
        call_site: the line that wrote them.
        view: what they were written through, if they only count as written.
    """
    written = state.replica(place)
    assert written is not None
    state.last_written = place
    written.call_site = call_site
    state.account.wrote(call_site, part, view)
    state.defined |= part
    if state.lost:
        state.lost = [(left, where) for lost, where in state.lost if (left := lost - part)]
    if not isinstance(place, str) and written is not state.on_host:
        outdate_views(state, place, part, call_site)
    written.valid |= part
    if written is not state.on_host:
        state.on_host.outdate(part)
    for replica in state.replicas.values():
        if replica is written:
            replica.read_since_write = False
        else:
            replica.outdate(part)
            replica.read_since_write = replica.read_since_write and bool(replica.valid)
    if isinstance(written, DeviceReplica):
        written.writers = with_earlier(writers, written.writers)
    elif writers:
        state.host_writers = with_earlier(writers, state.host_writers)
    state.evicted.clear()
    if state.handed_out.baseline.parts:
        state.handed_out.baseline.forget(part)
    if state.exports.records:
        _update_exports(state, part)


def with_earlier(writers: tuple[Stream, ...], earlier: tuple[Stream, ...]) -> tuple[Stream, ...]:
    """`writers` after those of `earlier` that are not done. They need not be ordered: between the
    time when work was ordered and when it is handed over, other threads hand over theirs."""
    if not earlier or earlier == writers:
        return writers
    return (*(one for one in earlier if one not in writers and not one.idle()), *writers)


def outdate_views(state: State, device: Device, part: Ranges, since: CallSite) -> None:
    """A device wrote bytes: views of them are out of date until the program waits for it."""
    if state.borrows.records:
        assert state.host is not None
        if state.borrows.outdate(part, state.host, device, since):
            outdated_views.add(state, device)


def _update_exports(state: State, part: Ranges) -> None:
    """Copy bytes that were written elsewhere to memory that other libraries have."""
    why = "another library"
    state.exports.baseline.forget(part)
    for device, replica in tuple(state.replicas.items()):
        missing = state.exports.of(device) & part - replica.valid
        if missing and not replica.block.closed:
            updates.bring_to_host(state, "r", why, missing)
            updates.upload_now(state, device, replica, missing, state.on_host.valid, why)
            replica.valid |= missing
    state.take_baselines()


# ---- writes that nobody reports -------------------------------------------------------------


def wait_for_exports(state: State, place: Place, writing: bool) -> None:
    """Wait for what other libraries do with devices' memory before a place has the bytes, `writing`
    to write to them. Not under the lock: their work may be what a thread in it waits for."""
    if state.exports.records:
        viewed = bool(state.borrows.records)
        for device in state.exports.devices_in_use(_device_of(place), writing, viewed):
            device.finish()


def count_unreported(
    state: State, place: Place, part: Ranges, needed: Ranges | None = None
) -> None:
    """Count what was written through views and by other libraries when `part` is needed at `place`,
    after `wait_for_exports`.

    Args:
        needed: on a device, what counts as written through views that live; those that are gone
            count with all their bytes.

    Raises:
        CoherenceError: the same elements were written in two places.
    """
    if state.borrows.pending:
        count_pending(state, part)
    if state.exports.records:
        merge_with_exports(state)
        _count_exports(state, _device_of(place), part)
    if state.borrows.records:
        count_borrows(state, needed)


def count_pending(state: State, part: Ranges) -> None:
    """Count views as written whose `with` goes on, if somebody needs some of their bytes."""
    borrows = state.borrows
    for one in [one for one in borrows.pending if one.part & part]:
        borrows.pending.remove(one)
        state.end_host_write(one.part)
        record(state, HOST, one.part, (), one.call_site, one.view)


def count_borrows(state: State, needed: Ranges | None = None) -> None:
    """Count what was written through views: `needed` for those that live, see `Borrows.written`."""
    in_baseline = state.exports.baseline.of_all()
    for own, one in state.borrows.written(needed, state.host):
        _count_on_host(state, own - in_baseline, one, one.view)


def count_borrow(state: State, one: Borrow) -> None:
    """Count what was written through one view, for sure; enters the lock."""
    wait_for_exports(state, HOST, True)
    with state.lock:
        merge_with_exports(state)
        _count_on_host(state, one.fresh - state.exports.baseline.of_all(), one)


def count_borrows_beside(state: State, device: Device, part: Ranges) -> None:
    """Count what was written through views since the program was handed a device array to which it
    has written `part`."""
    baseline = state.handed_out.baseline
    part &= baseline.of(device)
    if part and state.host is not None:
        changed = baseline.changed(part, state.host)
        for one in state.borrows.records:
            _count_on_host(state, one.fresh & changed, one, one.view)


def _count_on_host(state: State, part: Ranges, one: Borrow, view: View | None = None) -> None:
    part &= state.on_host.valid
    if part:
        record(state, HOST, part, (), one.call_site, view)


def _count_exports(state: State, place: Device | None, needed: Ranges) -> None:
    in_baseline = state.exports.baseline.of_all()
    for export, part in state.exports.written(place, needed):
        replica = state.replica(export.device)
        if replica is not None:
            own = state.not_being_written(part - in_baseline) & replica.valid
            if own:
                view = View(OTHERS, export.is_alive)
                record(state, export.device, own, (), export.call_site, view)


def merge_with_exports(state: State) -> None:
    """Where a view of the host and another library can both write, find what either has written,
    and bring it to the other; after `wait_for_exports`.

    Raises:
        CoherenceError: both have written the same elements.
    """
    for device, replica in tuple(state.replicas.items()):
        part = state.not_being_written(state.exports.baseline.of(device))
        if part and not replica.block.closed:
            _merge_with(state, device, replica, part)


def _merge_with(state: State, device: Device, replica: DeviceReplica, part: Ranges) -> None:
    host, exports, why = state.host, state.exports, "another library and a view"
    assert host is not None
    mine, theirs = exports.baseline.changed(part, host), Ranges()
    if exports.is_written(device):
        there = np.empty_like(host)
        updates.download(there, part, device, replica, state.account, why)
        theirs = exports.baseline.changed(part, there)
        for start, stop in theirs:
            host[start:stop] = there[start:stop]
    both, viewed = mine & theirs, state.borrows.call_site_of(mine)
    error = exports.collision(device, both, viewed) if both else None
    mine -= theirs
    if theirs:
        state.account.wrote(exports.call_site_of(device, theirs), theirs)
    if mine:
        state.account.wrote(viewed, mine)
        updates.upload_now(state, device, replica, mine, part, why)
    changed = mine | theirs
    for other in state.replicas.values():
        if other is not replica:
            other.outdate(changed)
    exports.baseline.forget(changed)
    _update_exports(state, changed)
    if error is not None:
        raise error


def conflict(state: State, place: Place, call_site: CallSite) -> CoherenceError:
    """The error for a place that was acquired, and written by a line after another place was."""
    return CoherenceError(
        f"{state.name}: {place} and {state.last_written} were written at the same time"
        f"{state.last_write_in_words()}, {place} at {call_sites.site(call_site)}; order these "
        "writes, or give each of them an array of its own"
    )


def not_current(state: State, place: Place) -> CoherenceError:
    """The error for a place that is said to have been written and was not current before."""
    return CoherenceError(
        f"{state.name}: mark_changed({str(place)!r}), but the bytes there are not "
        f"current{state.last_write_in_words()}; call get({str(place)!r}) before writing there"
    )


def _device_of(place: Place) -> Device | None:
    return None if isinstance(place, str) else place
