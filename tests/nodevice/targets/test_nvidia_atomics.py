"""Atomic words become the narrowest instructions that NVIDIA's GPUs have for them."""

import pytest

from doubles.nvidia_code import count, words
from haulage import cuda

_ARCHITECTURES = ("sm_75", "sm_90")


def changes(x, value):
    cuda.atomic.add(x, 0, value)
    cuda.atomic.sub(x, 1, value)


def int_changes(x, out, value):
    out[0] = cuda.atomic.add(x, 0, value)
    cuda.atomic.max(x, 1, value)
    cuda.atomic.min(x, 2, value)
    cuda.atomic.and_(x, 3, value)
    cuda.atomic.or_(x, 4, value)
    cuda.atomic.xor(x, 5, value)
    out[1] = cuda.atomic.exch(x, 6, value)
    out[2] = cuda.atomic.cas(x, 7, value, x[8])


def turns(x, value):
    cuda.atomic.inc(x, 0, value)
    cuda.atomic.dec(x, 1, value)


def of(kernel, signature, architecture="sm_90"):
    """The atomic instructions of a kernel, and its jumps."""
    found = words(kernel, signature, architecture)
    return [word for word in found if word.startswith(("atom", "red", "bra"))]


@pytest.mark.parametrize("architecture", _ARCHITECTURES)
@pytest.mark.parametrize(("kind", "letter"), [("int32", "s32"), ("uint32", "u32")])
def test_ints_have_an_instruction_for_each_word(kind: str, letter: str, architecture: str) -> None:
    signature = f"void({kind}[::1], {kind}[::1], {kind})"
    assert of(int_changes, signature, architecture) == [
        "atom.global.add.u32",
        f"red.global.max.{letter}",
        f"red.global.min.{letter}",
        "red.global.and.b32",
        "red.global.or.b32",
        "red.global.xor.b32",
        "atom.global.exch.b32",
        "atom.relaxed.gpu.global.cas.b32",
    ]
    assert of(int_changes, signature.replace("32", "64"), architecture) == [
        "atom.global.add.u64",
        f"red.global.max.{letter.replace('32', '64')}",
        f"red.global.min.{letter.replace('32', '64')}",
        "red.global.and.b64",
        "red.global.or.b64",
        "red.global.xor.b64",
        "atom.global.exch.b64",
        "atom.relaxed.gpu.global.cas.b64",
    ]


@pytest.mark.parametrize("architecture", _ARCHITECTURES)
def test_floats_are_added_by_one_instruction(architecture: str) -> None:
    for kind, name in (("float32", "f32"), ("float64", "f64"), ("float16", "noftz.f16")):
        found = of(changes, f"void({kind}[::1], {kind})", architecture)
        assert found == [f"red.global.add.{name}"] * 2


def test_turns_are_one_instruction_for_32_bits() -> None:
    found = of(turns, "void(uint32[::1], uint32)")
    assert found == ["red.global.inc.u32", "red.global.dec.u32"]


def extremes(x, value):
    cuda.atomic.max(x, 0, value)
    cuda.atomic.min(x, 1, value)


def test_an_extreme_of_floats_is_a_look_and_one_instruction_on_ints() -> None:
    code = of(extremes, "void(float32[::1], float32)")
    assert [word for word in code if word != "bra" and word != "bra.uni"] == [
        "red.global.max.s32",
        "red.global.min.u32",
        "red.global.min.s32",
        "red.global.max.u32",
    ]
    assert count(extremes, "void(float64[::1], float64)", "ld.relaxed.gpu.global.b64") == 2


def swapped(x, out, value):
    out[0] = cuda.atomic.cas(x, 0, value, x[1])


def test_two_bytes_are_swapped_without_a_loop() -> None:
    for kind in ("int16", "float16"):
        found = of(swapped, f"void({kind}[::1], {kind}[::1], {kind})")
        assert found == ["atom.relaxed.gpu.cas.b16"]


def test_bytes_are_changed_by_way_of_the_four_around() -> None:
    for kind in ("int8", "uint8", "int16"):
        found = of(changes, f"void({kind}[::1], {kind})")
        assert found == ["atom.relaxed.gpu.global.cas.b32", "bra"] * 2


def in_shared(x):
    room = cuda.shared.array(32, x.dtype)
    room[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    cuda.atomic.add(room, 0, x[cuda.threadIdx.x])
    cuda.syncthreads()
    x[0] = room[0]


def test_shared_memory_is_named_in_the_instruction() -> None:
    for kind, name in (("int32", "u32"), ("float32", "f32"), ("float64", "f64")):
        assert of(in_shared, f"void({kind}[::1])") == [f"red.shared.add.{name}"]


def in_local(x, place, out):
    own = cuda.local.array(4, x.dtype)
    for i in range(4):
        own[i] = x[i]
    out[0] = cuda.atomic.add(own, place, 1)
    out[1] = cuda.atomic.exch(own, place + 1, 2)
    out[2] = cuda.atomic.cas(own, place, 3, 4)
    out[3] = cuda.atomic.max(own, place, 5)
    for i in range(4):
        x[i] = own[i]


@pytest.mark.parametrize("kind", ["int32", "uint64", "float32", "float64", "float16", "int8"])
def test_a_threads_own_memory_is_changed_by_plain_instructions(kind: str) -> None:
    found = of(in_local, f"void({kind}[::1], int32, {kind}[::1])")
    assert not [word for word in found if word.startswith(("atom", "red"))]


def own_turns(x, place):
    own = cuda.local.array(4, x.dtype)
    for i in range(4):
        own[i] = x[i]
    cuda.atomic.inc(own, place, 7)
    cuda.atomic.dec(own, place + 1, 7)
    for i in range(4):
        x[i] = own[i]


def test_turns_of_a_threads_own_memory_are_plain_instructions() -> None:
    found = words(own_turns, "void(uint32[::1], int32)")
    assert not [word for word in found if word.startswith(("atom", "red"))]


def test_memory_that_may_be_a_threads_own_is_asked_for() -> None:
    def either(x, place):
        own = cuda.local.array(4, x.dtype)
        for i in range(4):
            own[i] = x[i]
        chosen = own if x[0] else x
        cuda.atomic.add(chosen, place, x[1])
        for i in range(4):
            x[i + 4] = own[i]

    found = words(either, "void(int32[::1], int32)")
    assert found.count("isspacep.local") == 1
    assert "red.add.u32" in found


def test_a_function_that_calls_itself_asks_whose_memory_it_changes() -> None:
    @cuda.jit
    def count_down(x, n):
        if n > 0:
            cuda.atomic.add(x, 0, n)
            cuda.atomic.cas(x, 1, n, 0)
            count_down(x, n - 1)

    def kernel(x, n):
        count_down(x, n)

    assert words(kernel, "void(int32[::1], int32)").count("isspacep.local") == 2


def test_parts_of_complex_numbers() -> None:
    def kernel(z):
        cuda.atomic.add(z.real, 0, 2.0)
        cuda.atomic.add(z.imag, 1, 2.0)

    assert of(kernel, "void(complex64[::1])") == ["red.global.add.f32"] * 2
