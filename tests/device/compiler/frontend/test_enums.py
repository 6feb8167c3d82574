"""Enums in kernels: as globals, as arguments and as numbers."""

import enum

import numpy as np
import pytest

from haulage import cuda, roc
from haulage.errors import LaunchTypeError

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Share(enum.Enum):
    HALF = 0.5
    ALL = 1.0


class Body(enum.Enum):
    SMALL = (1.0, 2.0)
    LARGE = (3.0, 4.0)


class Mixed(enum.Enum):
    NUMBER = 1
    FRACTION = 2.5


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2
    RUN = 4


def test_flags_are_joined_and_asked_for():
    both, unnamed = Access.READ | Access.WRITE, Access(64)

    def kernel(out, flag):
        out[0] = flag | Access.RUN
        out[1] = flag & both
        out[2] = flag ^ 3
        out[3] = unnamed + Level.LOW
        out[4] = flag == Access.READ or flag == both
        out[5] = Access.RUN.value << Level.LOW
        if flag & Access.WRITE:
            out[6] = -Level.HIGH + Level.LOW

    for flag in (Access.READ, both, Access.RUN):
        out, wanted = np.zeros(7), np.zeros(7)
        cuda.jit(kernel)[1, 1](out, flag)
        kernel(wanted, flag)
        assert out.tolist() == wanted.tolist()


def test_members_of_an_intenum_are_numbers_of_every_kind(way):
    @cuda.jit
    def kernel(out, whole, numbers):
        out[0] = Level.HIGH
        out[1] = Level.LOW * 2.5
        out[2] = Level.HIGH / 2
        out[3] = float(Level.HIGH) + int(Level.HIGH)
        out[4] = Level.HIGH | 2
        out[5] = 1 if Level.LOW < Level.HIGH else 0
        whole[0] = Level.HIGH
        numbers[0] = Level.HIGH
        numbers[1] = complex(Level.HIGH)

    out, whole, numbers = np.zeros(6), np.zeros(1, np.int8), np.zeros(2, np.complex128)
    kernel[1, 1](out, whole, numbers)
    assert out.tolist() == [5, 2.5, 2.5, 10, 7, 1]
    assert whole[0] == 5
    assert numbers.tolist() == [5, 5]


@pytest.mark.parametrize("words", [cuda, roc])
def test_members_are_arguments(words, way):
    @words.jit
    def kernel(out, color, share, level, body):
        out[0] = 1 if color == Color.BLUE else 2
        out[1] = 1 if color is Color.RED else 2
        out[2] = share.value
        out[3] = level * 2
        out[4] = body.value[1]
        out[5] = 1 if level is Level.HIGH else 2
        out[6] = out[level] if level == Level.LOW else 0.5 * level

    out = np.zeros(7)
    kernel[1, 1](out, Color.BLUE, Share.HALF, Level.HIGH, Body.LARGE)
    assert out.tolist() == [1, 2, 0.5, 10, 4, 1, 2.5]
    kernel[1, 1](out, Color.RED, Share.ALL, Level.LOW, Body.SMALL)
    assert out.tolist() == [2, 1, 1, 2, 2, 2, 1]
    assert len(kernel.signatures) == 1


@pytest.mark.parametrize("words", [cuda, roc])
def test_members_of_an_intenum_are_indices_and_arguments_of_words(words, way):
    @words.jit
    def kernel(places, counts, level):
        places[level, Level.LOW] = 5
        places[Level.LOW, level] += 2
        words.atomic.add(places, (level, Level.HIGH), Level.HIGH)
        words.atomic.max(counts, level, level)
        words.atomic.add(counts, Level.LOW, 1)

    places, counts = np.zeros((6, 6)), np.zeros(6, np.int32)
    kernel[1, 1](places, counts, Level.HIGH)
    wanted = np.zeros((6, 6))
    wanted[5, 1], wanted[1, 5], wanted[5, 5] = 5, 2, 5
    assert np.array_equal(places, wanted)
    assert counts.tolist() == [0, 1, 0, 0, 0, 5]


def test_a_signature_takes_the_enum_that_it_was_compiled_for():
    @cuda.jit
    def kernel(out, color):
        out[0] = 1 if color == Color.BLUE else 2

    only = kernel.specialize(np.zeros(1), Color.RED)
    out = np.zeros(1)
    only[1, 1](out, Color.BLUE)
    assert out[0] == 1
    with pytest.raises(LaunchTypeError, match="No matching definition"):
        only[1, 1](out, Share.HALF)


def test_a_member_of_an_intenum_is_an_argument_where_a_number_is_declared():
    @cuda.jit("void(float64[:], float64, int8)")
    def kernel(out, fraction, whole):
        out[0] = fraction / 2 + whole

    out = np.zeros(1)
    kernel[1, 1](out, Level.HIGH, Level.LOW)
    assert out[0] == 3.5


def test_an_enum_with_values_of_different_types_is_refused():
    @cuda.jit
    def kernel(out, value):
        out[0] = 1

    with pytest.raises(LaunchTypeError, match=r"'value'.*Mixed.*different types"):
        kernel[1, 1](np.zeros(1), Mixed.NUMBER)


def test_a_ufunc_gives_a_member_of_an_intenum_as_its_number():
    @cuda.vectorize
    def least(x):
        return Level.HIGH if x > 2 else Level.LOW

    out = least(np.arange(5))
    assert out.dtype == np.int64
    assert out.tolist() == [1, 1, 1, 5, 5]
