"""Mistakes of beginners: each is told in one sentence with what was given and what to write."""

import linecache
import math
import random
import textwrap
import time
import traceback
from random import randint

import numpy as np
import pytest

import haulage
from haulage import cuda, roc
from haulage.errors import HaulageError

pytestmark = pytest.mark.usefixtures("device")

X = np.zeros(8)
PLANE = np.zeros((3, 4))
POINTS = np.zeros(4, [("x", "f4"), ("mass", "f4")])
READ_ONLY = np.broadcast_to(np.float64(1), 8)
GLOBAL = np.zeros(4)
LIST, DICTIONARY = [1, 2], {1: 2}


class Thing:
    pass


THING = Thing()

# What stands in a message of Numba's, and in none of ours.
NUMBAS = (
    *("No implementation of function", "candidate", "During:", "setitem", "getitem", "Literal["),
    *(
        "NotImplementedError",
        "lowering",
        "site-packages",
        "Function(<",
        "registers(",
        "UniTuple",
        "source elided",
        "CUDADispatcher",
    ),
)

# Name: the lines of a kernel (x, more), the second argument, what the message says. The line with
# the mistake, and the expression that is underlined, if one is, stand between « and ».
MISTAKES = {
    # ---- elements ----
    "quotient as an index": ("x[«more / 2»] = 1", 4, "index more / 2 is a float64", "more // 2"),
    "quotient that is read": ("x[0] = x[«(more + 1) / 2»]", 4, "is a float64", "(more + 1) // 2"),
    "quotient as a name": (
        "half = more / 2\nx[«half»] = 1",
        4,
        "the index half is a float64",
        "more // 2",
    ),
    "float as an index": ("x[«more»] = 1", 2.5, "the index more is a float64", "int(more)"),
    "element as an index": ("x[«x[0]»] = 1", None, "index x[0] is a float64", "int(x[0])"),
    "one float among indices": ("more[0, «x[0]»] = 1", PLANE, "index x[0] is a float64"),
    "two indices for one axis": ("«x[0, 1]» = 1", None, "x, which has 1 axis, with 2 indices"),
    "two indices that are read": ("x[0] = «x[0, 1]»", None, "x, which has 1 axis", "2 axes"),
    "three indices for two axes": ("«more[0, 1, 2]» = 1", PLANE, "2 axes, with 3 indices"),
    "tuple of grid as an index": (
        "i = cuda.grid(2)\n«x[i]» = 1",
        None,
        "i is a tuple of 2 int64",
        "x, y = cuda.grid(2)",
    ),
    "tuple of grid compared": (
        "i = cuda.grid(2)\nif «i < x.size»:\n    x[0] = 1",
        None,
        "i is no number",
        "x, y = cuda.grid(2)",
    ),
    "tuple of grid added to": (
        "i = cuda.grid(3)\nx[0] = «i + 1»",
        None,
        "x, y, z = cuda.grid(3)",
    ),
    "gridsize as a number": (
        "s = cuda.gridsize(2)\nfor i in range(0, 8, «s»):\n    x[i] = 1",
        None,
        "s is no number",
        "cuda.gridsize(2)",
    ),
    "read-only argument": ("«more[0]» = 1", READ_ONLY, "more is a readonly array", "writeable"),
    "read-only global": ("«GLOBAL[0]» = 1", None, "GLOBAL is a readonly array", "as an argument"),
    "number that is indexed": (
        "x[0] = «more[0]»",
        3.0,
        "the argument 'more' is a float64 in this call",
        "give it an array",
    ),
    "number that is set": ("«more[0]» = 1", 3, "argument 'more' is an int64", "give it an array"),
    "None that is indexed": ("x[0] = «more»[0]", None, "'more' is None"),
    "element of an element": ("x[0] = «x[1][2]»", None, "x[1] is a float64, a single number"),
    "complex number": ("x[0] = «more»", 1j, "type float64 and cannot hold more", ".real"),
    "text as a value": ("x[0] = «'abc'»", None, "cannot hold 'abc', which is text"),
    "tuple as a value": ("x[0] = «(1, 2)»", None, "cannot hold (1, 2)", "a tuple of 2 int64"),
    "array as a value": ("x[0] = «more»", PLANE, "cannot hold more", "with 2 axes"),
    "nothing as a value": ("x[0] = «nothing(x)»", None, "nothing(x) is None", "returns nothing"),
    "text as an index": ("x[«'a'»] = 1", None, "the index 'a' is text", "have no fields"),
    "tuple that is set": ("«more[0]» = 1", (1, 2), "items of a tuple cannot be changed"),
    "tuple of several types": ("x[0] = «more[int(x[0])]»", (1, 2.5), "has to be a constant"),
    # ---- records ----
    "no such field": ("«more[0].mas» = 1", POINTS, "no field 'mas'", "x, mass", "'mass'?"),
    "no such field, read": ("x[0] = «more[0].weight»", POINTS, "no field 'weight'", "x, mass"),
    "no such key": ("«more[0]['mas']» = 1", POINTS, "no field 'mas'", "Did you mean 'mass'?"),
    # ---- attributes ----
    "shape that is set": ("«x.shape» = (2, 4)", None, "cannot set x.shape"),
    "append": ("«x.append»(1)", None, "no attribute 'append'", "keep their size"),
    "attribute in other words": ("x[0] = «x.shap»[0]", None, "Did you mean 'shape'?"),
    "method of the host": ("«x.tolist»()", None, "no attribute 'tolist'", "write it as a loop"),
    "attribute of a number": ("x[0] = «more.size»", 3, "argument is an int64", "'size'"),
    "no such word": ("x[0] = «cuda.grud»(1)", None, "cuda has no 'grud'", "'grid'?"),
    "no such member": ("«cuda.atomic.ad»(x, 0, 1)", None, "no attribute 'ad'", "'add'?"),
    "no such register": ("x[«cuda.thredIdx».x] = 1", None, "Did you mean 'threadIdx'?"),
    "no such axis": ("x[«cuda.threadIdx.w»] = 1", None, "cuda.threadIdx has no attribute 'w'"),
    "no such function of math": ("x[0] = «math.sqr»(2)", None, "Did you mean 'sqrt'?"),
    "no such function of NumPy": ("x[0] = «np.sqr»(2)", None, "numpy has no 'sqr'", "'sqrt'?"),
    # ---- the host ----
    "random numbers": ("x[0] = np.random.rand()", None, "np.random", "cuda.random"),
    "random numbers of Python": ("x[0] = random.random()", None, "random", "cuda.random"),
    "random numbers by name": ("x[0] = randint(1, 6)", None, "random", "cuda.random"),
    "sum of NumPy": ("x[0] = np.sum(x)", None, "sum"),
    "clock": ("x[0] = «time.time»()", None, "time.time is a function of the host", "around"),
    "synchronize": ("«cuda.synchronize»()", None, "host", "cuda.syncthreads()"),
    "file": ("open('file')", None, "'open' is a function of the host"),
    "input": ("x[0] = input()", None, "'input' is a function of the host"),
    "text with a number": ("print(«'x is ' + x[0]»)", None, "text and numbers", "one after"),
    "print with keywords": ("print(x[0], sep='')", None, "no keywords such as sep"),
    "print of a format": ("print('%d' % x[0])", None, "cannot make a text of a value"),
    "object": ("x[0] = THING.value", None, "'THING' is an object of class Thing"),
    "list": ("x[0] = LIST[0]", None, "'LIST'", "cannot use a list", "a tuple"),
    "list that grows": ("LIST.append(1)", None, "'LIST'", "cannot use a list"),
    "dictionary": ("x[0] = DICTIONARY[1]", None, "'DICTIONARY'", "cannot use a dict"),
    "global that is set": ("global LIST\nLIST = 1", None, "cannot assign a global variable"),
    "global that is added to": (
        "THING += 1\nx[0] = THING",
        None,
        "THING has no value here",
        "cannot change a global",
    ),
    # ---- calls ----
    "barrier without parentheses": ("cuda.syncthreads\nx[0] = 1", None, "write syncthreads()"),
    "grid without parentheses": ("i = cuda.grid\nx[«i»] = 1", None, "as in cuda.grid(1)"),
    "grid compared": ("if «cuda.grid» < 8:\n    x[0] = 1", None, "call it", "cuda.grid(1)"),
    "registers as a number": ("x[«cuda.threadIdx»] = 1", None, "write cuda.threadIdx.x"),
    "registers in a sum": (
        "i = cuda.threadIdx.x + «cuda.blockIdx» * cuda.blockDim.x\nx[i] = 1",
        None,
        "cuda.blockIdx has three axes",
        "write cuda.blockIdx.x",
    ),
    "registers that are called": ("x[«cuda.blockIdx()»] = 1", None, "no function", "blockIdx.x"),
    "axis that is called": ("x[cuda.blockIdx.x()] = 1", None, "blockIdx.x is a number", "()"),
    "array that is called": ("x[0] = «x(1)»", None, "and no function: an element is x[1]"),
    "number that is called": ("x[0] = «more(1)»", 3, "more is an int64, and no function"),
    "length of a number": ("x[0] = «len(more)»", 3, "more is an int64", "has no len()"),
    "kernel launched by a kernel": ("«other[1, 1]»(x)", None, "cannot launch another one"),
    "too few arguments": ("x[0] = pair(x[0])", None, "'b'"),
    "too many arguments": ("x[0] = pair(x[0], 1, 2)", None, "takes 2 positional arguments"),
    "result of nothing": ("x[0] = «nothing(x) + 1»", None, "nothing(x) is None"),
    "shape of no constants": (
        "s = «cuda.local.array(x.shape[0], 'f4')»\nx[0] = s[0]",
        None,
        "bound",
    ),
    "dtype that is none": ("s = «cuda.shared.array(3, 'float33')»\nx[0] = s[0]", None, "float33"),
    "axes of grid": ("i = «cuda.grid(4)»\nx[i] = 1", None, "constant 1, 2 or 3"),
    # ---- arithmetic ----
    "condition of an array": ("if «x» > 0:\n    x[0] = 1", None, "x is an array", "x[i]"),
    "sum of arrays": ("y = «x» + 1\nx[0] = y[0]", None, "whole arrays", "x[i]"),
    "text and a number": ("x[0] = «x[0] + 'a'»", None, "text and numbers together by +"),
    "shape as a number": ("for i in range(«x.shape»):\n    x[i] = 1", None, "x.shape[0]", "x.size"),
    "shape compared": ("if «x[0] < x.shape»:\n    x[0] = 1", None, "x.shape[0]", "x.size"),
    "two results": ("x[0] = either(x[0])", None, "values of one type", "uple"),
    "generator": ("x[0] = sum(y for y in x)", None, "cannot have generators", "a loop"),
    "tuple for an atomic": (
        "i = cuda.grid(2)\n«cuda.atomic.add(x, i, 1)»",
        None,
        "2 indices for an array of 1 dimensions",
        "x, y = cuda.grid(2)",
    ),
    "function of numbers": ("x[0] = «math.sqrt(x)»", None, "no math.sqrt of an array", "x[i]"),
    "inside of a lambda": ("f = lambda y: «y.foo»\nx[0] = f(x)", None, "y has no attribute 'foo'"),
    "two types of an expression": (
        "x[0] = 1 if x[0] > 1 else (1, 2)",
        None,
        "Cannot unify",
        "the value of the expression has",
    ),
    "two types": ("v = 1\nif x[0] > 1:\n    v = (1, 2)\nx[0] = v", None, "Cannot unify", "v has"),
    "loop over a number": (
        "for i in «x.size»:\n    x[i] = 1",
        None,
        "x.size is an int64",
        "write range(x.size)",
    ),
    "loop over range itself": ("for i in «range»:\n    x[i] = 1", None, "call it"),
    "unpacked number": ("a, b = «more»\nx[0] = a", 3, "more is an int64", "into 2 names"),
    "unknown name": ("x[0] = mor", None, "name 'mor' is not defined", "Did you mean 'more'?"),
}


def kernel_of(lines):
    """A kernel with these lines, whose source can be found as that of a file can."""
    made = dict(globals())

    def nothing(x):
        x[0] = 1

    def pair(a, b):
        return a + b

    def either(a):
        if a > 1:
            return int(a)
        return 1, 2

    made |= {"either": either, "nothing": nothing, "pair": pair, "other": cuda.jit(nothing)}
    source = "def kernel(x, more):\n" + textwrap.indent(lines, "    ") + "\n"
    name = f"<mistake {len(linecache.cache)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), made)
    return cuda.jit(made["kernel"])


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_kernel(name):
    lines, more, *phrases = MISTAKES[name]
    kernel = kernel_of(lines.replace("«", "").replace("»", ""))
    with pytest.raises(HaulageError) as caught:
        kernel[1, 1](X.copy(), more)
    message = str(caught.value)
    assert "kernel kernel" in message
    for phrase in phrases:
        assert phrase in message
    for phrase in NUMBAS:
        assert phrase not in message.partition("\n")[2]
    printed = "".join(traceback.format_exception(caught.value))
    assert len(printed.splitlines()) <= 24
    _, _, quoted, *rest = message.splitlines()
    if "«" in lines:
        marked = next(line.strip() for line in lines.splitlines() if "«" in line)
        assert quoted.strip() == marked.replace("«", "").replace("»", "")
        start, end = marked.index("«"), marked.index("»") - 1
        assert rest.pop(0) == "    " + " " * start + "^" * (end - start)
    # Behind the lines of calls that led there.
    assert len([line for line in rest if not line.startswith("  ")]) == 1


# ---- launches -----------------------------------------------------------------------------------


@cuda.jit
def mark(x):
    x[0] = 1


@cuda.jit
def scale(x, factor):
    x[0] *= factor


class Frame:
    """As pandas' DataFrame."""

    def to_numpy(self):
        raise AssertionError("nobody asked for it")

    def __repr__(self):
        return "\n".join(["   a  b"] * 40)


LAUNCHES = {
    "no configuration": (lambda: mark(X), "mark[blocks, threads]"),
    "only blocks": (lambda: mark[1](X), "expected [grid, block]"),
    "quotient of blocks": (lambda: mark[8 / 4, 4](X), "got [2.0] with a float", "n // 256"),
    "swapped": (lambda: mark[32, 5000](X), "5000 threads", "kernel[blocks, threads of a block]"),
    "text as a size": (lambda: mark["1", 1](X), "sequence of integers", "with a str"),
    "nothing to do": (lambda: mark[0, 32](X), "every size must be at least 1"),
    "list": (lambda: mark[1, 1]([1, 2]), "'x'", "[1, 2] of type list", "np.array(...)"),
    "range": (lambda: mark[1, 1](range(3)), "'x'", "range(0, 3)", "np.array(...)"),
    "dictionary": (lambda: mark[1, 1]({"a": 1}), "'x'", "type dict", "one argument each"),
    "table": (lambda: mark[1, 1](Frame()), "'x'", "type Frame", ".to_numpy()"),
    "text": (lambda: scale[1, 1](X, "2"), "'factor'", "'2' of type str"),
    "objects": (lambda: mark[1, 1](np.array([None, 1])), "'x'", "dtype object", "astype(float)"),
    "text array": (lambda: mark[1, 1](np.array(["a"])), "a kernel cannot set x[0]"),
    "great int": (lambda: scale[1, 1](X, 2**70), "'factor'", "does not fit", "as a float"),
    "too few": (lambda: scale[1, 1](X), "takes 2 arguments, got 1: missing 'factor'"),
    "too many": (lambda: mark[1, 1](X, 1), "takes 1 arguments, got 2"),
    "None": (lambda: mark[1, 1](None), "the argument 'x' is None"),
    "a host function as an argument": (lambda: scale[1, 1](X, math.sqrt), "'factor'"),
    "a dtype for an array": (lambda: mark[1, 1](np.float32), "x is a dtype"),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_mistake_in_a_launch(name):
    launch, *phrases = LAUNCHES[name]
    with pytest.raises(HaulageError) as caught:
        launch()
    message = str(caught.value)
    for phrase in phrases:
        assert phrase in message
    for phrase in NUMBAS:
        assert phrase not in message.partition("\n")[2]
    assert len("".join(traceback.format_exception(caught.value)).splitlines()) <= 24


# ---- arrays of the device -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["astype", "tolist", "sum", "mean", "item", "flatten"])
def test_what_numpys_arrays_have(name):
    d = cuda.to_device(X)
    with pytest.raises(
        AttributeError, match=rf"device arrays have no '{name}': use .*copy_to_host"
    ):
        getattr(d, name)
    assert not hasattr(d, name)
    assert name not in dir(d)


@pytest.mark.parametrize(
    "operation",
    [
        lambda d: d + 1,
        lambda d: 1 - d,
        lambda d: d * d,
        lambda d: d / 2.0,
        lambda d: d**2,
        lambda d: d @ d,
        lambda d: d > 1,
        lambda d: d >= 1,
        lambda d: -d,
        lambda d: abs(d),
    ],
)
def test_arithmetic_on_arrays_of_the_device(operation):
    with pytest.raises(
        TypeError, match=r"operand type.* by a kernel or a ufunc .*copy_to_host\(\)"
    ):
        operation(cuda.to_device(X))


def test_arithmetic_with_arrays_of_numpy_stays_theirs():
    d = cuda.to_device(np.arange(4.0))
    for sum_ in (d + np.ones(4), np.ones(4) + d, np.float64(1) + d, np.add(d, 1)):
        assert list(sum_) == [1, 2, 3, 4]
    assert list(d < np.full(4, 2)) == [True, True, False, False]

    class Other:
        def __radd__(self, array):
            return "added"

        def __lt__(self, array):
            return "less"

    assert d + Other() == "added"
    assert (d > Other()) == "less"
    with pytest.raises(TypeError, match="copy_to_host"):
        d + None


def test_fields_of_records_that_are_called_as_methods_of_arrays():
    records = cuda.to_device(np.array([(1, 2.5)], [("sum", "i4"), ("mean", "f8")]))
    record = records[0]
    assert (record.sum, record.mean) == (1, 2.5)
    record.sum = 4
    assert records.copy_to_host()[0]["sum"] == 4


# ---- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "name", "meant"),
    [
        (cuda, "to_devise", "to_device"),
        (cuda, "sync_threads", "syncthreads"),
        (cuda, "Jit", "jit"),
        (cuda, "device_arry", "device_array"),
        (roc, "to_devise", "to_device"),
        (roc, "get_globl_id", "get_global_id"),
        (haulage, "memry", "memory"),
        (haulage, "smartarray", "SmartArray"),
        (haulage.memory, "leak", "leaks"),
        (cuda.atomic, "ad", "add"),
        (cuda.shared, "arary", "array"),
        (cuda.local, "Array", "array"),
    ],
)
def test_a_name_that_is_nearly_one(owner, name, meant):
    with pytest.raises(AttributeError, match=rf"Did you mean '{meant}'\?") as caught:
        getattr(owner, name)
    assert caught.value.name == name


@pytest.mark.parametrize("owner", [cuda, roc, haulage, haulage.memory, cuda.atomic])
def test_a_name_that_is_near_to_none(owner):
    with pytest.raises(AttributeError, match="qqqqqq") as caught:
        owner.qqqqqq  # noqa: B018
    assert "Did you mean" not in str(caught.value)


def test_an_option_that_is_nearly_one():
    with pytest.raises(TypeError, match=r"unknown options: devcie. Did you mean 'device'\?"):
        cuda.jit(devcie=True)
    with pytest.raises(TypeError, match=r"unknown options: max_register. .*'max_registers'\?"):
        roc.jit(max_register=32)


# Names of the kernels above.
assert all((math, random, randint, time))
