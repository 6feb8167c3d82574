# cython: auto_pickle=False
"""Waits for what is done already: nothing waits, and nobody is told."""

from haulage._core.memory cimport (
    DeviceBase,
    RuntimeBase,
    current_device,
    current_runtime,
    is_pending,
)


cdef bint _is_asked_at_once(DeviceBase device) except -1:
    """Whether nobody observes waits, and nothing but work of streams can be waited for."""
    cdef RuntimeBase runtime = current_runtime()
    return not (
        device.queues is None
        or runtime.observer is not None
        or runtime.captures
        or runtime.printing
        or device.capturing
    )


cdef bint _is_more_to_do() except -1:
    """Whether something is to be done once the program has waited."""
    for one in <list>current_runtime().after_wait:
        for pending in one.pending:
            if pending:
                return True
    return False


cdef bint is_stream_done(DeviceBase device, unsigned long long handle) except -1:
    """Whether all work of a stream is done, and none has failed. False: it takes more than a look.
    """
    return _is_asked_at_once(device) and device.queues.is_idle(handle)


def all_done():
    """Whether `synchronize()` has nothing to do: all work of the current device is done, none has
    failed, no memory waits for work, and nobody is told of waits. False: it takes more than a look.
    """
    return not is_pending() and device_done(current_device())


def device_done(DeviceBase device not None):
    """`all_done`, of a device and without the memory."""
    return (
        _is_asked_at_once(device) and device.queues.are_idle() and not _is_more_to_do()
    )


def stream_done(DeviceBase device not None, unsigned long long handle):
    """`device_done`, of a stream of a device."""
    return is_stream_done(device, handle) and not _is_more_to_do()
