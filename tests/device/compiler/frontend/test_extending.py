"""Programs that add types, functions and attributes of their own to kernels, by Numba's ways."""

import numba
import numpy as np
import pytest
from llvmlite import ir
from numba import types
from numba.core.typing import signature
from numba.core.typing.templates import AttributeTemplate, ConcreteTemplate

from haulage import cuda
from haulage.cuda.cudadecl import register_attr, register_global
from haulage.cuda.cudaimpl import lower, lower_attr, lower_constant
from haulage.cuda.extending import intrinsic, models, overload, overload_method, type_callable
from haulage.cuda.models import register_model
from haulage.cuda.nvvmutils import SREG_MAPPING, SRegBuilder, call_sreg, get_global_id

pytestmark = pytest.mark.usefixtures("device")


class Celsius:
    """A temperature, on the host."""

    def __init__(self, degrees):
        self.degrees = degrees


class CelsiusType(types.Type):
    def __init__(self):
        super().__init__("Celsius")


CELSIUS = CelsiusType()


# In kernels only: Numba's functions for the host know no such values.
@register_model(CelsiusType)
class CelsiusModel(models.StructModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, [("degrees", types.float64)])


@type_callable(Celsius)
def _type_celsius(context):
    return lambda degrees: CELSIUS if isinstance(degrees, types.Float) else None


@lower(Celsius, types.float64)
def _make_celsius(context, builder, sig, args):
    made = ir.Constant(context.get_value_type(CELSIUS), ir.Undefined)
    return builder.insert_value(made, args[0], 0)


@register_attr
class _CelsiusAttributes(AttributeTemplate):
    key = CelsiusType

    def resolve_kelvin(self, kind):
        return types.float64


@lower_attr(CelsiusType, "kelvin")
def _kelvin(context, builder, kind, value):
    return builder.fadd(builder.extract_value(value, 0), ir.Constant(ir.DoubleType(), 273.15))


def halved(x):
    """A function of the host, which kernels are taught below."""
    return x / 2


@register_global(halved)
class _Halved(ConcreteTemplate):
    cases = (signature(types.float64, types.float64),)


@lower(halved, types.float64)
def _lower_halved(context, builder, sig, args):
    return builder.fmul(args[0], ir.Constant(ir.DoubleType(), 0.5))


class UnitType(types.Dummy):
    pass


UNIT = UnitType("unit")
register_model(UnitType)(models.OpaqueModel)


@lower_constant(UnitType)
def _unit(context, builder, kind, value):
    return context.get_dummy_value()


def in_both(x):
    """What it is for is said below, otherwise for kernels than for the host."""


@overload(in_both)
def _in_kernels(x):
    return lambda x: x + 1000


@numba.extending.overload(in_both)
def _on_the_host(x):
    return lambda x: x + 1


@overload_method(types.Array, "haulage_last")
def _last(array):
    return lambda array: array[array.size - 1]


@intrinsic
def place(context):
    return types.int64(), lambda context, builder, sig, args: get_global_id(builder, 1)


@intrinsic
def place_of_three(context):
    def generate(context, builder, sig, args):
        values = get_global_id(builder, 3)
        return builder.add(values[0], builder.add(values[1], values[2]))

    return types.int64(), generate


def register(name):
    """An intrinsic that gives one register."""

    @intrinsic
    def read(context):
        return types.int32(), lambda context, builder, sig, args: call_sreg(builder, name)

    return read


def test_a_type_of_the_program_s_own_with_an_attribute():
    @cuda.jit
    def kernel(out):
        out[0] = Celsius(out[0]).kelvin

    out = np.array([26.85])
    kernel[1, 1](out)
    assert out[0] == 300.0


def test_a_function_of_the_host_that_kernels_are_taught():
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        out[i] = halved(out[i])

    out = np.arange(8.0)
    kernel[2, 4](out)
    assert out.tolist() == [halved(x) for x in range(8)]


def test_an_overload_for_cuda_holds_in_kernels_and_numba_s_own_on_the_host():
    @cuda.jit
    def kernel(out):
        out[0] = in_both(out[0])

    out = np.array([5])
    kernel[1, 1](out)
    assert out[0] == 1005
    assert numba.njit(lambda x: in_both(x))(5) == 6


def test_a_method_for_kernels():
    @cuda.jit
    def kernel(out):
        out[0] = out.haulage_last()

    out = np.arange(4.0)
    kernel[1, 1](out)
    assert out[0] == 3


def test_lowerings_read_where_a_thread_stands(way):
    @cuda.jit
    def kernel(one, three):
        i = cuda.grid(1)
        one[i] = place()
        three[i] = place_of_three()

    one, three = np.zeros((2, 12), np.int64)
    kernel[3, 4](one, three)
    assert one.tolist() == three.tolist() == list(range(12))


@pytest.mark.parametrize("name", SREG_MAPPING)
def test_lowerings_read_each_register(name):
    read = register(name)

    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        out[i] = read()

    out = np.zeros(12, np.int32)
    kernel[3, 4](out)
    thread, block = np.arange(12) % 4, np.arange(12) // 4
    expected = {"tid.x": thread, "ctaid.x": block, "ntid.x": 4, "nctaid.x": 3}
    expected |= {"laneid": thread, "warpsize": 32}
    other = 1 if name.startswith("n") else 0
    assert (out == expected.get(name, other)).all()


def test_the_registers_of_an_axis():
    @intrinsic
    def read(context):
        def generate(context, builder, sig, args):
            of = SRegBuilder(builder)
            parts = [of.tid("x"), of.ntid("x"), of.ctaid("x"), of.nctaid("x")]
            total = builder.trunc(of.getdim("x"), ir.IntType(32))
            for part in parts:
                total = builder.add(builder.mul(total, ir.Constant(ir.IntType(32), 10)), part)
            return total

        return types.int32(), generate

    @cuda.jit
    def kernel(out):
        out[cuda.grid(1)] = read()

    out = np.zeros(4, np.int32)
    kernel[2, 2](out)
    assert out.tolist() == [202, 11202, 20212, 31212]


def late(x):
    return -x


def test_what_is_registered_after_a_first_kernel_holds_for_the_next():
    @register_global(late)
    class _Late(ConcreteTemplate):
        cases = (signature(types.float64, types.float64),)

    lower(late, types.float64)(lambda context, builder, sig, args: builder.fneg(args[0]))

    @cuda.jit
    def kernel(out):
        out[0] = late(out[0])

    out = np.array([2.0])
    kernel[1, 1](out)
    assert out[0] == -2


def test_a_kernel_for_types_that_no_value_of_a_launch_has():
    @cuda.jit(types.void(CelsiusType()[::1], UNIT, types.float64[:]))
    def kernel(temperatures, unit, out):
        out[0] = temperatures[0].kelvin

    [overload] = kernel.overloads.values()
    assert overload.argument_types[0] == CELSIUS[::1]
    assert overload.type_annotation.typemap["temperatures"] == CELSIUS[::1]
    with pytest.raises(TypeError, match="No matching definition"):
        kernel[1, 1](np.zeros(1), 1, np.zeros(1))


def test_types_of_numba_s_that_no_value_of_a_launch_has_are_refused():
    with pytest.raises(TypeError, match="cannot take an argument of type unicode_type"):
        cuda.jit(types.void(types.unicode_type))(lambda text: None)
