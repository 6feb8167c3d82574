# cython: auto_pickle=False
"""Waits for what is done already: nothing waits, and nobody is told."""

from haulage._core.memory cimport (
    DeviceBase,
    RuntimeBase,
    current_device,
    current_runtime,
    is_pending,
)


cdef bint _is_ordinary(DeviceBase device) except -1:
    """Whether nobody is told of a wait, and nothing but work of streams can be waited for."""
    cdef RuntimeBase runtime = current_runtime()
    return not (
        device.queues is None
        or runtime.observer is not None
        or runtime.after_wait
        or runtime.captures
        or runtime.printing
        or device.capturing
    )


def all_done():
    """Whether `synchronize()` has nothing to do: all work of the current device is done, none has
    failed, and no memory waits for work. False: it takes more than a look."""
    cdef DeviceBase device = current_device()
    return not is_pending() and _is_ordinary(device) and device.queues.are_idle()


def device_done(DeviceBase device not None):
    """`all_done`, of a device and without the memory."""
    return _is_ordinary(device) and device.queues.are_idle()


def stream_done(DeviceBase device not None, unsigned long long handle):
    """`device_done`, of a stream of a device."""
    return _is_ordinary(device) and device.queues.is_idle(handle)
