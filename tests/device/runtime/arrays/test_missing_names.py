"""What NumPy's arrays have and device arrays have not: errors that say what to use."""

import operator

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.errors import DeviceNotFound

pytestmark = pytest.mark.usefixtures("device")

HINT = r"a kernel or a ufunc \(cuda\.vectorize\).*copy_to_host\(\).*haulage\.SmartArray"
SYMBOLS = {
    **{operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/"},
    **{operator.floordiv: "//", operator.mod: "%", operator.pow: "**", operator.matmul: "@"},
    **{operator.and_: "&", operator.or_: "|", operator.xor: "^", operator.lshift: "<<"},
    **{operator.rshift: ">>", divmod: "divmod()"},
}
IN_PLACE = {
    **{operator.iadd: "+=", operator.isub: "-=", operator.imul: "*=", operator.itruediv: "/="},
    **{operator.ifloordiv: "//=", operator.imod: "%=", operator.ipow: "**="},
    **{operator.imatmul: "@=", operator.iand: "&=", operator.ior: "|=", operator.ixor: "^="},
    **{operator.ilshift: "<<=", operator.irshift: ">>="},
}
COMPARISONS = {operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">="}
UNARY = {operator.neg: "-", operator.pos: "+", operator.invert: "~", abs: "abs()"}


@pytest.fixture
def array():
    return cuda.to_device(np.arange(4.0))


def exactly(symbol):
    return "".join(f"\\{each}" if not each.isalpha() else each for each in symbol)


@pytest.mark.parametrize("apply", [*SYMBOLS, *IN_PLACE, *COMPARISONS])
def test_arithmetic_says_what_does_it(array, apply):
    symbol = (SYMBOLS | IN_PLACE | COMPARISONS)[apply]
    for other in (1, 1.5, 1j, True, array):
        with pytest.raises(TypeError, match=rf"operand type\(s\) for {exactly(symbol)}:.*{HINT}"):
            apply(array, other)
    assert array.copy_to_host().tolist() == [0, 1, 2, 3]


def test_it_says_so_whatever_the_class_of_the_other_can_do(array):
    """`list | None` makes a type; lists themselves have no `|`."""
    for apply in (operator.or_, operator.add, operator.matmul):
        with pytest.raises(TypeError, match=rf"'DeviceNDArray' and 'list'; .*{HINT}"):
            apply(array, [1])


@pytest.mark.parametrize("apply", SYMBOLS)
def test_it_says_so_from_the_right_too(array, apply):
    with pytest.raises(TypeError, match=rf"'int' and 'DeviceNDArray'; .*{HINT}"):
        apply(1, array)


@pytest.mark.parametrize("apply", [*UNARY, round])
def test_operations_of_one_array_say_it(array, apply):
    symbol = UNARY.get(apply, "round()")
    with pytest.raises(TypeError, match=rf"operand type for {exactly(symbol)}:.*{HINT}"):
        apply(array)


@pytest.mark.parametrize("convert", [int, float, complex])
def test_an_array_of_one_element_is_no_number(convert):
    one = cuda.to_device(np.ones(1))
    with pytest.raises(TypeError, match=rf"^{convert.__name__}\(\) of a DeviceNDArray:.*d\[0\]"):
        convert(one)
    assert convert(one[0]) == 1


@pytest.mark.parametrize("name", ["sum", "mean", "min", "astype", "tolist", "item", "argmax", "T2"])
def test_what_numpys_arrays_have_is_named_with_what_does_it(array, name):
    assert not hasattr(array, name)
    assert name not in dir(array)
    hint = rf"{name}.*on the device, copy_to_host\(\)\.{name} on the host, or a haulage\.SmartArray"
    with pytest.raises(AttributeError, match=hint if name != "T2" else "no attribute 'T2'") as told:
        getattr(array, name)
    assert told.value.name == name


def test_what_is_recommended_is_there(array):
    names = {name for name in dir(np.ndarray) if name[0] != "_" and not hasattr(array, name)}
    assert len(names) > 30
    for name in names:
        with pytest.raises(AttributeError) as told:
            getattr(array, name)
        assert hasattr(haulage.SmartArray, name) == ("SmartArray" in str(told.value)), name


def test_reductions_that_the_device_has_are_named(array):
    with pytest.raises(AttributeError, match=r"use cuda\.reduce on the device"):
        array.sum()


def test_there_is_no_array_namespace(array):
    assert not hasattr(array, "__array_namespace__")
    with pytest.raises(AttributeError, match=r"haulage\.SmartArray"):
        array.__array_namespace__()


def test_what_has_the_operation_itself_does_it(array):
    """As in numba.cuda: NumPy copies the elements to the host."""
    host = np.ones(4)
    assert (array + host).tolist() == (host + array).tolist() == [1, 2, 3, 4]
    assert (array < 2 * host).tolist() == [True, True, False, False]
    assert type(array + haulage.SmartArray(host)) is np.ndarray
    assert np.add(array, 1).tolist() == [1, 2, 3, 4]
    assert np.sum(array) == 6


def test_equality_and_hash_are_those_of_the_object(array):
    same = array
    assert array == same
    assert (array != same) is False
    assert (array == 1) is False
    assert {array: 1}[array] == 1
    assert bool(array)
    assert not bool(cuda.device_array(0))


def test_to_device_gives_what_is_there_as_it_is(array, device):
    assert array.to_device(device) is array
    assert array.to_device(f"{device.kind}:{device.id}", stream=None) is array
    with pytest.raises(DeviceNotFound, match="to_device 'host'"):
        array.to_device("host")
    array.close()
    with pytest.raises(ValueError, match=r"close\(\)"):
        array.to_device(device)
