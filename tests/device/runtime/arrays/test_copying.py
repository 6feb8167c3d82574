"""Copies against NumPy, byte by byte: any shape, strides, order, dtype and key, on both sides.

Each array lies somewhere in a room of bytes, and the whole room is compared: what is between the
elements, before and behind them must be as it was.
"""

import contextlib
import gc
import sys
from dataclasses import dataclass
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from haulage import cuda, roc
from haulage.runtime.buffers import staging

pytestmark = pytest.mark.usefixtures("device")
ALSO_FAR = True

quick = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

NESTED = np.dtype([("p", [("x", "f4"), ("y", "i2")]), ("v", "u1", (3,)), ("t", "M8[s]")])
DTYPES = [
    *("i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "?", "M8[ns]", "m8[D]"),
    *("S5", "U3", ">f8", ">i2", ">c8", "V7", "i4,f8", NESTED),
]
GUARD = 16

dtypes = st.sampled_from(DTYPES).map(np.dtype)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


# ---- arrays in rooms ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Where the elements of an array lie in a room of `nbytes` bytes."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    offset: int
    nbytes: int

    def extent(self):
        if 0 in self.shape:
            return self.offset, self.offset
        steps = [(n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(step for step in steps if step < 0)
        high = self.offset + sum(step for step in steps if step > 0) + self.dtype.itemsize
        return low, high

    def on(self, room):
        """The array in a room of the host."""
        return np.ndarray(
            self.shape, self.dtype, buffer=room, offset=self.offset, strides=self.strides
        )

    def on_device(self, room):
        """The array in a room of the device."""
        low, high = self.extent()
        return cuda.DeviceNDArray(
            self.shape, self.strides, self.dtype, gpu_data=room[low:high].gpu_data
        )


def a_room(nbytes, dtype, seed=0):
    """A room of bytes that is full of elements of `dtype` that can be shown."""
    count = -(-nbytes // max(dtype.itemsize, 1)) + 1
    if dtype.kind in "SU":
        letters = [chr(97 + (i + seed) % 26) * (1 + i % 3) for i in range(count)]
        values = np.array(letters).astype(dtype)
    elif dtype.kind == "b":
        values = (np.arange(count) + seed) % 3 == 0
    else:
        number = np.arange(count * dtype.itemsize, dtype=np.int64)
        values = ((number * 37 + seed * 11) % 113).astype(np.uint8)
    return values.view(np.uint8)[:nbytes].copy()


@st.composite
def layouts(draw, shape, dtype, repeats=False):
    """Any order of axes, with gaps, forwards and backwards; if wished with repeated elements."""
    strides, reach = [0] * len(shape), dtype.itemsize
    for axis in draw(st.permutations(range(len(shape)))):
        if repeats and draw(st.integers(0, 4)) == 0:
            continue
        step = reach + draw(st.sampled_from([0, 0, dtype.itemsize, 3]))
        strides[axis] = draw(st.sampled_from([step, step, -step]))
        reach += step * max(shape[axis] - 1, 0)
    low = sum(min((n - 1) * step, 0) for n, step in zip(shape, strides, strict=True) if n)
    return Layout(shape, tuple(strides), dtype, GUARD - low, reach + 2 * GUARD)


@st.composite
def pairs(draw, shape=None):
    """(source, target): two layouts of one shape and dtype; the source may repeat elements."""
    shape = draw(shapes) if shape is None else shape
    dtype = draw(dtypes)
    return draw(layouts(shape, dtype, repeats=True)), draw(layouts(shape, dtype))


def copied(source, target):
    """(room of the source, room of the target, what the copy should make of the latter)."""
    source_room = a_room(source.nbytes, source.dtype)
    target_room = a_room(target.nbytes, target.dtype, seed=5)
    expected = target_room.copy()
    target.on(expected)[...] = source.on(source_room)
    return source_room, target_room, expected


@contextlib.contextmanager
def host_memory(room, kind):
    """The room in memory of a kind, with the same bytes."""
    if kind == "plain":
        yield room
    elif kind == "registered":
        with cuda.pinned(room):
            yield room
    else:
        made = getattr(cuda, f"{kind}_array")(room.shape, np.uint8)
        made[...] = room
        yield made


host_kinds = st.sampled_from(["plain", "registered", "pinned", "mapped", "managed"])
ways = st.sampled_from(["no stream", "0", "default", "given", "bound"])


def streamed(array, way):
    """(the array, the arguments of a copy, the stream to wait for)."""
    if way == "no stream":
        return array, {}, None
    if way == "0":
        return array, {"stream": 0}, None
    if way == "default":
        return array, {"stream": cuda.default_stream()}, None
    stream = cuda.stream()
    if way == "given":
        return array, {"stream": stream}, stream
    return array.bind(stream), {}, stream


def wait(stream):
    if stream is not None:
        stream.synchronize()


# ---- one copy -----------------------------------------------------------------------------------


@quick
@given(pairs(), host_kinds, ways)
def test_a_copy_to_the_host_writes_the_elements_and_nothing_else(pair, kind, way):
    source, target = pair
    source_room, target_room, expected = copied(source, target)
    there, options, stream = streamed(source.on_device(cuda.to_device(source_room)), way)
    with host_memory(target_room, kind) as room:
        array = target.on(room)
        assert there.copy_to_host(array, **options) is array
        wait(stream)
        assert np.array(room).tobytes() == expected.tobytes()


@quick
@given(pairs(), host_kinds, ways)
def test_a_copy_to_the_device_writes_the_elements_and_nothing_else(pair, kind, way):
    source, target = pair
    source_room, target_room, expected = copied(source, target)
    whole = cuda.to_device(target_room)
    there, options, stream = streamed(target.on_device(whole), way)
    with host_memory(source_room, kind) as room:
        there.copy_to_device(source.on(room), **options)
        wait(stream)
        assert whole.copy_to_host().tobytes() == expected.tobytes()


@quick
@given(pairs(), ways)
def test_a_copy_on_the_device_writes_the_elements_and_nothing_else(pair, way):
    source, target = pair
    source_room, target_room, expected = copied(source, target)
    whole = cuda.to_device(target_room)
    there, options, stream = streamed(target.on_device(whole), way)
    there.copy_to_device(source.on_device(cuda.to_device(source_room)), **options)
    wait(stream)
    assert whole.copy_to_host().tobytes() == expected.tobytes()


@quick
@given(pairs(), st.integers(0, 40), st.integers(0, 40), st.booleans())
def test_source_and_target_may_overlap_on_the_device(pair, source_at, target_at, by_setitem):
    """The result is that of NumPy: as if the source had been put aside first."""
    source, target = pair
    dtype = source.dtype
    assume(dtype.kind not in "?US")  # whose bytes are not of any value
    moved = [
        Layout(it.shape, it.strides, dtype, it.offset + at, it.nbytes + at)
        for it, at in ((source, source_at), (target, target_at))
    ]
    room = a_room(max(it.nbytes for it in moved), dtype)
    expected = room.copy()
    moved[1].on(expected)[...] = moved[0].on(room)
    whole = cuda.to_device(room)
    here, there = moved[0].on_device(whole), moved[1].on_device(whole)
    if by_setitem:
        there[...] = here
    else:
        there.copy_to_device(here)
    assert whole.copy_to_host().tobytes() == expected.tobytes()


@pytest.mark.parametrize("memory", ["mapped", "managed", "mapped()", "dlpack"])
def test_source_and_target_may_overlap_by_way_of_the_host(memory):
    """Where the host has another array over the same memory, too."""
    values, expected = np.arange(10.0), np.arange(10.0)
    with contextlib.ExitStack() as ends:
        if memory == "mapped()":
            host, there = values, ends.enter_context(cuda.mapped(values))
        elif memory == "dlpack":
            there = cuda.to_device(values)
            if there.__dlpack_device__() != (1, 0):
                pytest.skip(f"the host does not see memory of {there.device}")
            host = np.from_dlpack(there)
        else:
            there = getattr(cuda, f"{memory}_array")(10)
            host = np.asarray(there)
            host[...] = values
        there[2:].copy_to_device(host[:-2])
        expected[2:] = expected[:-2].copy()
        np.testing.assert_array_equal(there.copy_to_host(), expected)
        there.setitem(slice(None, None, -1), host)
        expected = expected[::-1].copy()
        np.testing.assert_array_equal(there.copy_to_host(), expected)
        there[:-1].copy_to_host(host[1:])
        expected[1:] = expected[:-1].copy()
        np.testing.assert_array_equal(there.copy_to_host(), expected)


@quick
@given(st.data(), ways)
def test_to_device_takes_any_strides(data, way):
    """A new array has the elements of any host array; read-only sources included."""
    dtype, shape = data.draw(dtypes), data.draw(shapes)
    layout = data.draw(layouts(shape, dtype, repeats=True))
    room = a_room(layout.nbytes, dtype)
    source = layout.on(room)
    source.flags.writeable = data.draw(st.booleans())
    words = data.draw(st.sampled_from([cuda, roc]))
    stream = words.stream() if way in ("given", "bound") else None
    there = words.to_device(source, stream=stream or 0)
    wait(stream)
    assert (there.shape, there.dtype, there.readonly) == (shape, dtype, False)
    assert there.alloc_size <= max(source.nbytes, dtype.itemsize)
    back = there.copy_to_host()
    assert (back.shape, back.dtype) == (shape, dtype)
    assert back.tobytes() == source.tobytes()
    assert room.tobytes() == a_room(layout.nbytes, dtype).tobytes()


@quick
@given(st.data())
def test_new_arrays_keep_the_order_of_axes_as_numpys_do(data):
    """By the size of their strides, whichever way these go; gaps are left out."""
    dtype, shape = data.draw(dtypes), data.draw(shapes)
    layout = data.draw(layouts(shape, dtype))
    source = layout.on(a_room(layout.nbytes, dtype))
    expected = np.empty_like(source)
    for made in (cuda.to_device(source), cuda.device_array_like(source), cuda.zeros_like(source)):
        steps = [
            (one, other)
            for n, one, other in zip(shape, made.strides, expected.strides, strict=True)
            if n > 1 and source.size
        ]
        assert [one for one, _ in steps] == [other for _, other in steps]


@quick
@given(st.data(), ways)
def test_fill_writes_the_elements_and_nothing_else(data, way):
    dtype = data.draw(dtypes)
    layout = data.draw(layouts(data.draw(shapes), dtype))
    room = a_room(layout.nbytes, dtype)
    value = a_room(4 * dtype.itemsize, dtype, seed=3).view(dtype)[1]
    expected = room.copy()
    layout.on(expected)[...] = value
    whole = cuda.to_device(room)
    there, options, stream = streamed(layout.on_device(whole), way)
    there.fill(value, **options)
    wait(stream)
    assert whole.copy_to_host().tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "f2", "f4", "c8", "c16", "?", ">i4", ">f8"])
@pytest.mark.parametrize("value", [0, 1, 100, True, np.float64(2), np.int8(3), "7", 1j])
def test_fill_converts_as_numpy_does(dtype, value):
    expected = np.zeros((3, 4), dtype)
    there = cuda.to_device(expected)
    try:
        expected[1:].fill(value)
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            there[1:].fill(value)
    else:
        there[1:].fill(value)
    np.testing.assert_array_equal(there.copy_to_host(), expected)


def test_fill_tells_which_value_is_not_of_the_dtype():
    there = cuda.device_array(3, np.float64)
    with pytest.raises(TypeError, match=r"^1j is no float64: float\(\) argument"):
        there.fill(1j)


# ---- assignment ---------------------------------------------------------------------------------


@quick
@given(st.data(), ways)
def test_assignments_broadcast_any_source(data, way):
    """a[key] = value for host and device values of any strides, also with axes repeated."""
    dtype, shape = data.draw(dtypes), data.draw(shapes)
    layout = data.draw(layouts(shape, dtype))
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    room = a_room(layout.nbytes, dtype)
    expected = room.copy()
    selected = layout.on(expected)[key]
    wanted = selected.shape if isinstance(selected, np.ndarray) else ()
    small = tuple(n if data.draw(st.booleans()) else min(n, 1) for n in wanted)
    assume(prod(small) or not prod(wanted))
    small = small[data.draw(st.integers(0, sum(1 for _ in _leading_ones(small)))) :]
    source = data.draw(layouts(small, dtype, repeats=True))
    source_room = a_room(source.nbytes, dtype, seed=9)
    layout.on(expected)[key] = source.on(source_room)
    whole = cuda.to_device(room)
    there, options, stream = streamed(layout.on_device(whole), way)
    on_device = data.draw(st.booleans())
    value = source.on_device(cuda.to_device(source_room)) if on_device else source.on(source_room)
    there.setitem(key, value, **options)
    wait(stream)
    assert whole.copy_to_host().tobytes() == expected.tobytes()


def _leading_ones(shape):
    for n in shape:
        if n != 1:
            return
        yield n


@quick
@given(
    hnp.arrays(st.sampled_from(["i2", "f4", "f8", "c8", "?"]), hnp.array_shapes(max_dims=3)),
    st.sampled_from(["i2", "f4", "f8", "c16", "?", ">f4", "f2"]),
)
def test_host_values_are_converted_as_numpy_converts(values, dtype):
    expected = np.ones((2, *values.shape), dtype)
    there = cuda.to_device(expected)
    with np.errstate(all="ignore"):
        try:
            expected[:, ...] = values
        except (TypeError, ValueError) as error:
            with pytest.raises(type(error)):
                there[:, ...] = values
        else:
            # Taking the real part of a complex number warns in NumPy, and here as well.
            there[:, ...] = values
    assert there.copy_to_host().tobytes() == expected.tobytes()


test_host_values_are_converted_as_numpy_converts = pytest.mark.filterwarnings(
    "ignore:Casting complex values"
)(test_host_values_are_converted_as_numpy_converts)


# ---- views of views -----------------------------------------------------------------------------


class Index:
    name = "index"

    def __init__(self, key):
        self.key = key

    def __call__(self, array):
        return array[self.key]

    def __repr__(self):
        return f"[{self.key!r}]"


class Call:
    def __init__(self, name, *args, **options):
        self.name, self.args, self.options = name, args, options

    def __call__(self, array):
        return getattr(array, self.name)(*self.args, **self.options)

    def __repr__(self):
        return f".{self.name}(*{self.args}, **{self.options})"


@st.composite
def changes(draw, array):
    """One way to see an array of NumPy differently, that its namesake of the device has too."""
    kind = draw(st.sampled_from(["index", "transpose", "reshape", "ravel", "squeeze", "view"]))
    if kind == "index":
        keys = hnp.basic_indices(array.shape, allow_newaxis=True, allow_ellipsis=True)
        return Index(draw(keys))
    if kind == "transpose":
        return Call("transpose", tuple(draw(st.permutations(range(array.ndim)))))
    if kind == "reshape":
        shape = draw(st.sampled_from(_factorings(array.size)))
        return Call("reshape", *shape, order=draw(st.sampled_from("CFA")))
    if kind == "ravel":
        return Call("ravel", draw(st.sampled_from("CFA")))
    if kind == "squeeze":
        ones = [axis for axis, n in enumerate(array.shape) if n == 1]
        return (
            Call("squeeze", tuple(draw(st.lists(st.sampled_from(ones), unique=True))))
            if (ones and draw(st.booleans()))
            else Call("squeeze")
        )
    names = {1: ["u1"], 2: ["i2", ">u2", "f2", "u1"], 4: ["f4", "u2", "i1"], 8: ["u8", "f4", "c8"]}
    return Call("view", np.dtype(draw(st.sampled_from(names[array.dtype.itemsize]))))


def _factorings(size):
    if size == 0:
        return [(0,), (2, 0), (0, 1, 3)]
    pairs = [(n, size // n) for n in range(1, size + 1) if size % n == 0]
    return [*pairs, (size,), (-1, 1), (1, size, 1), *((a, 1, b) for a, b in pairs)]


def _flat(array, ravel):
    # NumPy's ravel also copies what lies in one axis with gaps; its reshape does not.
    return array.reshape(-1, order=ravel.args[0])


def _is_copy(new, old):
    return new.size > 0 and not np.shares_memory(new, old)


@quick
@given(st.data())
def test_views_of_views_show_what_numpys_show(data):
    """And a write through the last of them lands where NumPy's does."""
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, max_side=6))
    host = np.arange(prod(shape), dtype=data.draw(st.sampled_from(["i2", "f4", "u8"])))
    host = host.reshape(shape)
    stream = cuda.stream()
    owner, owner_there = host, cuda.to_device(host, stream=stream)
    there = owner_there
    for _ in range(data.draw(st.integers(1, 5))):
        change = data.draw(changes(host))
        try:
            new = _flat(host, change) if change.name == "ravel" else change(host)
        except ValueError:
            with pytest.raises(ValueError, match="view"):
                change(there)
            continue
        if not isinstance(new, np.ndarray):
            value = change(there)
            assert type(value) is type(new)
            assert np.array_equal(value, new, equal_nan=True)
            continue
        if _is_copy(new, host):
            with pytest.raises(NotImplementedError, match="requires copying"):
                change(there)
            continue
        host, there = new, change(there)
        assert (there.shape, there.dtype, there.size) == (host.shape, host.dtype, host.size)
        assert there.stream == stream
        assert there.is_c_contiguous() == host.flags.c_contiguous
        assert there.is_f_contiguous() == host.flags.f_contiguous
        assert there.copy_to_host().tobytes() == host.tobytes()
    assert there.block is owner_there.block or not host.size
    value = np.arange(host.size, dtype=np.uint8).reshape(host.shape).astype(host.dtype)
    host[...] = value
    there[...] = value if data.draw(st.booleans()) else cuda.to_device(value)
    assert owner_there.copy_to_host().tobytes() == owner.tobytes()


@pytest.mark.parametrize("key", [np.s_[:0, 0], np.s_[:, :0], np.s_[::2, 4:], np.s_[2:, ::2]])
@pytest.mark.parametrize("dtype", ["u2", "f8", "V12"])
def test_views_without_elements_can_have_any_dtype(key, dtype):
    host = np.zeros((2, 4), np.float32)[key]
    there = cuda.to_device(np.zeros((2, 4), np.float32))[key]
    try:
        expected = host.view(dtype)
    except ValueError:
        with pytest.raises(ValueError, match="view"):
            there.view(dtype)
    else:
        assert (there.view(dtype).shape, there.view(dtype).dtype) == (expected.shape, dtype)


@quick
@given(st.integers(0, 30), st.integers(1, 12), st.sampled_from([1, 2, -1, -3]), dtypes)
def test_splits_are_views_of_any_array_with_one_axis(n, section, step, dtype):
    host = a_room(n * dtype.itemsize, dtype).view(dtype)
    owner = cuda.to_device(host)
    view, expected = owner[::step], host[::step]
    parts = list(view.split(section))
    assert len(parts) == -(-len(expected) // section)
    for i, part in enumerate(parts):
        assert part.block is owner.block
        start = i * section
        assert part.copy_to_host().tobytes() == expected[start : start + section].tobytes()


@pytest.mark.parametrize("kind", ["mapped", "managed"])
@quick
@given(data=st.data())
def test_mapped_and_managed_views_are_copied_like_others(kind, data):
    """Slices of such arrays, which are device arrays too, as sources and as targets."""
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=5))
    dtype = np.dtype(data.draw(st.sampled_from(["i2", "f8", "c8", "i4,f8"])))
    key = data.draw(hnp.basic_indices(shape, allow_ellipsis=True))
    own = getattr(cuda, f"{kind}_array")(shape, dtype)
    host = a_room(own.nbytes, dtype).view(dtype).reshape(shape)
    own[...] = host
    view, expected = own[key], host[key]
    assume(isinstance(expected, np.ndarray))
    assert view.copy_to_host().tobytes() == expected.tobytes()
    there = cuda.to_device(np.zeros(expected.shape, dtype))
    there.copy_to_device(view)
    assert there.copy_to_host().tobytes() == expected.tobytes()
    values = a_room(expected.nbytes, dtype, seed=4).view(dtype).reshape(expected.shape)
    view.copy_to_device(cuda.to_device(values))
    cuda.synchronize()
    expected[...] = values
    assert np.array(own).tobytes() == host.tobytes()


# ---- the cost of them ---------------------------------------------------------------------------


def calls(function, array):
    """How many Python and C functions a call makes in this thread.

    The least of a few times, as one may find memory of earlier calls to give back.
    """
    return min(_calls_once(function, array) for _ in range(3))


def _calls_once(function, array):
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    function(array)
    before = sys.getprofile()
    gc.disable()  # a collection calls functions, too
    sys.setprofile(profile)
    try:
        function(array)
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


SMALL_AND_LARGE = (10, 10_000_000)
# Less is copied by other calls, or by none.
LARGE_AND_LARGER = (1_000_000, 10_000_000)


@pytest.mark.parametrize(
    "use",
    [
        lambda a: a[::2],
        lambda a: a[1:-1],
        lambda a: a[::-1],
        lambda a: a[None, 3:, None],
        lambda a: a.reshape(2, -1),
        lambda a: a.reshape(2, -1).T,
        lambda a: a.reshape(2, -1)[:, ::2].transpose(1, 0)[1:3],
        lambda a: a.ravel(),
        lambda a: a[::2].is_c_contiguous(),
        lambda a: a.view(np.int8),
        lambda a: a.split(5),
        lambda a: a[3],
        lambda a: a.setitem(3, 1),
        lambda a: a.bind(0),
        lambda a: a.squeeze(),
        lambda a: repr(a),
    ],
    ids=[
        *("step", "slice", "backwards", "newaxis", "reshape", "T", "views", "ravel", "flags"),
        *("view", "split", "one element", "set one element", "bind", "squeeze", "repr"),
    ],
)
def test_views_cost_the_same_for_ten_and_for_ten_million_elements(use):
    few, many = (calls(use, cuda.device_array(n, np.uint8)) for n in SMALL_AND_LARGE)
    assert few == many


@pytest.mark.parametrize(
    "use",
    [
        lambda a: a.copy_to_host(),
        lambda a: a[::2].copy_to_host(),
        lambda a: a[::-3].copy_to_host(),
        lambda a: a.copy_to_device(np.broadcast_to(np.uint8(1), a.shape)),
        lambda a: a[::2].copy_to_device(np.broadcast_to(np.uint8(1), a[::2].shape)),
        lambda a: a.setitem(slice(None), 1),
        lambda a: a.setitem(slice(None, None, 2), 1),
        lambda a: a.fill(3),
        lambda a: a[::2].fill(3),
    ],
    ids=[
        *("to host", "step to host", "backwards to host", "to device", "step to device"),
        *("set", "set step", "fill", "fill step"),
    ],
)
def test_copies_make_no_more_calls_for_more_elements(monkeypatch, use):
    # Where a device has large copies staged, they are some calls for each buffer.
    monkeypatch.setattr(staging, "LEAST", 1 << 62)
    sizes = (10, *LARGE_AND_LARGER)
    fewest, few, many = (calls(use, cuda.device_array(n, np.uint8)) for n in sizes)
    assert fewest <= 2 * few
    assert many <= 1.5 * few


@pytest.mark.parametrize(
    "use",
    [
        lambda a: a.setitem(slice(1, None), a[:-1]),
        lambda a: cuda.device_array_like(a[::2]),
    ],
    ids=["overlap", "like"],
)
def test_new_memory_takes_the_same_calls_for_one_and_for_ten_million_elements(monkeypatch, use):
    # Small memory is allocated by other calls, of which compiled code spares all but a few.
    monkeypatch.setattr(staging, "LEAST", 1 << 62)
    few, many = (calls(use, cuda.device_array(n, np.uint8)) for n in LARGE_AND_LARGER)
    assert many <= 1.5 * few


@pytest.mark.parametrize("shape", [(3, 2, 2), (300, 200, 2), (2, 300, 200), (2, 3, 40_000)])
def test_copies_of_several_axes_make_the_same_calls_for_any_size(device, shape, monkeypatch):
    """One call of the driver for each copy, however many rows there are."""
    asked = []
    for name in ("copy", "copy_nd", "fill"):
        call = getattr(device.backend, name)
        monkeypatch.setattr(
            device.backend,
            name,
            lambda *args, call=call, name=name: (asked.append(name), call(*args))[1],
        )
    room = cuda.device_array(tuple(2 * n for n in shape), np.int16)
    view = room[::2, ::-2, ::2]
    view.copy_to_host()
    view.copy_to_device(np.zeros(shape, np.int16))
    view[...] = cuda.device_array(shape, np.int16)
    view[...] = 3
    assert asked == ["copy_nd"] * 4
