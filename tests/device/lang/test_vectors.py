"""Short vectors in kernels: made of numbers and of vectors, kept in arrays, passed on."""

import numpy as np
import pytest

from haulage import cuda
from haulage.errors import CompileError
from haulage.lang.vectors import Vector

pytestmark = [pytest.mark.ptx, pytest.mark.ptx_always, pytest.mark.usefixtures("device")]

ELEMENTS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
ELEMENTS += ["float32", "float64"]
VECTORS = [f"{element}x{count}" for element in ELEMENTS for count in (1, 2, 3, 4)]


@pytest.mark.parametrize("name", VECTORS)
def test_each_vector_has_its_fields_in_its_type(name):
    count = int(name[-1])
    fields = "xyzw"[:count]
    values = [100.75, 2, True, 7][:count]
    names = {"cuda": cuda}
    exec(
        f"def kernel(out):\n    v = cuda.{name}({', '.join(map(str, values))})\n"
        + "".join(f"    out[{n}] = v.{field}\n" for n, field in enumerate(fields)),
        names,
    )
    out = cuda.device_array(count)
    cuda.jit(names["kernel"])[1, 1](out)
    assert out.copy_to_host().tolist() == np.array(values).astype(name[:-2]).tolist()


def test_the_names_of_cuda_are_the_same_words():
    kinds = {"char": "int8", "short": "int16", "int": "int32", "long": "int64", "longlong": "int64"}
    kinds |= {f"u{name}": f"u{element}" for name, element in kinds.items()}
    kinds |= {"float": "float32", "double": "float64"}
    named = {f"{name}{n}": f"{element}x{n}" for name, element in kinds.items() for n in range(1, 5)}
    assert [name for name in named if getattr(cuda, name) is not getattr(cuda, named[name])] == []
    words = {name for name in cuda.__all__ if isinstance(getattr(cuda, name), Vector)}
    assert words == set(VECTORS) | set(named)


def test_vectors_are_made_of_vectors(way):
    @cuda.jit
    def parts(x, out):
        i = cuda.grid(1)
        one, two = cuda.float1(x[i]), cuda.float2(x[i] + 1, x[i] + 2)
        three = cuda.float3(two, one)
        four = cuda.float4(one, two, x[i] + 3)
        again = cuda.float4(four)
        last = cuda.float4(three, 9)
        out[i, 0], out[i, 1], out[i, 2] = three.x, three.y, three.z
        out[i, 3], out[i, 4], out[i, 5], out[i, 6] = again.x, again.y, again.z, again.w
        out[i, 7] = last.w + last.z

    x = np.arange(16, dtype=np.float32)
    out = cuda.device_array((16, 8), np.float32)
    parts[2, 8](cuda.to_device(x), out)
    expected = [x + 1, x + 2, x, x, x + 1, x + 2, x + 3, 9 + x]
    np.testing.assert_array_equal(out.copy_to_host().T, expected)


def test_vectors_go_through_functions_tuples_branches_and_barriers(way):
    @cuda.jit(device=True)
    def turned(v):
        return cuda.double2(-v.y, v.x)

    @cuda.jit
    def turn(x, out):
        i = cuda.grid(1)
        v = cuda.double2(x[i], 1)
        if i % 2:
            v = turned(v)
        pair = (v, turned(v))
        cuda.syncthreads()
        out[i, 0], out[i, 1] = pair[0].x, pair[1].x

    x = np.arange(16.0)
    out = cuda.device_array((16, 2))
    turn[1, 16](cuda.to_device(x), out)
    odd = np.arange(16) % 2 == 1
    first, second = np.where(odd, -1, x), np.where(odd, x, 1)
    np.testing.assert_array_equal(out.copy_to_host().T, [first, -second])


def test_shared_and_local_arrays_hold_vectors(way):
    @cuda.jit
    def mirror(x, out):
        room = cuda.shared.array(16, cuda.float32x3)
        own = cuda.local.array((2, 2), dtype=cuda.short2)
        t = cuda.threadIdx.x
        room[t] = cuda.float3(x[t], t, 5)
        own[1, 0] = cuda.short2(t, -t)
        cuda.syncthreads()
        other = room[15 - t]
        out[t, 0], out[t, 1], out[t, 2] = other.x, other.y, own[1, 0].y + room[t].z

    x = np.random.default_rng(1).random(16, np.float32)
    out = cuda.device_array((16, 3), np.float32)
    mirror[1, 16](cuda.to_device(x), out)
    t = np.arange(16)
    np.testing.assert_array_equal(out.copy_to_host().T, [x[::-1], 15 - t, 5 - t])


def test_fields_of_vectors_are_not_written():
    @cuda.jit
    def write(x):
        v = cuda.float2(1, 2)
        v.x = x[0]

    with pytest.raises(
        CompileError, match=r"cannot set v\.x: the attributes of a float32x2 are fixed"
    ):
        write[1, 1](cuda.to_device(np.zeros(1)))


REFUSED = {
    "float4(1, 2, 3)": r"float32x4\(...\): expected 4 elements in all; got 3",
    "int2(cuda.int3(1, 2, 3))": r"int32x2\(...\): expected 2 elements in all; got 3",
    "float2(cuda.double2(1, 2))": r"expected real numbers or vectors of float32; got float64x2",
    "float1(1j)": r"float32x1\(...\): expected real numbers or vectors of float32; got complex128",
    "float2(1, 2).z": "'z'",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_makes_no_vector_is_named(call):
    names = {"cuda": cuda}
    exec(f"def kernel(x):\n    v = cuda.{call}\n    x[0] = 1\n", names)
    with pytest.raises(CompileError, match=REFUSED[call]):
        cuda.jit(names["kernel"])[1, 1](cuda.to_device(np.zeros(1)))
