"""How a `Copy` is carried out: handed to its stream, waited for, observed and recorded."""

from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from haulage.backends.base import Backend
from haulage.errors import CaptureError
from haulage.runtime import memory
from haulage.runtime.buffers import host_copy, pinned_memory, staging
from haulage.runtime.buffers.copy import BETWEEN, NOTHING, TO_DEVICE, TO_HOST, WITHIN, Copy, Side
from haulage.runtime.devices.capture import check_takes_work
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry.numpy_arrays import address_of
from haulage.runtime.process import observing, runtime

# What those who observe streams call each direction.
_KINDS = {
    TO_DEVICE: observing.UPLOAD,
    TO_HOST: observing.DOWNLOAD,
    WITHIN: observing.COPY,
    BETWEEN: observing.COPY,
}


def enqueue(copy: Copy) -> None:
    """Hand a copy to its stream."""
    if copy.shape == NOTHING:
        return
    stream = copy.stream
    device = stream.device
    if device.capturing:
        check_takes_work(stream)
    watching = runtime.current.observer
    if watching is not None and not watching.inside:
        work = (observing.COPY, "", copy.nbytes, enqueue, copy)
        watching.around(device, stream.handle, *work)
        return
    device.activate()
    if copy.parts is None:
        _hand_over(copy, device.backend, stream.handle)
    else:
        for offset, nbytes in copy.parts:
            _hand_over(copy.of_part(offset, nbytes), device.backend, stream.handle)


def _hand_over(copy: Copy, backend: Backend, handle: int) -> None:
    (target, to), (source, of) = copy.target, copy.source
    shape, itemsize = copy.shape, copy.itemsize
    if not shape:
        backend.copy(target, source, itemsize, handle)
    elif len(shape) == 1 and to[0] == of[0] == itemsize:
        backend.copy(target, source, shape[0] * itemsize, handle)
    else:
        backend.copy_nd(target, to, source, of, shape, itemsize, handle)


def perform(copy: Copy) -> None:
    """Make a copy to or from the host, and wait for it unless it may run on.

    It may in a stream that is not the default one, if the host memory is pinned; that memory is
    then kept alive until the stream has passed the copy. Other memory goes by way of pinned buffers
    where that is faster. Those who record copies are told.

    Raises:
        CaptureError: the stream is captured, and the host memory is not pinned.
    """
    if runtime.current.watchers and copy.block is not None:
        host_copy.recorded(copy, partial(_perform, copy))
    else:
        _perform(copy)


def _perform(copy: Copy) -> None:
    stream, host = copy.stream, copy.host
    assert host is not None, "a copy to or from the host"
    device, handle = stream.device, stream.handle
    is_large = host.nbytes >= staging.LEAST and device.properties.stages_copies
    is_pinned = (handle != 0 or is_large) and pinned_memory.note_pinned(host, stream)
    if not is_pinned and handle in device.capturing:
        raise CaptureError(
            f"a copy of host memory that is not pinned waits until it is done, so {stream!r}, "
            "which is being captured, cannot take it; use pinned_array(), or make the copy outside "
            "of the graph"
        )
    if not device.properties.host_memory_is_device_memory and copy.overlaps():
        _perform_apart(copy)
    elif is_large and not is_pinned and copy.shape != NOTHING:
        _perform_staged(copy)
    else:
        _perform_directly(copy, wait=not (is_pinned and handle != 0))


def _perform_apart(copy: Copy) -> None:
    """Make a copy by way of another host array; it is done when this returns.

    A driver's copies are not made for both sides being the same memory, as where the host has an
    array over mapped or managed memory.
    """
    copy.stream.finish()
    host = copy.host
    assert host is not None
    there = as_strided(host, copy.shape, copy.on_host.strides)
    between = there.copy()
    side = Side(address_of(between), between.strides)
    if copy.direction is TO_DEVICE:
        _perform(copy._replace(source=side, host=between))
        return
    _perform(copy._replace(target=side, host=between))
    copy.stream.finish()
    there[...] = between


def _perform_staged(copy: Copy) -> None:
    for offset, nbytes in copy.parts or ((0, copy.itemsize),):
        part = copy.of_part(offset, nbytes)
        if not _observed(part, part.written_nbytes, staging.copy):
            _perform_directly(part, wait=True)


def _perform_directly(copy: Copy, wait: bool) -> None:
    try:
        if runtime.current.observer is None:
            enqueue(copy)
        else:
            _observed(copy, copy.nbytes, enqueue)
        if wait:
            copy.stream.finish()
    except BaseException:
        # Ctrl-C may have cut the wait short with the copy under way.
        memory.hold(copy.stream, copy.host)
        raise


def _observed(copy: Copy, nbytes: int, work: Any) -> Any:
    """`work(copy)`, told to whoever observes."""
    watching, stream = runtime.current.observer, copy.stream
    if watching is None or stream.handle in stream.device.capturing:
        return work(copy)
    kind = _KINDS[copy.direction]
    return watching.around(stream.device, stream.handle, kind, "", nbytes, work, copy)


def upload_bytes(host: np.ndarray, stream: Stream, target: int) -> None:
    """Copy a host array of bytes without gaps to an address of the device, unrecorded."""
    perform(Copy.of_bytes(TO_DEVICE, stream, target, address_of(host), host.size, host))


def download_bytes(host: np.ndarray, stream: Stream, source: int) -> None:
    """Copy bytes at an address of the device to a host array without gaps, unrecorded."""
    perform(Copy.of_bytes(TO_HOST, stream, address_of(host), source, host.size, host))
