"""Dask arrays whose blocks are on devices."""

import itertools
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import dask.array as da
import numpy as np
from dask.array.overlap import coerce_boundary, coerce_depth, overlap, trim_internal
from dask.tokenize import tokenize

from haulage.api.arrays import to_device_of
from haulage.dask.kernels import OnBlocks, OnSizedBlocks, Threads, is_kernel, name_of
from haulage.kernel import Launcher
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import find
from haulage.runtime.geometry import layout
from haulage.smart import SmartArray

_WRAPPED = "periodic"
_PADDED = ("reflect", "nearest")


def from_array(
    x: Any, chunks: Any = "auto", device: str | Device | None = None, **options: Any
) -> da.Array:
    """A Dask array of `x` whose blocks are device arrays, each on the worker that has it.

    Args:
        x: what `dask.array.from_array` takes; a device array, whose blocks are views of it; or a
            SmartArray, whose elements come to the host for it.
        chunks: as for `dask.array.from_array`.
        device: a name as in `haulage.use`; None: the current device of each worker.
        options: as for `dask.array.from_array`, where `x` is no device array.

    Raises:
        TypeError: there are options for a device array.
        DeviceNotFound: in the tasks: a worker has no such device.
    """
    if isinstance(x, DeviceNDArray):
        if options:
            raise TypeError(f"from_array(device array): no option {', '.join(options)}")
        return to_device(_views(x, chunks), device)
    if isinstance(x, SmartArray):
        x = x.get("host", "r")
    return to_device(da.from_array(x, chunks, **options), device)


def _views(x: DeviceNDArray, chunks: Any) -> da.Array:
    sizes = da.core.normalize_chunks(chunks, x.shape, dtype=x.dtype)
    name = f"haulage-array-{tokenize(x, sizes)}"
    keys = itertools.product([name], *(range(len(each)) for each in sizes))
    slices = da.core.slices_from_chunks(sizes)
    graph = {key: x[part] if part else x for key, part in zip(keys, slices, strict=True)}
    return da.Array(graph, name, sizes, meta=_meta(x.ndim, x.dtype))


def to_device(darray: da.Array, device: str | Device | None = None) -> da.Array:
    """The Dask array with each block as a device array; blocks that are on the device stay.

    Args:
        darray: of any blocks that `haulage.cuda.to_device` takes.
        device: a name as in `haulage.use`; None: the current device of each worker.
    """
    name = None if device is None else str(device)
    return _mapped(_Upload(name), darray, dtype=darray.dtype)


def to_host(darray: da.Array) -> da.Array:
    """The Dask array with each block as a NumPy array; `compute()` then gives one."""
    return _mapped(_download, darray, dtype=darray.dtype)


class _Upload:
    """Puts a block on a device."""

    __name__ = "to_device"

    def __init__(self, device: str | None) -> None:
        self.device = device

    def __dask_tokenize__(self) -> Any:
        return "haulage.to_device", self.device

    def __call__(self, block: Any) -> DeviceNDArray:
        device = None if self.device is None else find(self.device, "to_device: device")
        if isinstance(block, DeviceNDArray):
            if device is None or block.device is device:
                return block
            block = block.copy_to_host()
        elif not isinstance(block, SmartArray):
            block = np.asarray(block)
        made: DeviceNDArray = to_device_of(device, block)
        return made


def _download(block: Any) -> np.ndarray:
    host: np.ndarray = (
        block.copy_to_host() if isinstance(block, DeviceNDArray) else np.asarray(block)
    )
    return host


def map_blocks(
    function: Callable[..., Any],
    *args: Any,
    dtype: Any = None,
    chunks: Any = None,
    threads: Threads = None,
    **options: Any,
) -> da.Array:
    """A kernel, or a function, for each block; as `dask.array.map_blocks`.

    A kernel is launched as `kernel[blocks, threads](*args, out)`: Dask arrays stand for their
    blocks, everything else is given on as it is, and the last parameter is the block of the result,
    a new device array of zeros. Its shape is that to which the given blocks broadcast, or what
    `chunks` says. The kernel may not write to the other arrays. NumPy blocks are copied to the
    device before. The task waits for the kernel, so an error in it is that of its task.

    Args:
        function: a kernel; a kernel with a configuration, `kernel[8, 128]`, launched with that; or
            a function of blocks (device arrays, SmartArrays, NumPy arrays), which returns one.
        args: Dask arrays, scalars, other arrays.
        dtype: of the result; None: of a kernel that of the first Dask array, of a function what
            Dask finds out.
        chunks: of the result, if they are not those of the arguments.
        threads: of a block of threads; their grid covers `out`. A tuple has a number for each
            axis, the first for `cuda.grid`'s first; an int has all elements of `out` in one row.
            None: 256 for one axis, (8, 32) for two, (2, 4, 32) for three, for more 256 in a row.
        options: for `dask.array.map_blocks`: `name`, `token`, `drop_axis`, `new_axis`, and for a
            function keyword arguments for it as well.

    Raises:
        TypeError: the kernel takes another number of arguments; `threads` has no meaning.
        ValueError: `threads` does not fit the axes of the result.
    """
    if not is_kernel(function):
        if threads is not None:
            raise TypeError(
                f"map_blocks({function!r}, threads={threads!r}): threads are for kernels"
            )
        if dtype is not None:
            options.setdefault("meta", _meta(_axes_of_result(args, chunks, options), dtype))
        return da.map_blocks(function, *args, dtype=dtype, chunks=chunks, **options)
    unknown = set(options) - {"name", "token", "drop_axis", "new_axis"}
    if unknown:
        raise TypeError(
            f"map_blocks({name_of(function)}): no option {', '.join(sorted(unknown))}; a kernel "
            "takes its arguments by position"
        )
    arrays = [each for each in args if isinstance(each, da.Array)]
    if not arrays:
        raise TypeError(f"map_blocks({name_of(function)}): expected a Dask array as an argument")
    kind = np.dtype(arrays[0].dtype if dtype is None else dtype)
    _check_count(function, len(args))
    axes = _axes_of_result(args, chunks, options)
    _check_threads(function, threads, axes)
    sized = chunks is not None or options
    call = (OnSizedBlocks if sized else OnBlocks)(function, kind, threads)
    return _mapped(call, *args, dtype=kind, chunks=chunks, **options)


def map_overlap(
    function: Callable[..., Any],
    array: da.Array,
    *scalars: Any,
    depth: Any = 0,
    boundary: Any = "reflect",
    dtype: Any = None,
    threads: Threads = None,
) -> da.Array:
    """A kernel, or a function, for each block with `depth` elements of its neighbours around it.

    A kernel is launched as `kernel[blocks, threads](padded, *scalars, out)`. `out`, a new device
    array of zeros, is the block without what is around it: element `out[i, j]` lies at
    `padded[i + depth, j + depth]`. A function gets `padded` and the scalars and returns a block of
    the shape of `padded`, of which the outer elements are cut off, as with `dask.array`.

    Args:
        function: as for `map_blocks`.
        array: the Dask array; its blocks are put on the device if they are not there.
        scalars: further arguments.
        depth: how many elements, the same at both ends of an axis: a number, a tuple with one for
            each axis, or a dictionary by axis.
        boundary: what is around the whole array: 'reflect' (the outermost elements once more,
            mirrored), 'nearest', 'periodic', or a number; one for all axes, or a tuple or
            dictionary. With 'none' nothing is around it, which a function can have and a kernel
            cannot.
        dtype: of the result; None: that of `array`.
        threads: as for `map_blocks`.

    Raises:
        TypeError, ValueError: as `map_blocks`; a boundary is unknown, or 'none' for a kernel; a
            depth is negative or differs at the ends of an axis.
    """
    what, kernel = name_of(function), is_kernel(function)
    depths = coerce_depth(array.ndim, depth)
    for axis, by in depths.items():
        if not isinstance(by, Integral) or by < 0:
            raise ValueError(
                f"map_overlap({what}): depth {by!r} of axis {axis}: expected a whole number of 0 "
                "or more, which holds at both ends"
            )
    kinds = coerce_boundary(array.ndim, boundary)
    for axis, each in kinds.items():
        if isinstance(each, str) and each not in (_WRAPPED, *_PADDED, "none"):
            raise ValueError(
                f"map_overlap({what}): boundary {each!r} of axis {axis}: expected 'reflect', "
                "'nearest', 'periodic', 'none' or a number"
            )
        if kernel and depths[axis] and isinstance(each, str) and each == "none":
            raise ValueError(
                f"map_overlap({what}): boundary 'none' of axis {axis}: a kernel could not tell "
                "where its block begins in what it is given; name another boundary, or give a "
                "function"
            )
    kind = np.dtype(array.dtype if dtype is None else dtype)
    padded = _padded(to_device(array), depths, kinds)
    if not is_kernel(function):
        if threads is not None:
            raise TypeError(f"map_overlap({what}, threads={threads!r}): threads are for kernels")
        made = map_blocks(function, padded, *scalars, dtype=kind)
        return trim_internal(made, depths, kinds)
    _check_count(function, 1 + len(scalars))
    _check_threads(function, threads, array.ndim)
    by = tuple(int(depths[axis]) for axis in range(array.ndim))
    chunks = tuple(
        tuple(n - 2 * more for n in sizes) for sizes, more in zip(padded.chunks, by, strict=True)
    )
    call = OnBlocks(function, kind, threads, by)
    return _mapped(call, padded, *scalars, dtype=kind, chunks=chunks)


# ---- what is around a block -------------------------------------------------------------------


def _padded(array: da.Array, depths: dict[int, int], kinds: dict[int, Any]) -> da.Array:
    """The array with what is around each block in it, made on the device."""
    if not any(depths.values()):
        return array
    inner = {axis: kind if _is(kind, _WRAPPED) else "none" for axis, kind in kinds.items()}
    shared = overlap(array, depths, inner)
    ends = {
        axis: kinds[axis]
        for axis in range(array.ndim)
        if depths[axis] and not _is(kinds[axis], _WRAPPED, "none")
    }
    if not ends:
        return shared
    chunks = [list(sizes) for sizes in shared.chunks]
    for axis in ends:
        chunks[axis][0] += depths[axis]
        chunks[axis][-1] += depths[axis]
    call = _Pad({axis: (depths[axis], kind) for axis, kind in ends.items()}, shared.numblocks)
    return _mapped(call, shared, dtype=array.dtype, chunks=tuple(map(tuple, chunks)))


def _is(kind: Any, *names: str) -> bool:
    return isinstance(kind, str) and kind in names


class _Pad:
    """Adds to a block at the end of the whole array what is around that."""

    __name__ = "pad"

    def __init__(self, ends: dict[int, tuple[int, Any]], blocks: tuple[int, ...]) -> None:
        self.ends = ends
        self.blocks = blocks

    def __dask_tokenize__(self) -> Any:
        ends = [(axis, by, repr(kind)) for axis, (by, kind) in sorted(self.ends.items())]
        return "haulage.pad", ends, self.blocks

    def __call__(self, block: DeviceNDArray, block_id: Any = None) -> DeviceNDArray:
        for axis, (by, kind) in self.ends.items():
            low = by if block_id[axis] == 0 else 0
            high = by if block_id[axis] == self.blocks[axis] - 1 else 0
            if low or high:
                block = _with_ends(block, axis, by, kind, low, high)
        return block


def _with_ends(
    block: DeviceNDArray, axis: int, by: int, kind: Any, low: int, high: int
) -> DeviceNDArray:
    length = block.shape[axis]
    shape = list(block.shape)
    shape[axis] += low + high
    made = DeviceNDArray(shape, _c_strides(shape, block.dtype), block.dtype, device=block.device)

    def at(start: int | None, stop: int | None, step: int = 1) -> tuple[slice, ...]:
        return (*[slice(None)] * axis, slice(start, stop, step))

    if block.size:
        made[at(low, low + length)] = block
    if not made.size:
        return made
    for here, room in ((at(0, low), low), (at(low + length, None), high)):
        if not room:
            continue
        first = here[-1].start == 0
        if _is(kind, "reflect"):
            near = block[at(0, by)] if first else block[at(length - by, None)]
            made[here] = near[at(None, None, -1)]
        elif _is(kind, "nearest"):
            near = block[at(0, 1)] if first else block[at(length - 1, None)]
            for place in range(here[-1].start, here[-1].start + room):
                made[at(place, place + 1)] = near
        else:
            made[here].fill(kind)
    return made


# ---- what functions of Dask are given ---------------------------------------------------------


def _c_strides(shape: Sequence[int], dtype: np.dtype) -> tuple[int, ...]:
    return layout.c_strides(shape, dtype.itemsize)


def _meta(axes: int, dtype: Any) -> np.ndarray:
    # Of NumPy: what Dask finds out by it are dtypes and axes, by functions that device arrays lack.
    return np.empty((0,) * axes, dtype)


def _mapped(function: Callable[..., Any], *args: Any, dtype: Any, **options: Any) -> da.Array:
    axes = _axes_of_result(args, options.get("chunks"), options)
    given = {name: value for name, value in options.items() if value is not None}
    return da.map_blocks(function, *args, dtype=dtype, meta=_meta(axes, dtype), **given)


def _axes_of_result(args: Sequence[Any], chunks: Any, options: dict[str, Any]) -> int:
    if chunks is not None:
        return len(chunks)
    axes = max((each.ndim for each in args if isinstance(each, da.Array)), default=0)
    return axes + _count(options.get("new_axis")) - _count(options.get("drop_axis"))


def _count(axes: Any) -> int:
    return 0 if axes is None else 1 if isinstance(axes, Integral) else len(axes)


def _check_count(kernel: Any, count: int) -> None:
    plain = kernel.kernel if isinstance(kernel, Launcher) else kernel
    wanted = plain.parameters.plain_count
    if wanted is not None and wanted != count + 1:
        raise TypeError(
            f"kernel {name_of(kernel)} takes {wanted} arguments; it is given {count} and, as the "
            "last one, the block of the result"
        )


def _check_threads(kernel: Any, threads: Threads, axes: int) -> None:
    if threads is None:
        return
    if isinstance(kernel, Launcher):
        raise TypeError(f"kernel {name_of(kernel)} has a configuration; leave threads out")
    sizes = (threads,) if isinstance(threads, Integral) else threads
    if not isinstance(sizes, tuple) or not all(isinstance(n, Integral) and n > 0 for n in sizes):
        raise TypeError(
            f"threads {threads!r}: expected a whole number of 1 or more, or a tuple of such"
        )
    if isinstance(threads, tuple) and (len(threads) != axes or axes > 3):
        raise ValueError(
            f"threads {threads!r}: the result has {axes} axes; expected a number for each of up to "
            "three, or one number for all elements in a row"
        )
