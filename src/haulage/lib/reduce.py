"""`cuda.reduce`: one value of all elements of an array, by a function of two of them."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from haulage import api
from haulage.kernel import Kernel, cuda_jit
from haulage.lang.index import blockDim, blockIdx, gridsize, threadIdx
from haulage.lang.memory import shared
from haulage.lang.sync import syncthreads
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.stream import StreamLike, device_of

# The first pass leaves one partial result per block, at most this many.
_THREADS = 256
_MOST_BLOCKS = 256


class Reduce:
    """A reduction by a function of two elements, which has to be associative and commutative.

    Use it as a decorator, `@cuda.reduce`, or as `cuda.Reduce(function)`; then call the object with
    an array. It keeps what is compiled, once for each dtype, as long as it lives.

    Args:
        functor: a Python function (a lambda too), a device function made by `@jit(device=True)`,
            or something like `operator.add` that kernels can call.

    Raises:
        TypeError: it cannot be called.
    """

    def __init__(self, functor: Callable[[Any, Any], Any]) -> None:
        if not callable(functor):
            raise TypeError(f"reduce({functor!r}): expected a function of two elements")
        self.functor = functor
        self._kernels: dict[np.dtype[Any], Kernel] = {}

    def __call__(
        self,
        arr: Any,
        size: int | None = None,
        res: DeviceNDArray | None = None,
        init: Any = 0,
        stream: StreamLike = 0,
    ) -> Any:
        """Reduce `arr`, on the device that it is on.

        Each step's result is converted to the dtype of `arr`, as an assignment to an element is.

        Args:
            arr: a device array with one axis, of any number dtype, or what `np.asarray` makes such
                an array of; that is copied to the device.
            size: how many elements to take, from the start; None: all.
            res: a device array of the dtype of `arr`, whose first element gets the result; nothing
                is then copied to the host. It may share memory with `arr`.
            init: a further operand, a value of the dtype of `arr`. It always takes part, as in
                Numba: a product needs `init=1`.
            stream: in which all of it happens.

        Returns:
            The result as a NumPy scalar, or None if `res` is given. It is `init` if there are no
            elements.

        Raises:
            TypeError: `arr` has not one axis, or elements that are no numbers; `res` is no device
                array with one axis, or has another dtype.
            ValueError: `size` is negative or beyond the array; `init` is no value of the dtype;
                `res` has no elements or is read-only.
            DeviceMismatch: `arr`, `res` and `stream` are of different devices.
            CompileError: the function cannot be compiled for the dtype.
        """
        host_or_device = arr if isinstance(arr, DeviceNDArray) else np.asarray(arr)
        dtype = host_or_device.dtype
        _check_array(host_or_device)
        taken = host_or_device[: _checked_size(size, host_or_device.size)]
        first = _converted(init, dtype)
        if res is not None:
            _check_result(res, dtype)

        if not taken.size:
            if res is None:
                return first
            res.setitem(slice(0, 1), first, stream)
            return None
        place = device_of(stream) or (res.device if res is not None else None)
        x = api.to_device_of(place, taken, stream)
        out = res[:1] if res is not None else _room(1, x, stream)
        self._reduce(x, out, first, stream or 0)
        return None if res is not None else out.copy_to_host(stream=stream)[0]

    def _reduce(self, x: DeviceNDArray, out: DeviceNDArray, init: Any, stream: StreamLike) -> None:
        kernel = self._kernels.get(x.dtype)
        if kernel is None:
            kernel = self._kernels[x.dtype] = _kernel(self.functor, x.dtype)
        blocks = min(-(-x.size // _THREADS), _MOST_BLOCKS)
        if blocks > 1:
            partials = _room(blocks, x, stream)
            kernel[blocks, _THREADS, stream](x, partials, init, False)
            x = partials
        kernel[1, _THREADS, stream](x, out, init, True)

    def __repr__(self) -> str:
        return f"<reduction by {_name(self.functor)}>"


def _kernel(functor: Callable[[Any, Any], Any], dtype: np.dtype[Any]) -> Kernel:
    convert = dtype.type

    def reduce_blocks(x: Any, out: Any, init: Any, last: Any) -> None:
        # A thread takes every gridsize-th element, then the block's threads halve their number.
        room = shared.array(_THREADS, dtype)
        thread = threadIdx.x
        start = blockIdx.x * blockDim.x
        if start + thread < x.size:
            value = x[start + thread]
            for base in range(start + gridsize(1), x.size, gridsize(1)):
                if base + thread < x.size:
                    value = convert(functor(value, x[base + thread]))
            room[thread] = value
        syncthreads()
        left = min(blockDim.x, x.size - start)
        while left > 1:
            half = (left + 1) // 2
            if thread + half < left:
                room[thread] = convert(functor(room[thread], room[thread + half]))
            syncthreads()
            left = half
        if thread == 0:
            out[blockIdx.x] = convert(functor(init, room[0])) if last else room[0]

    # The name that messages give.
    reduce_blocks.__qualname__ = f"reduce({_name(functor)})"
    kernel: Kernel = cuda_jit(reduce_blocks)
    return kernel


def _room(size: int, like: DeviceNDArray, stream: StreamLike) -> DeviceNDArray:
    return DeviceNDArray((size,), (like.dtype.itemsize,), like.dtype, stream, device=like.device)


def _name(functor: Any) -> str:
    return str(getattr(functor, "__name__", functor))


def _check_array(array: Any) -> None:
    if array.ndim != 1:
        raise TypeError(
            f"reduce: an array of shape {array.shape}; only support 1D array: give it a.ravel()"
        )
    if array.dtype.kind not in "biufc":
        raise TypeError(f"reduce: an array of dtype {array.dtype}; expected numbers")


def _checked_size(size: Any, elements: int) -> int:
    if size is None:
        return elements
    try:
        count = operator.index(size)
    except TypeError:
        raise TypeError(f"reduce: size={size!r}; expected an int or None") from None
    if not 0 <= count <= elements:
        raise ValueError(f"reduce: size={count}, the array has {elements} elements")
    return count


def _converted(init: Any, dtype: np.dtype[Any]) -> Any:
    try:
        value = dtype.type(init)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"reduce: init={init!r} is no value of dtype {dtype}: {error}") from error
    # Rounding to a float is an ordinary conversion; losing a fraction or wrapping around is not.
    if dtype.kind in "biu" and value != init:
        raise ValueError(f"reduce: init={init!r} is no value of dtype {dtype}")
    return value


def _check_result(res: Any, dtype: np.dtype[Any]) -> None:
    if not isinstance(res, DeviceNDArray) or res.ndim != 1:
        raise TypeError(f"reduce: res={res!r}; expected a device array with one axis")
    if res.dtype != dtype:
        raise TypeError(f"reduce: res has dtype {res.dtype}; expected the array's, {dtype}")
    if not res.size:
        raise ValueError("reduce: res has no elements; expected room for one")
    if res.readonly:
        raise ValueError("reduce: res is read-only")
