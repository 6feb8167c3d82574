"""Calls of public names with arguments that make no sense, and what counts as a good answer."""

import contextlib
import ctypes
import dis
import functools
import inspect
import itertools
import linecache
import os
import signal
import warnings
from pathlib import Path

import numpy as np

import haulage
from haulage import cuda, memory, roc
from haulage.cuda import random as cuda_random
from haulage.errors import HaulageError

_PACKAGE = str(Path(haulage.__file__).parent) + os.sep


class Hostile:
    """An object whose every question fails."""

    def __getattr__(self, name):
        raise AttributeError(f"hostile has no {name}")

    def __repr__(self):
        return "Hostile()"


class Claims:
    """Says that it is an array, in a way that is none."""

    def __init__(self):
        common = {"typestr": "<f8", "version": 3}
        self.__cuda_array_interface__ = {**common, "shape": (-1,), "data": 7}
        self.__array_interface__ = {**common, "shape": "x", "data": None}

    def __dlpack__(self, **_):
        return 5

    def __dlpack_device__(self):
        return "cpu"

    def __repr__(self):
        return "Claims()"


@cuda.jit
def kernel(x, y):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += y


@roc.jit
def roc_kernel(x, y):
    i = roc.get_global_id(0)
    if i < x.size:
        x[i] += y


@cuda.vectorize(["float64(float64, float64)"])
def ufunc(x, y):
    return x + y


@cuda.guvectorize(["void(float64[:], float64[:])"], "(n)->()")
def gufunc(x, out):
    out[0] = x[0]


@cuda.reduce
def reduction(x, y):
    return x + y


@cuda.jit(device=True)
def device_function(x):
    return x


def function(x, y):
    """One that can be compiled."""
    x[0] = y


def closed_array():
    array = cuda.device_array(4)
    array.close()
    return array


def captured():
    stream = cuda.stream()
    with cuda.graph(stream) as graph:
        kernel[1, 4, stream](cuda.device_array(4), 1.0)
    return graph


# Made anew for each call: (name, function that makes it).
NASTY = {
    "None": lambda: None,
    "text": lambda: "x",
    "no text": lambda: "",
    "bytes": lambda: b"ab",
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "huge": lambda: 1 << 80,
    "-huge": lambda: -(1 << 80),
    "2**63": lambda: 1 << 63,
    "2**40": lambda: 1 << 40,
    "-1": lambda: -1,
    "0": lambda: 0,
    "7": lambda: 7,
    "1.5": lambda: 1.5,
    "1j": lambda: 1j,
    "True": lambda: True,
    "()": lambda: (),
    "[]": list,
    "{}": dict,
    "nested": lambda: ((1, (2, "x")), None),
    "(3, -1)": lambda: (3, -1),
    "(2, 2)": lambda: (2, 2),
    "('x',)": lambda: ("x",),
    "(1.5,)": lambda: (1.5,),
    "(None, None)": lambda: (None, None),
    "set": lambda: {1, 2},
    "iterator": lambda: iter([1, 2]),
    "range": lambda: range(3),
    "slice": lambda: slice(None, "x"),
    "Ellipsis": lambda: ...,
    "np.float32": lambda: np.float32(2),
    "np.int8": lambda: np.int8(-3),
    "0-d": lambda: np.array(3),
    "0-d objects": lambda: np.array(None),
    "objects": lambda: np.array([None, "x"]),
    "texts": lambda: np.array(["a", "b"]),
    "dates": lambda: np.array(["2020-01-01"], "M8[D]"),
    "records": lambda: np.zeros(3, [("a", "i4"), ("b", "f8", (2,))]),
    "empty array": lambda: np.zeros((0, 3)),
    "matrix": lambda: np.ones((3, 4), np.int16),
    "read-only": lambda: np.broadcast_to(np.ones(1), (4,)),
    "masked": lambda: np.ma.array([1.0, 2], mask=[0, 1]),
    "host array": lambda: np.ones(4),
    "swapped": lambda: np.ones(4, ">f8"),
    "device array": lambda: cuda.to_device(np.ones(4)),
    "device matrix": lambda: cuda.to_device(np.ones((2, 3), np.int32)),
    "device record": lambda: cuda.to_device(np.zeros(3, [("a", "i4")]))[0],
    "closed array": closed_array,
    "SmartArray": lambda: haulage.SmartArray(np.ones(4)),
    "stream": cuda.stream,
    "event": cuda.event,
    "graph": captured,
    "device": cuda.get_current_device,
    "context": cuda.current_context,
    "kernel": lambda: kernel,
    "launcher": lambda: kernel[1, 1],
    "ufunc": lambda: ufunc,
    "device function": lambda: device_function,
    "gpu_data": lambda: cuda.device_array(3).gpu_data,
    "handle": lambda: cuda.to_device(np.ones(4)).get_ipc_handle(),
    "lambda": lambda: lambda *a, **k: None,
    "builtin": lambda: len,
    "class": lambda: int,
    "class of ours": lambda: cuda.DeviceNDArray,
    "object": object,
    "hostile": Hostile,
    "claims": Claims,
    "exception": lambda: ValueError("x"),
    "module": lambda: np,
    "dtype": lambda: np.dtype("f4"),
    "dtype of objects": lambda: np.dtype("O"),
    "memoryview": lambda: memoryview(b"\x02\x03"),
    "ctypes": lambda: ctypes.c_int(3),
    "partial": lambda: functools.partial(int, base=2),
    "NotImplemented": lambda: NotImplemented,
    "surrogate": lambda: "\udc80",
}

# What makes sense for parameters of a name.
_SENSE = {
    "shape": lambda: 4,
    "dtype": lambda: np.float64,
    "strides": lambda: None,
    "order": lambda: "C",
    "stream": lambda: 0,
    "obj": lambda: np.ones(4),
    "ary": lambda: np.ones(4),
    "array": lambda: cuda.to_device(np.ones(4)),
    "to": lambda: None,
    "copy": lambda: True,
    "handle": lambda: 0,
    "context": lambda: None,
    "device": lambda: None,
    "fill_value": lambda: 1,
    "griddim": lambda: 1,
    "blockdim": lambda: 4,
    "timing": lambda: True,
    "gpu_data": lambda: None,
    "size": lambda: 4,
    "nbytes": lambda: 4,
    "offset": lambda: 0,
    "callback": lambda: lambda *a: None,
    "func": lambda: function,
    "pyfunc": lambda: function,
    "signature": lambda: "void(float64[:], float64)",
    "sig": lambda: "void(float64[:], float64)",
    "states": lambda: cuda.to_device(cuda_random.create_xoroshiro128p_states(4, seed=1)),
    "seed": lambda: 1,
    "n": lambda: 4,
    "event": cuda.event,
    "evtstart": cuda.event,
    "evtend": cuda.event,
    "axis": lambda: 0,
    "index": lambda: 0,
    "frames": lambda: 1,
}


# Names that are left out, and why: they end or change what all other calls need, wait for input, or
# are words of kernels, which are called by kernels only.
LEFT_OUT = {
    *("close", "reset", "reset_all", "primary_context_reset", "unload", "exit", "push", "pop"),
    *("set_memory_manager", "set_allocator", "using_allocator", "on_out_of_memory", "limit"),
    *("install", "uninstall", "use", "select_device", "adversary", "track", "test", "detect"),
    *("profile_start", "profile_stop", "load_ipython_extension", "unload_ipython_extension"),
    *("free", "free_host", "release", "destroy", "breakpoint", "begin_capture", "tofile", "dump"),
    # Of results, and what is called between Haulage's own rooms; no page names them.
    *("Stats", "Report", "Log", "Statistics", "Usage", "Counts", "Site", "Registration", "Holding"),
    *("plan", "alike", "overload_for", "no_argument", "launch_in", "load", "reaches"),
    *("load_checked", "checked_body", "local_bytes_on", "version_for"),
}


def modules():
    """(name, function) of each public name of a module that can be called."""
    from haulage.runtime import context as _context  # noqa: F401 - its classes are public

    for module in (haulage, cuda, roc, memory, cuda_random, cuda.cudadrv.devices):
        names = getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]
        for name in names:
            value = getattr(module, name)
            own = getattr(value, "__module__", "") or ""
            if callable(value) and name not in LEFT_OUT and own.startswith("haulage"):
                if own.startswith("haulage.lang"):
                    continue
                yield f"{module.__name__}.{name}", value


OBJECTS = {
    "device array": lambda: cuda.to_device(np.ones((2, 3))),
    "vector": lambda: cuda.to_device(np.arange(5.0)),
    "records": lambda: cuda.to_device(np.zeros(3, [("a", "i4"), ("b", "f8")])),
    "record": lambda: cuda.to_device(np.zeros(3, [("a", "i4"), ("b", "f8")]))[1],
    "mapped": lambda: cuda.mapped_array(4),
    "gpu_data": lambda: cuda.device_array(4).gpu_data,
    "stream": cuda.stream,
    "event": cuda.event,
    "graph": captured,
    "kernel": lambda: kernel,
    "roc kernel": lambda: roc_kernel,
    "launcher": lambda: kernel[1, 4],
    "overload": lambda: next(iter(kernel.overloads.values())),
    "device function": lambda: device_function,
    "ufunc": lambda: ufunc,
    "gufunc": lambda: gufunc,
    "reduction": lambda: reduction,
    "context": cuda.current_context,
    "device": cuda.get_current_device,
    "gpus": lambda: cuda.gpus,
    "SmartArray": lambda: haulage.SmartArray(np.ones((2, 3))),
    "handle": lambda: cuda.to_device(np.ones(4)).get_ipc_handle(),
    "memory handle": lambda: cuda.to_device(np.ones(4)).get_ipc_handle().handle,
    "In": lambda: cuda.In(np.ones(4)),
    "report": memory.report,
    "default stream": cuda.default_stream,
    "random states": lambda: cuda_random.create_xoroshiro128p_states(4, seed=1),
    "configured": lambda: kernel.configure(1, 4),
    "forall": lambda: kernel.forall(4),
    "roc launcher": lambda: roc_kernel[4, 4],
    "allocator": memory.get_allocator,
}

_OPERATORS = (
    *("__call__", "__getitem__", "__setitem__", "__contains__", "__eq__", "__lt__", "__add__"),
    *("__delitem__", "__array__", "__dlpack__", "__matmul__", "__pow__", "__iadd__"),
)


def methods():
    """(name, function that makes what is called) of each method of the objects."""
    for name, make in OBJECTS.items():
        kind = type(make())
        for method in dir(kind):
            if f"{name}.{method}" in ("kernel.launch", "roc kernel.launch"):
                continue  # as `launch_in`
            if method in LEFT_OUT or (method[0] == "_" and method not in _OPERATORS):
                continue
            static = inspect.getattr_static(kind, method, None)
            if isinstance(static, property):
                if static.fset is not None:
                    yield f"{name}.{method} =", _setter(make, method)
                continue
            if callable(getattr(kind, method, None)) or isinstance(static, staticmethod):
                yield f"{name}.{method}", _getter(make, method)
        for attribute in vars(make()) if hasattr(make(), "__dict__") else ():
            if attribute[0] != "_":
                yield f"{name}.{attribute} =", _setter(make, attribute)


def _getter(make, name):
    return lambda: getattr(make(), name)


def _setter(make, name):
    def made():
        found = make()

        def setter(value):
            before = getattr(found, name)
            setattr(found, name, value)
            with contextlib.suppress(Exception):
                setattr(found, name, before)

        return setter

    return made


def targets():
    """All that is called: name -> function that gives it."""
    found = {name: (lambda value=value: value) for name, value in modules()}
    found.update(methods())
    found["kernel launch"] = lambda: lambda x, y: kernel[1, 4](x, y)
    found["kernel configured"] = lambda: lambda g, b, s, m: kernel[g, b, s, m](np.ones(4), 1.0)
    found["kernel in a stream"] = lambda: lambda stream: kernel[1, 4, stream](np.ones(4), 1.0)
    found["array[key]"] = lambda: (
        lambda key, value: cuda.device_array((3, 4)).__setitem__(key, value)
    )
    found["Stream.create"] = lambda: getattr(cuda.Stream, "create", cuda.stream)
    return found


def arguments(call, random):
    """Positional and named arguments, of which at least one makes no sense, as (name, value)."""
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names, by_name = [], {}
    for each in parameters:
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
            if each.default is each.empty or random.random() < 0.5:
                names.append(each.name)
            elif random.random() < 0.3:
                by_name[each.name] = None
        elif each.kind is each.VAR_POSITIONAL:
            names += [each.name] * random.randrange(4)
        elif each.kind is each.KEYWORD_ONLY and random.random() < 0.4:
            by_name[each.name] = None
    if not parameters:
        names = ["?"] * random.randrange(3)
    count = len(names) + len(by_name)
    bad = {random.randrange(count) for _ in range(random.choice((1, 1, 1, 2, 3)))} if count else ()
    given = itertools.count()
    one = lambda name: _value(name, next(given) in bad, random)  # noqa: E731
    return [one(name) for name in names], {name: one(name) for name in by_name}


def _value(name, bad, random):
    if not bad and name in _SENSE:
        return name, _SENSE[name]()
    chosen = random.choice(list(NASTY))
    return chosen, NASTY[chosen]()


# Where NumPy or Python says what is wrong with an argument in words that are for users: (file, name
# of the function).
BY_OTHERS = {
    ("api/arrays.py", "ones"),
    ("runtime/arrays/array.py", "__contains__"),
    ("smart/array.py", "__array__"),
    ("smart/creation.py", "new"),
    ("smart/elements.py", "_basic"),
    ("smart/elements.py", "view"),
    ("smart/elements.py", "<lambda>"),
    ("lib/reduce.py", "__call__"),
    ("lib/ufuncs/operands.py", "_opened"),
    ("runtime/geometry/numpy_arrays.py", "host_array"),
    ("runtime/protocols/dlpack.py", "ask"),
    ("runtime/arrays/copying.py", "__array__"),
    ("runtime/geometry/numpy_arrays.py", "converted"),
    ("runtime/geometry/dtypes.py", "check_dtype"),
    # Names of arguments, which Python checks where the function itself is called.
    ("tracebacks.py", "call"),
}
# Methods of NumPy's, which say it in its words.
NUMPYS = {
    *("runtime/arrays/host_arrays.py", "smart/numpy_functions.py", "smart/numpy_methods.py"),
}


def judge(error):
    """None if an error was raised on purpose, for the user to read; else where it came from."""
    if isinstance(error, HaulageError):
        return None
    traceback, ours = error.__traceback__, None
    last = traceback
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            ours = traceback
        last = traceback
        traceback = traceback.tb_next
    if ours is None:
        return None  # Python's own, as for arguments that are missing
    if is_raised_in_core(last):
        return None
    code = ours.tb_frame.f_code
    file = code.co_filename.removeprefix(_PACKAGE)
    if last is ours and code.co_code[ours.tb_lasti] == dis.opmap["RAISE_VARARGS"]:
        return None
    if (file, code.co_name) in BY_OTHERS or file in NUMPYS:
        return None
    if last.tb_frame.f_code.co_filename == __file__:
        return None  # of a value that is called
    return f"{file}:{ours.tb_lineno} {code.co_name}: {type(error).__name__}: {str(error)[:150]}"


def is_raised_in_core(traceback):
    """Whether the line is a `raise` of the compiled extension's."""
    file = traceback.tb_frame.f_code.co_filename
    if not file.startswith("src/haulage/_core/"):
        return False
    line = linecache.getline(f"{_PACKAGE}_core/{Path(file).name}", traceback.tb_lineno)
    return line.strip().startswith("raise ")


class Hang(BaseException):
    """A call did not come back."""


@contextlib.contextmanager
def no_hang(seconds=20):
    def end(*_):
        raise Hang

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def try_one(name, target, random, log=None):
    """Call once; what is wrong with the answer, or None."""
    call = target()
    positional, by_name = arguments(call, random)
    told = ", ".join([each for each, _ in positional] + [f"{k}={v[0]}" for k, v in by_name.items()])
    told = f"{name}({told})"
    if log is not None:
        log(told)
    found = None
    try:
        with no_hang(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(*[v for _, v in positional], **{k: v for k, (_, v) in by_name.items()})
    except Hang:
        found = "it hangs"
    except Exception as error:
        found = judge(error)
    if found is None:
        found = state()
    return None if found is None else f"{told}\n    {found}"


def state():
    """What is wrong with the process after a call, or None."""
    with contextlib.suppress(Exception):
        cuda.synchronize()  # a callback that fails is told here
    try:
        with no_hang():
            array = cuda.to_device(np.zeros(4))
            kernel[1, 4](array, 1.0)
            cuda.synchronize()
            assert (array.copy_to_host() == 1).all()
    except Hang:
        return "a launch after it hangs"
    except Exception as error:
        return f"a launch after it fails: {error!r}"
    return None
