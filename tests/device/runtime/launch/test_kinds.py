"""Each kind of argument: what a kernel gets of it, and that launches with it have one plan."""

import enum
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

import haulage
from haulage import SmartArray, cuda
from haulage.errors import LaunchError, LaunchTypeError
from haulage.runtime.arrays.keys import SCALAR
from haulage.runtime.launch import kinds

ALSO_FAR = True
pytestmark = pytest.mark.usefixtures("device")

PAIR = np.dtype([("a", "f8"), ("b", "i4")], align=True)
Two = namedtuple("Two", "u v")


class Color(enum.Enum):
    RED = 2
    BLUE = 5


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 7


class Size(enum.Enum):
    SMALL = (1, 2)
    LARGE = (3, 4)


class Elsewhere:
    """An array of a library that speaks DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def array(*values):
    return np.array(values, np.float64)


def records():
    made = np.zeros(2, PAIR)
    made[1] = (3.5, 4)
    return made


def managed():
    made = cuda.managed_array(2)
    made[:] = 6, 7
    return made


def mapped():
    made = cuda.mapped_array((2, 2))
    made[:] = [[1, 2], [3, 4]]
    return made


# What is given, what the kernel takes of it, and what that is.
KINDS = {
    "device array": (lambda: cuda.to_device(array(1, 2)), lambda x: x[1], 2),
    "view": (lambda: cuda.to_device(np.arange(9.0))[1::3], lambda x: x[2], 7),
    "no axes": (lambda: cuda.to_device(np.array(4.0)), lambda x: x[()], 4),
    "device record": (lambda: cuda.to_device(records())[1], lambda x: x["a"] + x["b"], 7.5),
    "mapped": (mapped, lambda x: x[1, 0], 3),
    "mapped view": (lambda: mapped()[::-1, 1], lambda x: x[1], 2),
    "managed": (managed, lambda x: x[1], 7),
    "NumPy array": (lambda: array(1, 2, 3), lambda x: x[2], 3),
    "strided": (lambda: np.arange(12.0).reshape(3, 4)[:, ::2], lambda x: x[2, 1], 10),
    "read-only": (lambda: np.broadcast_to(array(8), (3,)), lambda x: x[2], 8),
    "NumPy record": (lambda: records()[1], lambda x: x["a"] + x["b"], 7.5),
    "SmartArray": (lambda: SmartArray(array(5, 6)), lambda x: x[1], 6),
    "other library": (lambda: Elsewhere(array(5, 9)), lambda x: x[1], 9),
    "In": (lambda: cuda.In(array(5, 9)), lambda x: x[1], 9),
    "InOut": (lambda: cuda.InOut(array(5, 9)), lambda x: x[1], 9),
    "In of a SmartArray": (lambda: cuda.In(SmartArray(array(5, 9))), lambda x: x[1], 9),
    "In of a device array": (lambda: cuda.In(cuda.to_device(array(5, 9))), lambda x: x[1], 9),
    "int": (lambda: 3, lambda x: x, 3),
    "negative": (lambda: -(2**63), lambda x: x / 2**60, -8),
    "unsigned": (lambda: 2**63, lambda x: x / 2**60, 8),
    "bool": (lambda: True, lambda x: x + 1, 2),
    "float": (lambda: 2.5, lambda x: x, 2.5),
    "complex": (lambda: 1 + 2j, lambda x: x.imag + x.real, 3),
    "int8": (lambda: np.int8(-5), lambda x: x, -5),
    "uint64": (lambda: np.uint64(2**63), lambda x: x / 2**60, 8),
    "float32": (lambda: np.float32(0.5), lambda x: x, 0.5),
    "complex64": (lambda: np.complex64(1 - 2j), lambda x: x.imag, -2),
    "bool_": (lambda: np.True_, lambda x: x + 1, 2),
    "None": (lambda: None, lambda x: 1 if x is None else 2, 1),
    "dtype": (lambda: np.dtype("f4"), lambda x: 4.0, 4),
    "class": (lambda: np.int16, lambda x: x(7.9), 7),
    "Enum": (lambda: Color.BLUE, lambda x: x.value, 5),
    "IntEnum": (lambda: Level.HIGH, lambda x: x * 2, 14),
    "Enum of tuples": (lambda: Size.LARGE, lambda x: x.value[1], 4),
    "tuple": (lambda: (cuda.to_device(array(1, 2)), 3), lambda x: x[0][1] * x[1], 6),
    "empty tuple": (lambda: (), lambda x: len(x), 0),
    "named tuple": (lambda: Two(array(3), 2.5), lambda x: x.u[0] * x.v, 7.5),
    "nested": (
        lambda: ((1, (SmartArray(array(4, 5)), 2)), records()[1], cuda.to_device(array(7))),
        lambda x: x[0][0] + x[0][1][0][1] + x[0][1][1] + x[1]["b"] + x[2][0],
        19,
    ),
    "tuple with an Enum of tuples": (
        lambda: (Size.SMALL, SmartArray(array(4, 5))),
        lambda x: x[0].value[0] + x[1][1],
        6,
    ),
}


def kernel_of(take):
    take = cuda.jit(device=True)(take)

    @cuda.jit
    def kernel(out, x):
        out[0] = take(x)

    return kernel


@cuda.jit
def add_to_first(x):
    x[0] += 1


@cuda.jit
def add_to_corner(x):
    x[0, 0] += 1


@pytest.mark.parametrize("name", KINDS)
def test_a_kernel_gets_the_value_each_time_and_one_plan_is_made(name):
    make, take, expected = KINDS[name]
    kernel = kernel_of(take)
    made = []
    plan = kernel.plan
    kernel.plan = lambda *args: made.append(args) or plan(*args)
    for stream in (0, 0, cuda.stream()):
        launcher = kernel[1, 1, stream]
        for _ in range(2):
            out = cuda.to_device(np.zeros(1))
            launcher(out, make())
            if stream:
                stream.synchronize()
            assert out.copy_to_host()[0] == expected
    # One for the default stream and one for the other; two of each where something is opened or
    # copied first, and its kind is then looked at again.
    assert len(made) in (2, 4)
    assert len(kernel.signatures) == 1


def test_dates_are_arguments():
    @cuda.jit
    def kernel(out, since, span):
        out[0] = since + span

    for day in ("2024-02-28", "1969-12-31"):
        out = cuda.to_device(np.zeros(1, "M8[D]"))
        kernel[1, 1](out, np.datetime64(day), np.timedelta64(2, "D"))
        assert out.copy_to_host()[0] == np.datetime64(day) + np.timedelta64(2, "D")


def test_what_the_kernel_writes_is_there_in_each_kind_of_array(device):
    @cuda.jit
    def kernel(arrays, value):
        for number in range(2):
            arrays[number][0] = value + number

    made = {
        "device": lambda: cuda.to_device(array(0, 0)),
        "mapped": lambda: cuda.mapped_array(2),
        "NumPy": lambda: array(0, 0),
        "smart": lambda: SmartArray(array(0, 0)),
    }
    for one, other in [("device", "mapped"), ("NumPy", "smart"), ("smart", "device")]:
        for value in (3.0, 5.0):
            pair = made[one](), made[other]()
            kernel[1, 1](pair, value)
            cuda.synchronize()
            got = [each.copy_to_host() if one_of(each) else np.asarray(each) for each in pair]
            assert [each[0] for each in got] == [value, value + 1]


def one_of(value):
    return isinstance(value, cuda.DeviceNDArray)


def test_named_arguments_and_defaults_follow_the_same_plan():
    @cuda.jit
    def kernel(out, x=2.0, y=3.0):
        out[0] = 10 * x + y

    launcher, out = kernel[1, 1], cuda.to_device(np.zeros(1))
    for given in ({}, {"y": 3.0, "x": 2.0}, {"x": 2.0}):
        launcher(out, **given)
        assert out.copy_to_host()[0] == 23
    launcher(y=3.0, out=out)
    assert len(set(launcher.plans.values())) == 1


def test_numbers_beyond_the_declared_type_are_refused_each_time():
    @cuda.jit("void(float64[:], uint8, boolean, complex64)")
    def kernel(out, small, truth, number):
        out[0] = small + truth + number.imag

    launcher, out = kernel[1, 1], cuda.to_device(np.zeros(1))
    for _ in range(2):
        launcher(out, 200, 5, 3)
        assert out.copy_to_host()[0] == 201
        launcher(out, -1, False, 2j)
        assert out.copy_to_host()[0] == 257
        with pytest.raises(LaunchError, match="does not fit its declared type"):
            launcher(out, 256, True, 1)


def test_a_new_kind_of_argument_is_one_entry(monkeypatch):
    class Fixed:
        """A number in units of 1/256."""

        def __init__(self, raw):
            self.raw = raw

    monkeypatch.setattr(kinds, "_entries", list(kinds._entries))

    @kinds.argument(lambda of: of is Fixed)
    def fixed(value, fields):
        fields.append(value.raw / 256)
        return kinds.kind(kinds.VALUE, (SCALAR, np.dtype(np.float64)))

    kernel, out = kernel_of(lambda x: 2 * x), cuda.to_device(np.zeros(1))
    for raw in (128, 640):
        kernel[1, 1](out, Fixed(raw))
        assert out.copy_to_host()[0] == raw / 128
    kinds.classifiers.pop(Fixed)


def test_classes_that_programs_make_are_not_kept_without_end():
    kernel, out = kernel_of(lambda x: x.u + x.v), cuda.to_device(np.zeros(1))
    for number in range(2 * kinds._MOST_TYPES):
        kinds.classify(namedtuple(f"Made{number}", "u v")(1, 2), [])
    kernel[1, 1](out, Two(1, 2))
    assert out.copy_to_host()[0] == 3
    assert len(kinds.classifiers) <= kinds._MOST_TYPES


def test_layouts_of_mapped_arrays_are_not_kept_without_end(monkeypatch):
    monkeypatch.setattr(kinds, "_MOST", 50)
    whole = cuda.mapped_array((40, 40))
    whole[:] = 0
    for rows in range(2, 30):
        for columns in range(2, 8):
            add_to_corner[1, 1](whole[:rows, :columns])
    assert len(kinds._mapped) <= 50
    cuda.synchronize()
    assert whole[0, 0] == 28 * 6


def test_objects_of_a_class_made_of_device_arrays_are_device_arrays():
    class Own(cuda.DeviceNDArray):
        pass

    own = Own((4,), (8,), np.dtype(np.float64))
    own.copy_to_device(np.zeros(4))
    add_to_first[1, 1](own)
    add_to_first[1, 1](cuda.InOut(own))
    add_to_first[1, 1](own[:2])
    assert own.copy_to_host()[0] == 3


def test_an_argument_that_has_an_interface_and_is_no_array_is_named():
    with pytest.raises(LaunchTypeError, match="argument 'x'"):
        add_to_first[1, 1](Elsewhere)


@pytest.mark.parametrize("value", ["text", object(), [1, 2], {"a": 1}, 2**64, np.str_("a")])
def test_what_no_kernel_takes_is_named_each_time(value):
    kernel, out = kernel_of(lambda x: 1), cuda.to_device(np.zeros(1))
    for given in (value, (1, value)):
        with pytest.raises(LaunchTypeError, match="argument 'x'"):
            kernel[1, 1](out, given)


def test_a_repeated_launch_passes_the_files_that_the_design_names(device):
    kernel, x = kernel_of(lambda x: x), cuda.to_device(np.zeros(1))
    kernel[1, 1](x, 3)
    root = Path(haulage.__file__).parent
    met = set()

    def note(frame, event, _):
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(root):
            met.add(file.relative_to(root).as_posix())

    sys.setprofile(note)
    try:
        kernel[1, 1](x, 3)
    finally:
        sys.setprofile(None)
    met = {file for file in met if file.startswith(("kernel/", "runtime/"))}
    assert met == {"kernel/kernel.py"}


SCALARS = (
    *(True, 3, 1.5, 2 - 1j, np.longlong(7), np.ulonglong(8), np.float16(2.5)),
    *(np.dtype(each).type(1) for each in "?bhilBHILfdFD"),
)
DECLARED = ("int8", "int64", "uint32", "float32", "float64", "complex64", "complex128")


def kept(value, out):
    out[0] = value


@pytest.mark.parametrize("declared", DECLARED)
def test_numbers_of_every_type_become_the_declared_one(declared):
    kernel, of = cuda.jit(f"void({declared}, {declared}[::1])")(kept), np.dtype(declared)
    for value in SCALARS:
        # Whole numbers are not made of others, nor real ones of complex ones.
        if "biufc".index(np.asarray(value).dtype.kind) > max(2, "biufc".index(of.kind)):
            continue
        out = np.zeros(1, of)
        kernel[1, 1](value, out)
        assert out[0] == np.asarray(value).astype(of), (value, type(value))


def test_many_numbers_and_launches_with_other_types_between():
    count = 40
    names = ", ".join(f"a{each}" for each in range(count))
    source = f"def many(out, {names}):\n" + "".join(
        f"    out[{each}] = abs(a{each} * 1.0)\n" for each in range(count)
    )
    written = {}
    exec(source, written)
    kernel = cuda.jit(written["many"])[1, 1]
    for shift in (0, 0, 1, 0, 1):
        given = [SCALARS[(each + shift) % len(SCALARS)] for each in range(count)]
        out = np.zeros(count)
        kernel(out, *given)
        assert out.tolist() == pytest.approx([float(abs(value * 1.0)) for value in given])


def test_a_float_beyond_float32_is_an_error():
    kernel = cuda.jit("void(float32, float32[::1])")(kept)
    with pytest.raises(LaunchError, match="does not fit its declared type"):
        kernel[1, 1](1e300, np.zeros(1, np.float32))
