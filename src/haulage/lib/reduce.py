"""`cuda.reduce`: one value of all elements of an array, by a function of two of them."""

import operator
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from haulage import api
from haulage.kernel import Kernel, cuda_jit
from haulage.kernel.configuration import in_blocks
from haulage.kernel.launcher import Launcher
from haulage.lang.index import blockIdx, threadIdx
from haulage.lang.memory import shared
from haulage.lang.sync import syncthreads
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.arrays.host_arrays import HostVisibleNDArray
from haulage.runtime.arrays.new import dense_array
from haulage.runtime.buffers.coherent import is_coherent, overwritten_in, read_in
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device
from haulage.runtime.devices.stream_arguments import StreamLike, device_of, for_work
from haulage.tracebacks import brief_errors

# The first pass leaves one partial result per block, at most this many.
_THREADS = 256
_MOST_BLOCKS = 256
_ROW = np.uint64(_THREADS)

# A second launch costs more than this many turns of one block.
_LEAST_TURNS = 32

_NUMBERS, _TIMES = "biufc", "mM"


class Reduce:
    """A reduction by a function of two elements, which has to be associative and commutative.

    Threads combine elements that are far from one another, so that the order of the operands is
    any, in Numba as well. Sums of floats are not associative: they depend on the number of
    elements, but are the same each time and on each device.

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
        self._launchers: dict[np.dtype[Any], Launcher] = {}  # for one block

    @brief_errors
    def __call__(
        self,
        arr: Any,
        size: int | None = None,
        res: DeviceNDArray | HostVisibleNDArray | None = None,
        init: Any = 0,
        stream: StreamLike = 0,
    ) -> Any:
        """Reduce `arr`, on the device that it is on.

        Each step's result is converted to the dtype of `arr`, as an assignment to an element is.

        Args:
            arr: an array with one axis, of numbers, datetime64 or timedelta64: one on the device
                (also mapped, managed, or another library's), a SmartArray, which comes to the
                device if it is not current there, or what `np.asarray` makes one of; that is copied
                to the device.
            size: how many elements to take, from the start; None: all.
            res: an array on the device, or a SmartArray, of the dtype of `arr`, whose first element
                gets the result; nothing is then copied to the host. It may share memory with `arr`.
            init: a further operand, a value of the dtype of `arr`. It always takes part, as in
                Numba: a product needs `init=1`, and dates one of theirs. Of an array of
                timedelta64 an int counts in its unit.
            stream: in which all of it happens.

        Returns:
            The result as a NumPy scalar, or None if `res` is given. It is `init` if there are no
            elements.

        Raises:
            TypeError: `arr` has not one axis, or elements of another kind; `res` is no array on
                the device with one axis, or has another dtype.
            ValueError: `size` is negative or beyond the array; `init` is no value of the dtype;
                `res` has no elements or is read-only.
            DeviceMismatch: `arr`, `res` and `stream` are of different devices.
            CompileError: the function cannot be compiled for the dtype.
        """
        given = arr if is_coherent(arr) else _on_device(arr)
        array: Any = np.asarray(arr) if given is None else given
        dtype = array.dtype
        _check_array(array)
        count = _checked_size(size, array.size)
        taken = array if count == array.size else array[:count]
        first = _converted(init, dtype)
        target: Any = None if res is None else _result(res, dtype)
        if target is None and not taken.size:
            return first
        place = _place(target, taken, stream)
        bound = for_work(stream, place)
        with ExitStack() as acquired:
            if is_coherent(taken):
                taken = read_in(bound, taken, "reduce")
            if is_coherent(target):
                target = acquired.enter_context(overwritten_in(bound, target[:1], "reduce"))
            if target is not None and not taken.size:
                target.setitem(slice(0, 1), first, stream)
                return None
            x = api.to_device_of(place, taken, stream)
            out = _room(1, x, stream) if target is None else target[:1]
            self._reduce(x, out, first, stream or 0)
        return None if target is not None else out.copy_to_host(stream=stream)[0]

    def _reduce(self, x: DeviceNDArray, out: DeviceNDArray, init: Any, stream: StreamLike) -> None:
        of_one = self._launchers.get(x.dtype)
        if of_one is None:
            made = Launcher(_kernel(self.functor, x.dtype), in_blocks(1, _THREADS))
            of_one = self._launchers.setdefault(x.dtype, made)
        kernel = of_one.kernel
        turns = max(-(-x.size // (_THREADS * _MOST_BLOCKS)), _LEAST_TURNS)
        blocks = -(-x.size // (_THREADS * turns))
        if blocks > 1:
            partials = _room(blocks, x, stream)
            first = in_blocks(blocks, _THREADS, stream)
            kernel.launch(first, (x, partials, _THREADS * turns, init, False))
            x = partials
        if isinstance(stream, int):
            of_one(x, out, x.size, init, True)
        else:
            kernel.launch(in_blocks(1, _THREADS, stream), (x, out, x.size, init, True))

    def __repr__(self) -> str:
        return f"<reduction by {_name(self.functor)}>"


def _kernel(functor: Callable[[Any, Any], Any], dtype: np.dtype[Any]) -> Kernel:
    # Dates and times have no conversion by call, and no function of two of them widens them.
    convert = dtype.type if dtype.kind in _NUMBERS else _same

    def reduce_blocks(x: Any, out: Any, share: Any, init: Any, last: Any) -> None:
        # Each block takes a share of neighbours, a row of one element per thread at a time, and
        # keeps one value per thread. Then its threads halve the number of values.
        room = shared.array(_THREADS, dtype)
        thread = np.uint64(threadIdx.x)
        # Unsigned, so that no index has to be looked at for being negative.
        start = np.uint64(blockIdx.x) * np.uint64(share)
        end = min(start + np.uint64(share), np.uint64(x.size))
        rest = end - (end - start) % _ROW
        if start < rest:
            value = x[start + thread]
            for row in range(start + _ROW, rest, _ROW):
                value = convert(functor(value, x[row + thread]))
            if rest + thread < end:
                value = convert(functor(value, x[rest + thread]))
            room[thread] = value
        elif start + thread < end:
            room[thread] = x[start + thread]
        syncthreads()
        left = min(_ROW, end - start)
        while left > 1:
            half = (left + np.uint64(1)) >> np.uint64(1)
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


def _same(value: Any) -> Any:
    return value


def _on_device(array: Any) -> DeviceNDArray | None:
    """The array as a device array if it is on a device."""
    if isinstance(array, HostVisibleNDArray) and api.is_cuda_array(array):
        return array.device_view()
    if not isinstance(array, DeviceNDArray) and api.is_cuda_array(array):
        return api.as_cuda_array(array)
    return array if isinstance(array, DeviceNDArray) else None


def _place(target: Any, array: Any, stream: StreamLike) -> Device:
    """The device on which to work: the stream's, the arrays', or the current one."""
    named = device_of(stream)
    if named is not None:
        return named
    on_device = [each.device for each in (target, array) if isinstance(each, DeviceNDArray)]
    return on_device[0] if on_device else current_device()


def _room(size: int, like: DeviceNDArray, stream: StreamLike) -> DeviceNDArray:
    return dense_array((size,), (like.dtype.itemsize,), like.dtype, stream, like.device)


def _name(functor: Any) -> str:
    return str(getattr(functor, "__name__", functor))


def _check_array(array: Any) -> None:
    if array.ndim != 1:
        raise TypeError(
            f"reduce: an array of shape {array.shape}; only support 1D array: give it a.ravel()"
        )
    if array.dtype.kind not in _NUMBERS + _TIMES:
        raise TypeError(f"reduce: an array of dtype {array.dtype}; expected numbers or times")


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
    convert = _time if dtype.kind in _TIMES else _number
    try:
        if init is None:
            raise TypeError("expected an operand")  # NumPy would make it nan
        return convert(init, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"reduce: init={init!r} is no value of dtype {dtype}: {error}") from error


def _number(init: Any, dtype: np.dtype[Any]) -> Any:
    value = dtype.type(init)
    # Rounding to a float is an ordinary conversion; losing a fraction or wrapping around is not.
    if dtype.kind in "biu" and value != init:
        raise ValueError(f"it would become {value}")
    return value


def _time(init: Any, dtype: np.dtype[Any]) -> Any:
    # NumPy's timedelta64 is an integer to `isinstance`.
    is_int = isinstance(init, int | np.integer) and not isinstance(init, np.timedelta64)
    if is_int and dtype.kind == "M":
        raise ValueError("expected a date or time")
    value = dtype.type(init, np.datetime_data(dtype))
    if not is_int and not np.isnat(value) and value != dtype.type(init):
        raise ValueError(f"it would become {value}")
    return value


def _result(res: Any, dtype: np.dtype[Any]) -> Any:
    """`res` as a device array, or as it is if it moves itself."""
    array = res if is_coherent(res) else _on_device(res)
    if array is None or array.ndim != 1:
        raise TypeError(
            f"reduce: res={res!r}; expected a device array with one axis, or such a SmartArray"
        )
    if array.dtype != dtype:
        raise TypeError(f"reduce: res has dtype {array.dtype}; expected the array's, {dtype}")
    if not array.size:
        raise ValueError("reduce: res has no elements; expected room for one")
    if not is_coherent(array) and array.readonly:
        raise ValueError("reduce: res is read-only")
    return array
