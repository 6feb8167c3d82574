"""A kernel as the function of a block: how it is sent to workers, and launched there."""

import math
import pickle
import threading
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
from dask.tokenize import tokenize

from haulage.api.arrays import to_device_of
from haulage.kernel import Kernel, Launcher
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.arrays.host_arrays import HostVisibleNDArray
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry import layout
from haulage.smart import SmartArray

# Threads of a block for one, two and three axes; for more, one axis of threads covers all elements.
_THREADS: dict[int, tuple[int, ...]] = {1: (256,), 2: (8, 32), 3: (2, 4, 32)}
_FLAT = 256

Threads = int | tuple[int, ...] | None

# The kernels that tasks of this process were sent, by their tokens: each is compiled once.
_known: dict[str, Kernel | Launcher] = {}
_knowing = threading.Lock()
# A thread of a worker launches in a stream of its own, and waits for that.
_of_thread = threading.local()


def is_kernel(function: Any) -> TypeGuard[Kernel | Launcher]:
    """Whether it is a kernel, or one with a launch configuration."""
    return isinstance(function, (Kernel, Launcher))


class OnBlocks:
    """Launches a kernel on blocks: `kernel[...](*blocks_and_scalars, out)`, which gives `out`.

    Args:
        kernel: the kernel; one with a configuration is launched with that.
        dtype: of `out`.
        threads: of a block: a tuple for the axes of `out`, an int for all its elements in a row.
        depth: by how much `out` is smaller than the first array, at both ends of each axis.
    """

    def __init__(
        self,
        kernel: Kernel | Launcher,
        dtype: np.dtype,
        threads: Threads,
        depth: tuple[int, ...] = (),
    ) -> None:
        self.kernel = kernel
        self.dtype = dtype
        self.threads = threads
        self.depth = depth
        self.token: str = tokenize(kernel)
        self.sent: bytes | None = None
        self.__name__ = name_of(kernel)

    def __dask_tokenize__(self) -> Any:
        return type(self).__name__, self.token, str(self.dtype), self.threads, self.depth

    def __reduce__(self) -> Any:
        if self.sent is None:
            self.sent = pickle.dumps(self.kernel)
        return _received, (type(self), self.token, self.sent, self.dtype, self.threads, self.depth)

    def __call__(self, *args: Any) -> DeviceNDArray:
        return self._launch(args, self._shape(args))

    def _shape(self, args: Sequence[Any]) -> tuple[int, ...]:
        if self.depth:
            shape = args[0].shape
            return tuple(n - 2 * by for n, by in zip(shape, self.depth, strict=True))
        return np.broadcast_shapes(*(each.shape for each in args if hasattr(each, "shape")))

    def _launch(self, args: Sequence[Any], shape: tuple[int, ...]) -> DeviceNDArray:
        device = (
            next((each.device for each in args if isinstance(each, DeviceNDArray)), None)
            or current_device()
        )
        stream = _stream_of(device)
        only_read = not self._plain._only_declared
        given = [_given(each, device, stream, only_read) for each in args]
        out = DeviceNDArray(shape, layout.c_strides(shape, self.dtype.itemsize), self.dtype, stream)
        out = out.bind(0)
        out.fill(np.zeros((), self.dtype)[()], stream)
        if out.size:
            self._configured(shape, stream)(*given, out)
        # The task that launched it fails with it, and its result is there for every stream.
        stream.synchronize()
        return out

    @property
    def _plain(self) -> Kernel:
        return self.kernel.kernel if isinstance(self.kernel, Launcher) else self.kernel

    def _configured(self, shape: tuple[int, ...], stream: Stream) -> Launcher:
        if isinstance(self.kernel, Launcher):
            return self.kernel.in_stream(stream)
        wanted: Threads = self.threads or _THREADS.get(len(shape), _FLAT)
        assert wanted is not None
        threads: tuple[int, ...] = (wanted,) if isinstance(wanted, int) else wanted
        if isinstance(wanted, int):
            shape = (math.prod(shape),)
        blocks = tuple(-(-n // by) for n, by in zip(shape, threads, strict=True))
        return self._plain[blocks, threads, stream]


class OnSizedBlocks(OnBlocks):
    """`OnBlocks` whose `out` has the shape that Dask says."""

    def __call__(self, *args: Any, block_info: Any = None) -> DeviceNDArray:
        return self._launch(args, tuple(block_info[None]["chunk-shape"]))


def name_of(kernel: Any) -> str:
    """The name of a kernel's function."""
    plain = kernel.kernel if isinstance(kernel, Launcher) else kernel
    return str(getattr(plain, "__name__", type(plain).__name__))


def _received(
    kind: type[OnBlocks],
    token: str,
    sent: bytes,
    dtype: np.dtype,
    threads: Threads,
    depth: tuple[int, ...],
) -> OnBlocks:
    with _knowing:
        kernel = _known.get(token)
        if kernel is None:
            kernel = _known[token] = pickle.loads(sent)
    made = kind.__new__(kind)
    made.kernel, made.token, made.dtype = kernel, token, dtype
    made.threads, made.depth, made.__name__ = threads, depth, name_of(kernel)
    made.sent = sent
    return made


def _stream_of(device: Device) -> Stream:
    streams = _of_thread.__dict__.setdefault("streams", {})
    stream = streams.get(device)
    if stream is None:
        stream = streams[device] = Stream.create(device)
    return stream


def _given(value: Any, device: Device, stream: Stream, only_read: bool) -> Any:
    """An argument of the kernel: arrays are on the device, and protected, as others use them."""
    if isinstance(value, (HostVisibleNDArray, SmartArray)):
        return value
    if isinstance(value, np.ndarray):
        value = to_device_of(device, value)
    if isinstance(value, DeviceNDArray) and only_read and not value.readonly:
        value = value._view(value.shape, value.strides)
        value._protect()
    return value
