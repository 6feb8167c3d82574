"""Python that no kernel can have is refused with the kernel, the file, the line and a reason."""

import linecache
import math
import re

import numpy as np
import pytest
from numba.core import errors

from haulage import cuda, roc
from haulage.errors import CompileError

pytestmark = pytest.mark.usefixtures("device")

synchronize = cuda.synchronize
LIST, DICTIONARY = [1, 2], {1: 2}
COUNTER = 0


def catches(x):
    try:
        x[0] = 1 / x[1]  # here
    except ZeroDivisionError:
        x[0] = 2


def cleans_up(x):
    try:
        x[0] = 1  # here
    finally:
        x[0] = 2


def enters(x):
    with x:  # here
        x[0] = 1


def yields(x):
    yield 1  # here


async def awaits(x):  # here
    x[0] = 1


def generator_expression(x):
    for i in (j for j in range(3)):  # here
        x[0] += i


def comprehension(x):
    three = [i for i in range(3)]  # here # noqa: C416
    x[0] = three[1]


def makes_a_list(x):
    two = [1, x[0]]  # here
    x[0] = two[0]


def makes_a_dictionary(x):
    one = {1: x[0]}  # here
    x[0] = one[1]


def makes_a_set(x):
    one = {x[0]}  # here
    x[0] = len(one)


def calls_list(x):
    x[0] = len(list(x))  # here


def zeros(x):
    room = np.zeros(3)  # here
    x[0] = room[0]


def new_array_of_an_expression(x):
    double = x * 2  # here
    x[0] = double[0]


def copies(x):
    x[0] = x.copy()[1]  # here


def upper(x):
    x[0] = len("abc".upper())  # here


def counts_a_global(x):
    global COUNTER
    COUNTER = 1  # here


def imports(x):
    import math  # here

    x[0] = math.pi


def defines_a_class(x):
    class Inner:  # here
        pass


def unpacks_with_a_star(x):
    first, *rest = (1, 2, 3)  # here # noqa: F841
    x[0] = first


def captured_list(x):
    x[0] = LIST[0]  # here


def captured_dictionary(x):
    x[0] = DICTIONARY[1]  # here


def unknown_name(x):
    x[0] = no_such_name  # here # noqa: F821


def unknown_word(x):
    x[0] = cuda.no_such_word(1)  # here


def calls_the_host(x):
    x[0] = cuda.to_device(x)[0]  # here


def calls_the_host_by_its_name(x):
    synchronize()  # here


def negative_size(x):
    room = cuda.shared.array((3, -1), np.float32)  # here
    x[0] = room[0, 0]


def dynamic_shared_memory_of_two_dimensions(x):
    room = cuda.shared.array((3, 0), np.float32)  # here
    x[0] = room[0, 0]


def unknown_attribute(x):
    x[0] = x.no_such_attribute  # here


def unknown_function(x):
    x[0] = math.no_such_function(1)  # here


def unknown_member(x):
    cuda.atomic.no_such_operation(x, 0, 1)  # here


def opens_a_file(x):
    open("file")  # here # noqa: SIM115


def a_string_for_a_number(x):
    x[0] = "abc"  # here


def too_many_indices(x):
    x[0, 0] = 1  # here


def missing_dtype(x):
    room = cuda.local.array(3)  # here
    x[0] = room[0]


def variable_of_two_types(x):
    value = (1, 2) if x[0] > 1 else 3  # here
    x[0] = value


def returns(x):
    if x[0] > 1:
        return None
    return x[0]  # here


def deletes(x):
    y = x[0]
    del y  # here


def multiplies_matrices(x):
    x[0] = x @ x  # here


def calls_dot(x):
    x[0] = np.dot(x, x)  # here


def prints_an_f_string(x):
    print(f"x is {x[0]}")  # here


def formats_with_a_percent_sign(x):
    raise ValueError("%d are too many" % x.size)  # here # noqa: UP031


def calls_str(x):
    x[0] = len(str(x[0]))  # here


def formats_by_a_method(x):
    print("x is {}".format(x[0]))  # here # noqa: UP032


def formats_with_digits(x):
    print(f"{x[0]:.3f}")  # here


def raises_from_another(x):
    if x[0] == 0:
        raise ValueError("zero") from KeyError("x")  # here


def enters_as(x):
    with x as y:  # here
        y[0] = 1


REFUSED = {
    prints_an_f_string: "cannot make a text of a value.* print takes values",
    formats_with_a_percent_sign: "cannot make a text of a value",
    calls_str: "cannot make a text of a value",
    formats_by_a_method: "cannot make a text of a value",
    formats_with_digits: "cannot make a text of a value",
    raises_from_another: "leave out `from`",
    enters_as: "with means nothing in a kernel",
    catches: "try and except mean nothing in a kernel",
    cleans_up: "try and except mean nothing in a kernel",
    enters: "with means nothing in a kernel",
    deletes: "cannot delete a variable",
    multiplies_matrices: "cannot multiply matrices by @",
    calls_dot: "cannot multiply matrices by @ or np.dot",
    yields: "cannot be generators",
    awaits: "cannot be coroutines",
    generator_expression: "cannot have generators",
    comprehension: "cannot make a list",
    makes_a_list: "cannot make a list",
    makes_a_dictionary: "cannot make a dictionary",
    makes_a_set: "cannot make a set",
    calls_list: "cannot make a list",
    zeros: r"np\.zeros: a kernel cannot allocate arrays; use cuda\.local\.array",
    new_array_of_an_expression: r"cannot allocate memory; use cuda\.local\.array",
    copies: r"cannot allocate memory; use cuda\.local\.array",
    upper: "cannot allocate memory",
    counts_a_global: "cannot assign a global variable",
    imports: "cannot import",
    defines_a_class: "cannot define a class",
    unpacks_with_a_star: "cannot unpack with a star",
    captured_list: "'LIST': a kernel cannot use a list; capture a tuple or a NumPy array",
    captured_dictionary: "'DICTIONARY': a kernel cannot use a dict",
    unknown_name: "'no_such_name' is not defined",
    unknown_word: r"cuda has no 'no_such_word'",
    calls_the_host: "to_device is a function of the host",
    calls_the_host_by_its_name: "synchronize is a function of the host",
    negative_size: r"shared.array: shape: expected positive sizes, or 0 alone; got \(3, -1\)",
    dynamic_shared_memory_of_two_dimensions: r"positive sizes, or 0 alone; got \(3, 0\)",
    unknown_attribute: "x has no attribute 'no_such_attribute': it is an array of float64",
    unknown_function: "math has no 'no_such_function'",
    unknown_member: r"cuda\.atomic has no attribute 'no_such_operation'",
    opens_a_file: "'open'",
    a_string_for_a_number: "cannot hold 'abc', which is text",
    too_many_indices: "cannot index array.* with 2 indices",
    missing_dtype: "'dtype'",
    variable_of_two_types: "Cannot unify",
    returns: "returns a value",
}


def line_of(function):
    """The line of `function` that is marked."""
    first = function.__code__.co_firstlineno
    return next(n for n in range(first, first + 20) if "# here" in linecache.getline(__file__, n))


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_what_no_kernel_can_have(function):
    with pytest.raises(CompileError, match=REFUSED[function]) as told:
        cuda.jit(function)[1, 1](np.zeros(4))
    message = str(told.value)
    assert f"kernel {function.__qualname__} " in message
    assert re.search(rf"{re.escape(__file__)}:{line_of(function)}\b", message), message
    assert "pipeline" not in message


def test_errors_in_the_bytecode_are_of_numbas_class_too():
    with pytest.raises(errors.UnsupportedBytecodeError) as told:
        cuda.jit(enters_as)[1, 1](np.zeros(4))
    assert isinstance(told.value, CompileError)


def test_roc_refuses_alike():
    with pytest.raises(CompileError, match=r"np\.zeros: a kernel cannot allocate"):
        roc.jit(zeros)[1, 1](np.zeros(4))


@cuda.jit(device=True)
def inner(x):
    return x.no_such_attribute  # here


@cuda.jit(device=True)
def outer(x):
    return inner(x) + 1


def test_an_error_in_a_device_function_names_each_place_from_there_to_the_kernel():
    @cuda.jit
    def kernel(x):
        x[0] = outer(x)

    with pytest.raises(CompileError) as told:
        kernel[1, 1](np.zeros(4))
    lines = [
        line_of(inner.py_func),
        outer.py_func.__code__.co_firstlineno + 2,
        kernel.py_func.__code__.co_firstlineno + 2,
    ]
    found = re.findall(rf"(in|called from) {re.escape(__file__)}:(\d+)", str(told.value))
    assert found == [("in", str(lines[0])), *(("called from", str(line)) for line in lines[1:])]
    assert "return x.no_such_attribute" in str(told.value)


def test_a_branch_that_is_never_taken_may_have_what_kernels_cannot():
    debug = False

    @cuda.jit
    def kernel(x):
        if debug:
            x[0] = np.zeros(3)[0]
        x[1] = 5

    x = np.zeros(4)
    kernel[1, 1](x)
    assert x[1] == 5


def test_linear_algebra_of_numba_is_no_part_of_kernels():
    import numba.np.linalg  # noqa: F401

    @cuda.jit
    def kernel(x):
        x[0] = np.dot(x, x)

    with pytest.raises(CompileError, match=r"kernel .*np\.dot"):
        kernel[1, 1](np.zeros(4))


def lacks_an_argument(x):
    cuda.atomic.add(x, 0)  # here


def has_an_argument_too_many(x):
    cuda.shared.array(3, np.float32, 16, 4)  # here


def has_an_unknown_argument(x):
    cuda.local.array(3, np.float32, aligned=16)  # here


def adds_text(x):
    cuda.atomic.add(x, 0, "one")  # here


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (
            lacks_an_argument,
            "atomic.add(array, index, value): missing a required argument: 'value'",
        ),
        (
            has_an_argument_too_many,
            "shared.array(shape, dtype, alignment=None): too many positional arguments",
        ),
        (
            has_an_unknown_argument,
            "local.array(shape, dtype, alignment=None, bound=None): got an unexpected keyword "
            "argument 'aligned'",
        ),
        (adds_text, "atomic.add: value: expected a real number; got one"),
    ],
)
def test_what_a_word_does_not_take_is_told_right_behind_the_line(function, reason):
    with pytest.raises(CompileError) as caught:
        cuda.jit(function)[1, 1](np.zeros(3))
    title, place, line, *marks, told = str(caught.value).splitlines()
    assert function.__name__ in title
    assert "test_refusals.py" in place
    assert "# here" in line
    assert all(set(mark.strip()) == {"^"} for mark in marks)
    assert len(marks) <= 1
    assert told == reason
