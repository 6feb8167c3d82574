"""What the words of the kernel language mean where a kernel runs as Python.

`MEANINGS` has those of threads, memory and time, each a function of the thread that says the word
and of the arguments. Words that make numbers of numbers are asked of compiled code (`compiled.py`).
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from haulage.errors import LaunchError, thread_error
from haulage.interpreting.arrays import VECTOR, KernelArray, VectorValue
from haulage.interpreting.numbers import (
    Int32,
    Int64,
    UInt32,
    UInt64,
    converted,
    number,
    plain_of,
)
from haulage.interpreting.threads import (
    BLOCK,
    GRID,
    TOGETHER,
    WARP,
    WAVE,
    Thread,
    Wait,
    is_own,
)
from haulage.lang import (
    bits,
    cached,
    cg,
    clock,
    debug,
    elements,
    index,
    memory,
    sync,
    vectors,
    warp,
)
from haulage.lang.atomic import atomic
from haulage.lang.vectors import Vector
from haulage.lang.word import Word

Meaning = Callable[..., Any]

MEANINGS: dict[Word, Meaning] = {}


def _of(word: Word) -> Callable[[Meaning], Meaning]:
    """Enter a function as the meaning of a word."""

    def enter(meaning: Meaning) -> Meaning:
        MEANINGS[word] = meaning
        return meaning

    return enter


def _caller() -> Any:
    """The frame of the kernel that says a word."""
    frame = sys._getframe(1)
    while is_own(frame):
        assert frame.f_back is not None
        frame = frame.f_back
    return frame


def _site() -> tuple[Any, int]:
    frame = _caller()
    return frame.f_code, frame.f_lasti


# ---- where a thread is ------------------------------------------------------------------------

# Register: its three numbers, for a thread.
REGISTERS: dict[str, Callable[[Thread], tuple[int, int, int]]] = {
    "threadIdx": lambda thread: thread.index,
    "blockIdx": lambda thread: thread.block.index,
    "blockDim": lambda thread: thread.block.dims,
    "gridDim": lambda thread: thread.block.grid.dims,
}
# Single numbers.
NUMBERS: dict[str, Callable[[Thread], int]] = {
    "laneid": lambda thread: thread.lane,
    "warpsize": lambda thread: thread.block.grid.warp_size,
}


def _global_index(thread: Thread, axis: int) -> Any:
    block = thread.block
    return Int64(block.index[axis] * block.dims[axis] + thread.index[axis])


def _global_size(thread: Thread, axis: int) -> Any:
    return Int64(thread.block.grid.dims[axis] * thread.block.dims[axis])


def _along_axes(value_of: Callable[[Thread, int], Any]) -> Meaning:
    def meaning(thread: Thread, ndim: Any) -> Any:
        values = tuple(value_of(thread, axis) for axis in range(int(ndim)))
        return values[0] if ndim == 1 else values

    return meaning


MEANINGS[index.grid] = _along_axes(_global_index)
MEANINGS[index.gridsize] = _along_axes(_global_size)


def _by_dimension(value_of: Callable[[Thread, int], Any], outside: int) -> Meaning:
    def meaning(thread: Thread, dim: Any) -> Any:
        return Int64(value_of(thread, int(dim)) if 0 <= dim <= 2 else outside)

    return meaning


MEANINGS.update(
    {
        index.get_global_id: _by_dimension(_global_index, 0),
        index.get_global_size: _by_dimension(_global_size, 1),
        index.get_local_id: _by_dimension(lambda thread, axis: thread.index[axis], 0),
        index.get_local_size: _by_dimension(lambda thread, axis: thread.block.dims[axis], 1),
        index.get_group_id: _by_dimension(lambda thread, axis: thread.block.index[axis], 0),
        index.get_num_groups: _by_dimension(lambda thread, axis: thread.block.grid.dims[axis], 1),
    }
)


@_of(index.get_work_dim)
def _work_dim(thread: Thread) -> Any:
    used = [axis for axis in range(3) if _global_size(thread, axis) > 1]
    return Int64(max(used, default=0) + 1)


# ---- waiting ----------------------------------------------------------------------------------


def _nothing(thread: Thread, given: dict[Thread, Any]) -> None:
    return None


def _barrier(name: str, scope: str) -> Meaning:
    def meaning(thread: Thread, *flags: Any) -> None:
        thread.wait_for(Wait(name, scope, 0, None, _nothing))

    return meaning


MEANINGS[sync.syncthreads] = _barrier("syncthreads", BLOCK)
MEANINGS[sync.barrier] = _barrier("barrier", BLOCK)
MEANINGS[sync.wavebarrier] = _barrier("wavebarrier", WAVE)


def _barrier_reduce(name: str, reduce: Callable[[list[bool]], int]) -> Meaning:
    def meaning(thread: Thread, predicate: Any) -> Any:
        def answer(thread: Thread, given: dict[Thread, Any]) -> Any:
            return Int32(reduce([truth for truth in given.values() if truth is not None]))

        return thread.wait_for(Wait(name, BLOCK, 0, bool(predicate), answer))

    return meaning


MEANINGS[sync.syncthreads_count] = _barrier_reduce("syncthreads_count", sum)
MEANINGS[sync.syncthreads_and] = _barrier_reduce("syncthreads_and", all)
MEANINGS[sync.syncthreads_or] = _barrier_reduce("syncthreads_or", any)


def _fence(thread: Thread, *flags: Any) -> None:
    thread.noticed()


MEANINGS.update(
    dict.fromkeys(
        (sync.threadfence, sync.threadfence_block, sync.threadfence_system, sync.mem_fence), _fence
    )
)


@_of(sync.nanosleep)
def _nanosleep(thread: Thread, ns: Any) -> None:
    thread.give_way()


class Grid:
    """What `cg.this_grid()` gives."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread

    def sync(self) -> None:
        """Wait until every thread of the grid is here."""
        _grid_sync(self._thread)


@_of(cg.grid_sync)
def _grid_sync(thread: Thread, *group: Any) -> None:
    thread.wait_for(Wait("sync", GRID, 0, None, _nothing))


MEANINGS[cg.this_grid] = Grid


@_of(debug.set_trace)
def _set_trace(thread: Thread) -> None:
    grid = thread.block.grid
    if grid.stops(thread):
        grid.focus_on(thread)
        assert thread.prompt is not None
        thread.prompt.stop_in(_caller())


# ---- warps ------------------------------------------------------------------------------------

_ALL = 0xFFFFFFFF
_LANES = 32


def _mask(mask: Any) -> int:
    return int(mask) & _ALL


def _exchanged(value: Any) -> Any:
    """A value as it is exchanged: of 32 or 64 bits."""
    value = number(value)
    if isinstance(value, np.floating):
        return np.float32(value) if value.dtype.itemsize < 4 else value
    if isinstance(value, bool) or value.dtype.itemsize < 4:
        return Int32(int(value))
    return value


def _bytes(value: Any) -> bytes:
    made: bytes = plain_of(_exchanged(value)).tobytes()
    return made


def _bits(lanes: Any) -> Any:
    return converted(sum(1 << lane for lane in lanes), np.dtype(np.int32))


def _by_lanes(given: dict[Thread, Any]) -> dict[int, Any]:
    return {thread.lane: value for thread, value in given.items()}


def _in_mask(name: str, answer_of: Callable[..., Any], own: int = 1) -> Meaning:
    """A word of the lanes in a mask: its first argument behind that is given to the others.

    `answer_of(thread, lanes, *arguments)` has what each lane gave.
    """

    def meaning(thread: Thread, mask: Any, value: Any, *rest: Any) -> Any:
        def answer(thread: Thread, given: dict[Thread, Any]) -> Any:
            return answer_of(thread.lane, _by_lanes(given), value, *rest)

        return thread.wait_for(Wait(name, WARP, _mask(mask), value, answer))

    return meaning


@_of(warp.syncwarp)
def _syncwarp(thread: Thread, mask: Any = _ALL) -> None:
    thread.wait_for(Wait("syncwarp", WARP, _mask(mask), None, _nothing))


def _shuffle(source_of: Callable[[int, int], int]) -> Callable[..., Any]:
    def answer(lane: int, lanes: dict[int, Any], value: Any, by: Any) -> Any:
        source = source_of(lane, int(by) & (_LANES - 1))
        if not 0 <= source < _LANES:
            source = lane
        given = lanes.get(source)
        kind = type(_exchanged(value))
        return kind(0) if given is None else kind(_exchanged(given))

    return answer


for _word, _source in (
    (warp.shfl_sync, lambda lane, by: by),
    (warp.shfl_up_sync, lambda lane, by: lane - by),
    (warp.shfl_down_sync, lambda lane, by: lane + by),
    (warp.shfl_xor_sync, lambda lane, by: lane ^ by),
):
    MEANINGS[_word] = _in_mask(_word.__name__, _shuffle(_source))


def _true(lanes: dict[int, Any]) -> list[bool]:
    return [bool(value) for value in lanes.values()]


def _alike(lanes: dict[int, Any], value: Any) -> list[int]:
    own = _bytes(value)
    return [lane for lane, other in lanes.items() if _bytes(other) == own]


def _match_all(lane: int, lanes: dict[int, Any], value: Any) -> Any:
    alike = len(_alike(lanes, value)) == len(lanes)
    return (_bits(lanes) if alike else Int32(0)), alike


for _word, _answer in (
    (warp.all_sync, lambda lane, lanes, truth: all(_true(lanes))),
    (warp.any_sync, lambda lane, lanes, truth: any(_true(lanes))),
    (warp.eq_sync, lambda lane, lanes, truth: len(set(_true(lanes))) == 1),
    (warp.ballot_sync, lambda lane, lanes, truth: _bits(n for n in lanes if bool(lanes[n]))),
    (warp.match_any_sync, lambda lane, lanes, value: _bits(_alike(lanes, value))),
    (warp.match_all_sync, _match_all),
):
    MEANINGS[_word] = _in_mask(_word.__name__, _answer)


def _together(
    name: str, thread: Thread, given: Any, answer_of: Callable[[dict[int, Any]], Any]
) -> Any:
    """A word of the lanes that come to it together."""

    def answer(thread: Thread, given: dict[Thread, Any]) -> Any:
        return answer_of(_by_lanes(given))

    return thread.wait_for(Wait(name, TOGETHER, 0, given, answer))


@_of(warp.activemask)
def _activemask(thread: Thread) -> Any:
    def answer(lanes: dict[int, Any]) -> Any:
        return UInt32(sum(1 << lane for lane in lanes))

    return _together("activemask", thread, None, answer)


@_of(warp.lanemask_lt)
def _lanemask_lt(thread: Thread) -> Any:
    return UInt32((1 << thread.lane) - 1)


def _low(thread: Thread, lane: Any) -> int:
    return int(lane) & (thread.block.grid.warp_size - 1)


def _of_32_bits(value: Any) -> Any:
    value = _exchanged(value)
    return value if value.dtype.itemsize == 4 else converted(value, np.dtype(np.int32))


@_of(warp.ds_permute)
def _ds_permute(thread: Thread, dest_lane: Any, src: Any) -> Any:
    own = _of_32_bits(src)

    def answer(lanes: dict[int, Any]) -> Any:
        given = [lanes[lane][1] for lane in sorted(lanes) if lanes[lane][0] == thread.lane]
        return given[-1] if given else type(own)(0)

    return _together("ds_permute", thread, (_low(thread, dest_lane), own), answer)


@_of(warp.ds_bpermute)
def _ds_bpermute(thread: Thread, src_lane: Any, src: Any) -> Any:
    own = _of_32_bits(src)
    source = _low(thread, src_lane)
    return _together("ds_bpermute", thread, own, lambda lanes: lanes.get(source, type(own)(0)))


@_of(warp.activelanepermute_wavewidth)
def _permute(thread: Thread, src: Any, laneid: Any, identity: Any, useidentity: Any) -> Any:
    own = _exchanged(src)
    instead, source = converted(number(identity), own.dtype), _low(thread, laneid)
    return _together(
        "activelanepermute_wavewidth",
        thread,
        own,
        lambda lanes: instead if useidentity else lanes.get(source, instead),
    )


# ---- memory -----------------------------------------------------------------------------------


def dtype_of(dtype: Any) -> Any:
    """The NumPy dtype that a dtype argument of a word names."""
    word = getattr(dtype, "word", dtype)
    if isinstance(word, Vector):
        fields = [(name, word.element) for name in "xyzw"[: word.count]]
        return np.dtype(np.dtype(fields), metadata={VECTOR: word})
    if not isinstance(dtype, type | str | np.dtype):
        from haulage import numba_bridge

        return numba_bridge.key_of(dtype)[1]
    return np.dtype(dtype)


# Bytes; as in compiled code.
_DEFAULT_ALIGN = 16


def _sizes(shape: Any) -> tuple[int, ...]:
    return tuple(map(int, shape if isinstance(shape, tuple) else (shape,)))


def _room(sizes: tuple[int, ...], dtype: Any, alignment: Any) -> KernelArray:
    """New memory that begins at a multiple of so many bytes, as an array of zeros."""
    align = max(int(alignment or 0), _DEFAULT_ALIGN)
    nbytes = int(np.prod(sizes)) * dtype.itemsize
    memory = np.zeros(nbytes + align, np.uint8)
    start = -memory.ctypes.data % align
    return memory[start : start + nbytes].view(dtype).reshape(sizes).view(KernelArray)


@_of(memory.shared_array)
def _shared_array(thread: Thread, shape: Any, dtype: Any, alignment: Any = None) -> Any:
    sizes, kind, block = _sizes(shape), dtype_of(dtype), thread.block
    if sizes == (0,):
        count = len(block.dynamic) // kind.itemsize
        return block.dynamic[: count * kind.itemsize].view(kind).view(KernelArray)
    key = (*_site(), sizes, kind)
    made = block.shared.get(key)
    if made is None:
        made = block.shared[key] = _room(sizes, kind, alignment)
    return made


@_of(memory.local_array)
def _local_array(
    thread: Thread, shape: Any, dtype: Any, alignment: Any = None, bound: Any = None
) -> Any:
    sizes = _sizes(shape)
    if bound is not None and int(np.prod(sizes)) > int(bound):
        raise thread_error(
            MemoryError, f"local.array of {int(np.prod(sizes))} elements: bound is {int(bound)}"
        )
    return _room(sizes, dtype_of(dtype), alignment)


@_of(memory.const_array_like)
def _array_like(thread: Thread, ndarray: Any) -> Any:
    return ndarray


@_of(elements.as_array)
def _as_array(thread: Thread, array: Any, place: Any) -> Any:
    places = _sizes(place)
    one = array.view(np.ndarray)[tuple(slice(at, at + 1) for at in places)]
    return one.reshape(1).view(KernelArray)


for _name in ("ldca", "ldcg", "ldcs", "ldlu", "ldcv"):

    @_of(getattr(cached, _name))
    def _load(thread: Thread, array: Any, index: Any) -> Any:
        thread.noticed()
        return array[index]


for _name in ("stcg", "stcs", "stwb", "stwt"):

    @_of(getattr(cached, _name))
    def _store(thread: Thread, array: Any, index: Any, value: Any) -> None:
        array[index] = value


def _is_nan(value: Any) -> bool:
    return bool(value != value)


def _greatest(old: Any, value: Any) -> Any:
    return value if _is_nan(old) or value > old else old


def _least(old: Any, value: Any) -> Any:
    return value if _is_nan(old) or value < old else old


_CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "max": lambda old, value: value if value > old else old,
    "min": lambda old, value: value if value < old else old,
    "nanmax": _greatest,
    "nanmin": _least,
    "and_": lambda old, value: old & value,
    "or_": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "inc": lambda old, value: old + 1 if old < value else 0,
    "dec": lambda old, value: value if old == 0 or old > value else old - 1,
    "exch": lambda old, value: value,
}


def _read_modify_write(change: Callable[[Any, Any], Any]) -> Meaning:
    def meaning(thread: Thread, array: Any, index: Any, value: Any) -> Any:
        old = array[index]
        array[index] = change(old, converted(number(value), array.dtype))
        thread.noticed()
        return old

    return meaning


for _name, _change in _CHANGES.items():
    MEANINGS[getattr(atomic, _name)] = _read_modify_write(_change)


@_of(atomic.cas)
def _cas(thread: Thread, array: Any, index: Any, old: Any, value: Any) -> Any:
    found = array[index]
    dtype = array.dtype
    # Bits are compared.
    if plain_of(found).tobytes() == plain_of(converted(number(old), dtype)).tobytes():
        array[index] = converted(number(value), dtype)
    thread.noticed()
    return found


@_of(atomic.compare_and_swap)
def _compare_and_swap(thread: Thread, array: Any, old: Any, value: Any) -> Any:
    return _cas(thread, array, 0, old, value)


# ---- numbers ----------------------------------------------------------------------------------


def _unsigned(x: Any) -> tuple[int, int]:
    """The bits of an int, and how many there are."""
    count = 8 * x.dtype.itemsize
    return int(x) & ((1 << count) - 1), count


@_of(bits.popc)
def _popc(thread: Thread, x: Any) -> Any:
    x = number(x)
    return type(x)(_unsigned(x)[0].bit_count())


@_of(bits.clz)
def _clz(thread: Thread, x: Any) -> Any:
    x = number(x)
    value, count = _unsigned(x)
    return type(x)(count - value.bit_length())


@_of(bits.ffs)
def _ffs(thread: Thread, x: Any) -> Any:
    value, _ = _unsigned(number(x))
    return UInt32((value & -value).bit_length())


@_of(bits.brev)
def _brev(thread: Thread, x: Any) -> Any:
    x = number(x)
    kind, count = (UInt64, 64) if x.dtype.itemsize == 8 else (UInt32, 32)
    value = int(x) & ((1 << count) - 1)
    return kind(int(f"{value:0{count}b}"[::-1], 2))


@_of(bits.bit_count)
def _bit_count(thread: Thread, x: Any) -> Any:
    return number(x).bit_count()


@_of(bits.selp)
def _selp(thread: Thread, test: Any, a: Any, b: Any) -> Any:
    return a if test else b


def _vector(word: Vector) -> Meaning:
    def meaning(thread: Thread, *parts: Any) -> Any:
        values: list[Any] = []
        for part in parts:
            values += part.parts if isinstance(part, VectorValue) else [part]
        dtype = np.dtype(word.element)
        return VectorValue(word, tuple(converted(number(each), dtype) for each in values))

    return meaning


for _name in vectors.__all__:
    MEANINGS[getattr(vectors, _name)] = _vector(getattr(vectors, _name))


@_of(clock.clock64)
def _clock64(thread: Thread) -> Any:
    thread.noticed()
    return Int64(time.perf_counter_ns())


@_of(clock.clock)
def _clock(thread: Thread) -> Any:
    thread.noticed()
    return UInt32(time.perf_counter_ns() & _ALL)


@_of(clock.globaltimer)
def _globaltimer(thread: Thread) -> Any:
    thread.noticed()
    return UInt64(time.time_ns())


def refuse(word: str) -> LaunchError:
    """The error for a word that has no meaning where kernels run as Python."""
    return LaunchError(
        f"{word} means nothing where a kernel runs as Python, as in the debugger: debug a kernel "
        "without it, or enter what it means in haulage.interpreting.meanings.MEANINGS"
    )
