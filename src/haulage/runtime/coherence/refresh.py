"""Views of the host that are out of date are brought up to date when the program waits.

That is where a program that has waited for a kernel expects to see what it wrote.
"""

from haulage import forks
from haulage.errors import HaulageError
from haulage.runtime.coherence import updates, writes
from haulage.runtime.coherence.borrows import outdated_views
from haulage.runtime.coherence.state import State
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.process.runtime import AfterWait, Runtime

# Seconds in which others at work with a storage are done, unless they wait for one who waits.
_PATIENCE = 10

# Who has waited finds views up to date, also those that another thread is about to bring.
_one_at_a_time = forks.lock()
# Those that are being refreshed, which are in `outdated_views` no more.
_refreshing: list[State] = []


def at_wait(device: Device, stream: Stream | None) -> None:
    """Refresh what a device wrote, as the program has waited for it or for a stream of it.

    Raises:
        KernelError, CoherenceError: as `refresh`; what else there is is refreshed before.
    """
    errors = []
    with _one_at_a_time:
        for state in outdated_views.of(device):
            if stream is None or _has_written(stream, state, device):
                _refreshing.append(state)
                outdated_views.remove(state, device)
                try:
                    if not refresh(state, device, "synchronize()"):
                        # At the next wait.
                        outdated_views.add(state, device)
                except HaulageError as error:
                    errors.append(error)
                finally:
                    _refreshing.pop()
    if errors:
        raise errors[0]


def _has_written(stream: Stream, state: State, device: Device) -> bool:
    """Whether all writes to a replica are done when `stream` is."""
    replica = state.replicas.get(device)
    writers = () if replica is None else replica.writers
    return all(other == stream or other.idle() for other in writers)


def refresh(state: State, device: Device, why: str) -> bool:
    """Bring views that live up to date with what a device wrote; False if somebody is at work with
    the storage and does not come to an end, as he may wait for this thread.

    Raises:
        KernelError: a kernel that was waited for had failed.
        CoherenceError: such a view was written to at the same time as a device.
    """
    if not state.lock.enter_within(_PATIENCE):
        return False
    try:
        writes.merge_with_exports(state)
        if any(state.borrows.out_of_date(device)):
            # What is gone is no longer to be brought up to date.
            writes.count_borrows(state)
        for part in state.borrows.out_of_date(device):
            state.check_lost("r", part)
            updates.bring_to_host(state, "r", why, part)
        state.take_baselines()
        return True
    except HaulageError:
        if not state.lost:
            # Losses are told once; all else is tried again at the next wait.
            outdated_views.add(state, device)
        raise
    finally:
        state.lock.__exit__()


def subscribe(to: Runtime) -> None:
    """Let views be refreshed when the program waits."""
    to.after_wait.append(AfterWait(at_wait, (outdated_views, _refreshing)))
