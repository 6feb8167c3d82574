"""Which of a kernel's signatures a launch takes: the one with the least conversion."""

import numpy as np
import pytest

from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


@pytest.fixture
def out():
    return cuda.to_device(np.zeros(4))


def put(out, first, second):
    out[0] = first + second


def touch(out, first, second):
    out[0] = 1


FLOAT32 = np.float32(2**-25)


@pytest.mark.parametrize(
    ("signatures", "args", "chosen"),
    [
        # As they are, before any conversion; to wider numbers, before others without loss.
        (["float32, float32", "float64, float64"], (np.float32(1), 2**-25), 1),
        (["float64, float64", "float32, float32"], (FLOAT32, FLOAT32), 1),
        (["float64, float64", "int64, int64"], (np.int32(1), np.int8(2)), 1),
        (["float64, float64", "int32, int32"], (np.int16(1), np.int16(2)), 1),
        (["int32, int32", "float64, float64"], (1, 2), 1),
        (["int32, int32", "complex128, complex128"], (1, 2), 1),
        (["int32, int32"], (1, 2), 0),
        (["float32, float32", "uint8, uint8"], (1, 2.5), 0),
    ],
)
def test_the_signature_with_the_least_conversion_is_chosen(out, signatures, args, chosen):
    kernel = cuda.jit([f"void(float64[::1], {each})" for each in signatures])(touch)
    overloads = list(kernel.overloads.values())
    kernel[1, 1](out, *args)
    assert [bool(overload.loaded) for overload in overloads] == [
        place == chosen for place in range(len(signatures))
    ]


def test_an_ambiguous_choice_is_refused(out):
    kernel = cuda.jit(
        [
            "(float64[::1], float32, float64)",
            "(float64[::1], float64, float32)",
            "(float64[::1], int64, int64)",
        ]
    )(put)
    with pytest.raises(
        TypeError, match=r"Ambiguous overloading for <function put [^>]*> \("
    ) as refused:
        kernel[1, 1](out, 1.0, 2.0)
    assert "float32, float64" in str(refused.value)
    assert "int64" not in str(refused.value)


def test_no_fitting_signature_is_a_type_error(out):
    kernel = cuda.jit(["(float64[::1], int64, int64)", "(float64[::1], float64, float64)"])(put)
    with pytest.raises(TypeError, match=r"No matching definition for argument.*complex128.*only"):
        kernel[1, 1](out, 1j, 1j)


def test_a_kernel_that_can_compile_more_loses_nothing_by_conversion(out):
    kernel = cuda.jit(put)
    kernel.compile("(float64[::1], int32, float32)")
    kernel[1, 1](out, 2**40, 0.1)
    assert out[0] == 2**40 + 0.1
    assert len(kernel.signatures) == 2
    kernel[1, 1](out, np.int16(3), np.float32(0.5))
    assert out[0] == 3.5
    assert len(kernel.signatures) == 2
