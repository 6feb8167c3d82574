"""Arrays as Dask sends, hashes and weighs them; copies are counted.

The cases of `distributed/protocol/tests/test_numba.py` are the first ones here, in our own words.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

import haulage
from haulage import SmartArray, cuda
from haulage.cuda.cudadrv.devicearray import DeviceNDArray
from haulage.errors import KernelError
from support.neighbours import neighbour

protocol = neighbour("distributed.protocol")
tokenize = neighbour("dask.base", "dask").tokenize
sizeof = neighbour("dask.sizeof", "dask").sizeof

RECORDS = np.dtype([("x", "f8"), ("n", "i2")], align=True)


def copies_to_send(array):
    """How many copies an array without gaps takes that has elements."""
    shared = array.device.properties.host_memory_is_device_memory
    return 0 if shared or not array.size else 1


def sent(array, families=("dask",)):
    """`array` after its way through frames, as bytes that somebody else has received."""
    header, frames = protocol.serialize(array, serializers=families)
    assert header["serializer"] == families[0]
    return protocol.deserialize(header, [bytes(frame) for frame in frames])


@pytest.mark.parametrize("shape", [(0,), (5,), (4, 6), (10, 11), (2, 3, 5), ()])
@pytest.mark.parametrize("dtype", ["u1", "u4", "u8", "f4", ">i4", "c16", "M8[s]", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_all_shapes_come_as_they_were(shape, dtype, order):
    count = int(np.prod(shape))
    host = np.arange(count).astype(dtype).reshape(shape, order=order)
    array = cuda.to_device(host)
    with haulage.transfers() as t:
        header, frames = protocol.serialize(array, serializers=["dask"])
    assert t.count() == copies_to_send(array)
    with haulage.transfers() as t:
        found = protocol.deserialize(header, frames)
    assert t.count() == (1 if count else 0)
    assert t.nbytes == array.nbytes
    assert type(found) is DeviceNDArray
    assert (found.shape, found.dtype, found.readonly) == (shape, host.dtype, False)
    assert not count or found.strides == array.strides
    assert np.array_equal(found.copy_to_host(), host)


@pytest.mark.parametrize(
    "part",
    [
        lambda d: d[::2],
        lambda d: d[:, 1:3],
        lambda d: d[::-1],
        lambda d: d.transpose(2, 1, 0)[:, :2],
    ],
)
def test_views_with_gaps_are_copied_once_on_each_side(part):
    host = np.arange(60.0).reshape(3, 4, 5)
    with haulage.transfers() as t:
        found = sent(part(cuda.to_device(host)))
    assert [one.direction for one in t[1:]] == ["device to host", "host to device"]
    assert "Dask (to be sent, or spilled to disk)" in str(t[1])
    assert "Dask (received, or read back from disk)" in str(t[2])
    assert np.array_equal(found.copy_to_host(), part(host))
    assert found.alloc_size == found.nbytes


def test_views_without_gaps_are_not_copied_when_they_are_sent():
    host = np.arange(60.0).reshape(3, 4, 5)
    array = cuda.to_device(host)
    for part in (lambda d: d[1:], lambda d: d[2], lambda d: d.transpose(2, 0, 1)):
        with haulage.transfers() as t:
            header, frames = protocol.serialize(part(array), serializers=["dask"])
        assert t.count() == copies_to_send(array)
        found = protocol.deserialize(header, frames)
        assert np.array_equal(found.copy_to_host(), part(host))
        assert found.strides == part(array).strides


def test_a_frame_holds_the_memory_and_has_what_streams_were_doing():
    @cuda.jit
    def slowly(x):
        i = cuda.grid(1)
        if i < x.size:
            for k in range(20_000):
                x[i] += k % 3
            x[i] = i

    array = cuda.device_array(2000, np.float64)
    name, held = str(array.device), 16_000 * (1 - copies_to_send(array))
    slowly[8, 256, cuda.stream()](array)
    header, frames = protocol.serialize(array, serializers=["dask"])
    in_use = haulage.memory.stats(name).in_use - 16_000
    del array
    others = [cuda.to_device(np.full(2000, -1.0)) for _ in range(3)]
    assert haulage.memory.stats(name).in_use == in_use + held + 3 * 16_000
    assert np.array_equal(np.frombuffer(frames[0]), np.arange(2000.0))
    del others, header, frames
    assert haulage.memory.stats(name).in_use == in_use


def test_an_array_whose_kernel_failed_is_not_sent():
    @cuda.jit
    def fails(x):
        for k in range(1_000_000):
            x[1] += k
        if x[0] != 7:
            raise ValueError("not seven")

    array = cuda.to_device(np.zeros(10))
    fails[1, 1, cuda.stream()](array)
    with pytest.raises(TypeError, match="Could not serialize") as refused:
        protocol.serialize(array, serializers=["dask"], on_error="raise")
    assert isinstance(refused.value.__cause__, KernelError)
    assert "not seven" in str(refused.value.__cause__)


def test_repeated_and_protected_elements():
    host = np.broadcast_to(np.arange(3.0), (1000, 3))
    shared = cuda.to_device(np.arange(3.0)).reshape(1, 3)
    repeated = shared._view((1000, 3), (0, 8))
    header, frames = protocol.serialize(repeated, serializers=["dask"])
    assert sum(map(len, frames)) == 24
    found = protocol.deserialize(header, frames)
    assert found.strides == (0, 8)
    assert np.array_equal(found.copy_to_host(), host)
    protected = cuda.to_device(np.arange(3.0))
    protected._protect()
    assert sent(protected).readonly


def test_records_and_structured_arrays():
    host = np.array([(1.5, 2), (2.5, 3)], RECORDS)
    found = sent(cuda.to_device(host))
    assert found.dtype == RECORDS
    assert np.array_equal(found.copy_to_host(), host)
    field = sent(cuda.to_device(host)["n"])
    assert field.copy_to_host().tolist() == [2, 3]
    record = sent(cuda.to_device(host)[1])
    assert type(record).__name__ == "DeviceRecord"
    assert record.copy_to_host() == host[1]


@pytest.mark.parametrize("make", [cuda.mapped_array, cuda.managed_array])
def test_mapped_and_managed_arrays_stay_what_they_are(make):
    array = make((4, 6), np.float32)
    array[...] = np.arange(24).reshape(4, 6)
    for part in (array, array.T, array[::2, 1:], array[:0]):
        found = sent(part)
        assert type(found) is type(array)
        assert cuda.to_device(found) is found
        assert np.array_equal(found, part)
        assert found.flags.writeable
    assert type(sent(array + 1)) is np.ndarray


def test_smart_arrays_come_from_where_they_are_and_stay_on_the_host():
    @cuda.jit
    def double(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    array = SmartArray(np.arange(10.0))
    double[1, 16](array)
    with haulage.transfers() as t:
        found = sent(array)
    assert t.count("device to host") == t.count() == (1 if len(t) else 0)
    assert type(found) is SmartArray
    assert np.array_equal(found, 2 * np.arange(10.0))
    found[0] = 5  # it can be written to, though bytes cannot
    double[1, 16](found)
    assert found[0] == 10


class Named(SmartArray):
    """A class of a program's."""


def test_a_class_made_of_smart_array_is_kept():
    assert type(protocol.deserialize(*protocol.serialize(Named(np.zeros(3))))).__name__ == "Named"


def test_arrays_in_collections():
    given = {"a": [cuda.to_device(np.arange(3)), 5]}
    found = protocol.deserialize(*protocol.serialize(given))
    assert found["a"][0].copy_to_host().tolist() == [0, 1, 2]
    assert found["a"][1] == 5


def test_the_family_cuda_is_for_nvidia_and_others_take_the_next():
    array = cuda.to_device(np.arange(10.0))
    header, frames = protocol.serialize(array, serializers=["cuda", "dask", "pickle"])
    assert header["serializer"] == ("cuda" if array.device.kind == "nvidia" else "dask")
    found = protocol.deserialize(header, frames, deserializers=["cuda", "dask", "pickle"])
    assert np.array_equal(found.copy_to_host(), np.arange(10.0))


@pytest.mark.parametrize("shape", [(0,), (5,), (4, 6), (10, 11), (2, 3, 5), ()])
@pytest.mark.parametrize("dtype", ["u1", "u4", "u8", "f4", RECORDS])
@pytest.mark.parametrize("order", ["C", "F"])
def test_frames_of_the_family_cuda_are_the_memory_itself(shape, dtype, order):
    host = np.arange(np.prod(shape)).astype(dtype).reshape(shape, order=order)
    array = cuda.to_device(host)
    if array.device.kind != "nvidia":
        pytest.skip("the family cuda is for NVIDIA's devices: pytest --nvidia-double has one")
    with haulage.assert_no_transfers():
        header, frames = protocol.serialize(array, serializers=["cuda"])
        found = protocol.deserialize(header, frames, deserializers=["cuda"])
    assert [frame.nbytes for frame in frames] == ([array.nbytes] if array.size else [])
    assert (found.shape, found.dtype) == (shape, host.dtype)
    if array.size:
        assert found.device_pointer == array.device_pointer
        assert found.strides == array.strides
    assert np.array_equal(found.copy_to_host(), host)
    part = array[::2] if shape and shape[0] > 1 else array
    frames = protocol.serialize(part, serializers=["cuda"])
    found = protocol.deserialize(*frames, deserializers=["cuda"])
    assert np.array_equal(found.copy_to_host(), part.copy_to_host())


def test_all_of_this_on_a_stand_in_for_nvidias_driver(request):
    if request.config.getoption("--nvidia-double"):
        pytest.skip("this is the run on the stand-in")
    neighbour("cuda.bindings", "cuda-bindings")
    command = ["-m", "pytest", "--nvidia-double", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, *command, "-W", "ignore", "-rs", __file__],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=request.config.rootpath,
    )
    assert done.returncode == 0, done.stdout
    assert "has one" not in done.stdout  # the family cuda was tried


# ---- tokens and sizes -------------------------------------------------------------------------

TOKENS = """
import numpy as np
import haulage
from haulage import SmartArray, cuda
from dask.base import tokenize

LIMIT = 3

@cuda.jit(device=True, fastmath={"nnan", "ninf", "nsz", "contract"})
def inner(x):
    return x * 2

@cuda.jit(fastmath={"nnan", "ninf", "nsz", "contract"})
def kernel(x, out):
    i = cuda.grid(1)
    if i < LIMIT:
        out[i] = inner(x[i])

host = np.arange(12.0).reshape(3, 4)
d = cuda.to_device(host)
print(tokenize(d), tokenize(d[0]), tokenize(SmartArray(host)), tokenize(kernel))
print(tokenize(kernel[1, 2]), tokenize(inner))
"""


def test_tokens_are_the_same_in_all_processes():
    found = {
        subprocess.run(
            [sys.executable, "-c", TOKENS],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            # Sets have another order.
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    words = found.pop().split()
    assert len(words) == len(set(words)) == 6


def test_kernels_of_one_function_differ_by_signatures_and_options():
    def function(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i]

    made = [
        cuda.jit(function),
        cuda.jit("void(float32[:], float32[:])")(function),
        cuda.jit("void(float64[:], float64[:])")(function),
        cuda.jit(fastmath=True)(function),
        cuda.jit(fastmath={"contract"})(function),
        cuda.jit(max_registers=32)(function),
        cuda.jit(device=True)(function),
        cuda.jit("void(float32[:], float32[:])", device=True)(function),
    ]
    tokens = [tokenize(each) for each in made]
    assert len(set(tokens)) == len(made)
    # What a launch compiles, it does for itself.
    made[0][1, 4](np.ones(4), np.ones(4))
    assert tokenize(made[0]) == tokens[0]


def test_tokens_tell_elements_dtypes_and_shapes_apart_and_nothing_else():
    host = np.arange(12.0).reshape(3, 4)
    array = cuda.to_device(host)
    token = tokenize(array, ensure_deterministic=True)
    same = [
        cuda.to_device(np.asfortranarray(host)),
        cuda.to_device(np.arange(24.0).reshape(3, 8))[:, ::2].copy_to_host(),
    ]
    assert tokenize(same[0]) == token
    wide = cuda.to_device(np.zeros((3, 8)))
    wide[:, ::2] = host
    assert tokenize(wide[:, ::2]) == token
    others = [
        cuda.to_device(host + 1),
        cuda.to_device(host.astype("f4")),
        cuda.to_device(host.view("i8")),
        array.reshape(4, 3),
        SmartArray(host),
        host,
    ]
    assert token not in {tokenize(each) for each in others}
    array[0, 0] = 9
    assert tokenize(array) != token


def test_tokens_of_records_do_not_see_what_is_between_the_fields():
    first, second = np.zeros(3, RECORDS), np.frombuffer(b"\xff" * 48, RECORDS).copy()
    second["x"], second["n"] = 0, 0
    assert first.tobytes() != second.tobytes()
    assert tokenize(cuda.to_device(first)) == tokenize(cuda.to_device(second))
    first["n"][1] = 1
    assert tokenize(cuda.to_device(first)) != tokenize(cuda.to_device(second))


def test_sizes_are_those_of_the_elements_that_have_memory():
    array = cuda.to_device(np.zeros((10, 20)))
    assert sizeof(array) == 1600
    assert sizeof(array[::2]) == 800
    assert sizeof(array[0]._view((1000, 20), (0, 8))) == 160
    assert sizeof(cuda.mapped_array((3, 4))) == 96
    assert sizeof(SmartArray(np.zeros(5, "i2"))) == 10
    assert sizeof(cuda.to_device(np.zeros(4, RECORDS))[1]) == RECORDS.itemsize
    assert sizeof(cuda.device_array((0, 5))) == 0
