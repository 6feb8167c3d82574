"""Pinned, mapped and managed arrays that compiled code makes: as Python makes them, and as safe."""

import ast
import gc
import inspect
import os
from pathlib import Path

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage._core import arrays
from haulage.api import host_memory
from haulage.runtime.buffers.pinned_memory import block_of
from haulage.runtime.memory import allocation
from haulage.runtime.process import call_sites, finalize, runtime

pytestmark = [pytest.mark.in_order, pytest.mark.usefixtures("device")]

ALSO_FAR = True

KINDS = ["pinned", "mapped", "managed"]
BY_PYTHON = {
    "pinned": host_memory._pinned_array,
    "mapped": host_memory._mapped_array,
    "managed": host_memory._managed_array,
}
SHAPES = [7, (7,), (3, 5), (2, 3, 4), (1, 1), (5, 1, 2), (), (300, 300)]


def new(kind, *args, **options):
    return getattr(cuda, f"{kind}_array")(*args, **options)


@pytest.fixture(autouse=True)
def pooled():
    if runtime.current.adversary_seed is not None or os.environ.get("HAULAGE_MEMORY") == "driver":
        pytest.skip("nothing is pooled in this run, so that all is out of the ordinary")


@pytest.fixture
def python_makes(monkeypatch):
    """How many blocks Python has made, by a call."""
    made = []
    real = allocation.allocate_of_driver
    monkeypatch.setattr(
        allocation, "allocate_of_driver", lambda *args: made.append(args) or real(*args)
    )
    return lambda: len(made)


def in_use(device, kind):
    gc.collect()
    return haulage.memory.stats()[str(device)][kind].in_use


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_array_is_as_python_makes_it(device, monkeypatch, kind, order, shape):
    made = [new(kind, shape, dtype, order=order) for _ in range(3) for dtype in ("f4", np.int16)]
    assert made
    before = in_use(device, kind)
    array = new(kind, shape, np.float32, order=order)
    with monkeypatch.context() as patched:
        patched.setattr(allocation, "allocate_at_once", lambda *_: None)
        patched.setattr(host_memory, "new_host_array", lambda *_: None)
        expected = BY_PYTHON[kind](shape, np.float32, order=order)
    assert type(array) is type(expected)
    for name in ("shape", "strides", "dtype", "nbytes"):
        assert getattr(array, name) == getattr(expected, name)
    assert array.flags.num == expected.flags.num
    one, other = block_of(array), block_of(expected)
    for name in ("device", "kind", "nbytes", "home", "exposed", "pool", "streams", "release"):
        assert getattr(one, name) == getattr(other, name)
    assert one.host_ptr == array.ctypes.data
    assert (one.device_ptr == one.host_ptr) == (other.device_ptr == other.host_ptr)
    assert in_use(device, kind) == before + 2 * array.nbytes
    array[...] = 5
    expected[...] = 6
    assert array.ravel().tolist() == [5] * array.size
    del array, expected, one, other
    assert in_use(device, kind) == before


@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_any_size_is_had_again_without_python(kind, python_makes):
    for count in (1, 1000, 50_000, 2_000_000, 16_000_000):
        first = new(kind, count, np.float32)
        address = first.ctypes.data
        del first
        before = python_makes()
        for _ in range(3):
            again = new(kind, count, np.float32)
            assert again.ctypes.data == address
            del again
        assert python_makes() == before


@pytest.mark.parametrize("name", ["pinned_array_like", "mapped_array_like", "device_array_like"])
def test_arrays_like_others_come_from_the_pools_too(name, python_makes):
    make = getattr(cuda, name)
    for like in (np.zeros((3, 4)), np.asfortranarray(np.zeros((3, 4), np.int8)), np.zeros(())):
        make(like)
        before = python_makes()
        made = make(like)
        assert (made.shape, made.dtype, made.strides) == (like.shape, like.dtype, like.strides)
        assert python_makes() == before
    gaps = np.zeros((6, 4))[::2, ::2]
    assert make(gaps).strides == np.empty_like(gaps).strides
    assert make(np.zeros((0, 3))).shape == (0, 3)


def test_the_owner_is_the_line_that_asked():
    for make in (
        lambda: cuda.pinned_array(100),
        lambda: cuda.mapped_array(100),
        lambda: cuda.managed_array(100),
        lambda: cuda.mapped_array_like(np.zeros(100)),
    ):
        for _ in range(2):
            site = call_sites.site(block_of(make()).call_site)
            assert (site.filename, site.line) == (__file__, make.__code__.co_firstlineno)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_asked_of_memory_is_asked_each_time(kind):
    stream = cuda.stream()
    for _ in range(2):
        if kind != "pinned":
            array = new(kind, 10, stream=stream)
            assert array.stream is stream
            assert array[2:].stream is stream
            assert new(kind, 10).stream == 0
        assert new(kind, (2, 3), np.int16, strides=(16, 4)).strides == (16, 4)
        with pytest.raises(ValueError, match="order"):
            new(kind, 10, order="K")
        with pytest.raises(TypeError):
            new(kind, 10, object)
    for _ in range(2):
        assert cuda.mapped_array(10, portable=True, wc=1).hints == ("portable", "wc")
        assert cuda.mapped_array(10).hints == ()
        assert cuda.mapped_array(10, wc=True)[1:].hints == ("wc",)
        assert cuda.managed_array(10, attach_global=0).hints == ("attach_host",)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [10, 100_000])
def test_memory_that_the_default_stream_may_use_is_not_had_again_before(
    device, kind, count, hold_up
):
    """Nobody notes what uses it in the default stream, as other libraries may."""
    array = new(kind, count, np.float32)
    before = in_use(device, kind)
    with hold_up(device.default_stream):
        address = array.ctypes.data
        del array
        assert in_use(device, kind) == before
        assert new(kind, count, np.float32).ctypes.data != address
    cuda.synchronize()
    cuda.device_array(1)
    assert in_use(device, kind) < before


@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_a_collector_s_pass_finds_is_given_back_after_it(device, monkeypatch, kind):
    """Inside of it the driver may be in the midst of a call of this very thread."""
    new(kind, 1000)
    before = in_use(device, kind)
    asked = []
    heap = device.heaps[kind, 0]
    is_idle = heap.is_default_idle
    monkeypatch.setattr(heap, "is_default_idle", lambda: asked.append(1) or is_idle())
    cycle = [new(kind, 1000)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert not asked
    finalize.drain()
    assert in_use(device, kind) == before
    array = new(kind, 1000)
    with finalize.without_driver_calls():
        del array
    assert not asked
    finalize.drain()
    assert in_use(device, kind) == before


def test_a_block_has_the_buffer_protocol_where_the_host_reaches_it(device):
    array = cuda.pinned_array(10, np.uint8)
    block = block_of(array)
    array[...] = range(10)
    with memoryview(block) as bytes_of_it:
        assert bytes_of_it.nbytes == 10
        assert not bytes_of_it.readonly
        assert bytes(bytes_of_it) == bytes(range(10))
    there = cuda.device_array(10, np.uint8).block
    if there.host_ptr:
        memoryview(there).release()
        assert there.exposed
    else:
        with pytest.raises(BufferError, match="cannot be addressed by the host"):
            memoryview(there)


def test_editors_have_the_docstrings_of_compiled_functions():
    stub = ast.parse(Path(arrays.__file__).with_name("arrays.pyi").read_text(encoding="utf-8"))
    written = {each.name: each for each in stub.body if isinstance(each, ast.FunctionDef)}
    names = ["device_array", "empty", *(f"{kind}_array" for kind in KINDS)]
    for name in names:
        assert ast.get_docstring(written[name]) == inspect.getdoc(getattr(arrays, name))
