"""What a kernel and a device function can be asked besides being launched, as in Numba."""

import inspect
import pickle

import numpy as np
import pytest
from numba import types
from numba.core.errors import TypingError

from haulage import cuda, roc
from haulage.errors import CompileError, LaunchTypeError, Unsupported

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

FACTOR = 2


@cuda.jit
def of_this_module(x):
    x[cuda.grid(1)] += 1


@cuda.jit(device=True)
def add(x, y):
    return x + y


def outcome(kernel, size=3, **named):
    x = np.zeros(size)
    kernel[1, size](x, **named)
    return x.tolist()


def test_a_device_function_is_compiled_and_shown_for_types(device):
    compiled = add.compile_device((types.int32, "int32"))
    assert compiled.signature.return_type == types.int64
    assert compiled.fndesc.llvm_func_name in add.inspect_llvm((np.int32, np.int32))
    if device.kind == "amd":
        with pytest.raises(Unsupported, match="function add: it has no code of its own on AMD's"):
            add.inspect_asm((types.int32, types.int32))
    else:
        assert compiled.fndesc.llvm_func_name in add.inspect_asm((types.int32, types.int32))
    assert add.compile_device((types.int32, types.int32), types.int8).signature.args
    with pytest.raises(CompileError, match=r"function add for .*array"):
        add.compile_device((types.float32[:], types.unicode_type))
    assert of_this_module.compile_device((types.float64[:],)).signature.return_type == types.none


@pytest.mark.parametrize("words", [cuda, roc])
def test_a_device_function_with_a_signature_is_compiled_at_once(words):
    with pytest.raises(CompileError, match=r"bad for \(float32\)"):

        @words.jit("float32(float32)", device=True)
        def bad(x):
            return x.no_such_attribute


@pytest.mark.parametrize("options", [{}, {"device": True}])
def test_the_source_and_the_parameters_are_found(options):
    def scale(x, factor=2):
        """Doubles."""

    made = cuda.jit(scale, **options)
    assert str(inspect.signature(made)) == "(x, factor=2)"
    assert inspect.getsource(made) == inspect.getsource(scale)
    assert made.__wrapped__ is scale


def test_a_device_function_is_no_kernel():
    with pytest.raises(RuntimeError, match="Cannot compile a device function as a kernel: add"):
        add[1, 1](1, 2)
    with pytest.raises(RuntimeError, match="SASS of a device function"):
        add.inspect_sass((types.int32, types.int32))


def test_errors_of_numba_are_of_its_classes_too():
    @cuda.jit
    def bad(x):
        x[0] = x.no_such_attribute

    with pytest.raises(TypingError) as told:
        bad[1, 1](np.zeros(1))
    assert isinstance(told.value, CompileError)
    again = pickle.loads(pickle.dumps(told.value))
    assert type(again) is type(told.value)
    assert str(again) == str(told.value)


def test_a_kernel_of_a_module_is_pickled_by_its_name():
    for function in (of_this_module, add):
        assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("words", [cuda, roc])
def test_other_kernels_are_pickled_with_their_code(words):
    @words.jit(device=True)
    def inner(x):
        return x + FACTOR

    @words.jit
    def kernel(x, by=1):
        x[words.grid(1) if words is cuda else words.get_global_id(0)] = inner(by)

    for _ in range(2):
        kernel = pickle.loads(pickle.dumps(kernel))
        assert outcome(kernel) == [3, 3, 3]
    launcher = pickle.loads(pickle.dumps(kernel[(5, 2), 8, cuda.stream(), 16]))
    assert launcher.griddim == (5, 2, 1)
    assert launcher.blockdim == (8, 1, 1)
    assert launcher.stream == 0
    assert launcher.sharedmem == 16
    assert (kernel.vocabulary is of_this_module.vocabulary) is (words is cuda)


def test_a_pickled_kernel_keeps_its_signatures():
    @cuda.jit("void(float64[:])")
    def kernel(x):
        x[cuda.grid(1)] = 5

    again = pickle.loads(pickle.dumps(kernel))
    assert outcome(again) == [5, 5, 5]
    with pytest.raises(LaunchTypeError, match="No matching definition"):
        again[1, 1](np.zeros(3, np.int8))


def test_a_local_kernel_that_calls_itself_is_not_pickled():
    @cuda.jit
    def count(n):
        return 0 if n == 0 else count(n - 1)

    with pytest.raises(pickle.PicklingError, match="calls itself"):
        pickle.dumps(count)


def test_recompile_takes_globals_as_they_are_now(monkeypatch):
    @cuda.jit
    def kernel(x):
        x[cuda.grid(1)] = FACTOR

    assert outcome(kernel) == [2, 2, 2]
    monkeypatch.setitem(globals(), "FACTOR", 9)
    assert outcome(kernel) == [2, 2, 2]
    kernel.recompile()
    assert outcome(kernel) == [9, 9, 9]
    assert len(kernel.signatures) == 1


def test_a_kernel_can_be_told_to_compile_no_more():
    @cuda.jit
    def kernel(x):
        x[cuda.grid(1)] = 1

    assert outcome(kernel) == [1, 1, 1]
    kernel.disable_compile()
    assert outcome(kernel) == [1, 1, 1]
    with pytest.raises(LaunchTypeError, match="No matching definition"):
        kernel[1, 1](np.zeros(3, np.int8))
    kernel.disable_compile(False)
    kernel[1, 1](np.zeros(3, np.int8))
    assert len(kernel.signatures) == 2


class Wrapped:
    """No argument of kernels, and nothing that Numba knows."""

    def __init__(self, value):
        self.value = value


class Extension:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def prepare_args(self, ty, val, stream, retr):
        if isinstance(val, np.ndarray):
            self.log.append((self.name, ty, stream))
            retr.append(lambda: self.log.append("done"))
            return ty, val
        return ty, val * 10 + (self.name == "first")


@pytest.mark.parametrize("words", [cuda, roc])
def test_extensions_prepare_the_arguments_the_last_one_first(words):
    log = []
    first, last = Extension("first", log), Extension("last", log)

    @words.jit(extensions=[first])
    def kernel(x, value):
        x[0] = value

    kernel.extensions.append(last)
    x, stream = np.zeros(1), words.stream()
    kernel[1, 1, stream](x, 2)
    assert x[0] == 201
    assert [entry[0] for entry in log[:2]] == ["last", "first"]
    assert log[2:] == ["done", "done"]
    assert log[0][1] == types.float64[::1]
    assert log[0][2] is stream
    with pytest.raises(LaunchTypeError, match="Wrapped"):
        kernel[1, 1](x, Wrapped(1))


def test_mistakes_in_what_is_compiled_to_ptx_are_told():
    python, doubles = of_this_module.py_func, "void(float64[:])"
    with pytest.raises(Unsupported, match="Unsupported ABI: fastcall"):
        cuda.compile(python, doubles, abi="fastcall")
    with pytest.raises(Unsupported, match="C ABI is not supported for kernels"):
        cuda.compile_ptx(python, doubles, abi="c")
    with pytest.raises(Unsupported, match="Unsupported output type: cubin"):
        cuda.compile(python, doubles, output="cubin")
    with pytest.raises(Unsupported, match="LTO-IR is made by NVIDIA's compiler"):
        cuda.compile(python, doubles, output="ltoir")
    with pytest.raises(TypeError, match=r"returns a value \(int64\).*must have void return type"):
        cuda.compile_ptx(add.py_func, (types.int32, types.int32))
    with pytest.raises(CompileError):
        cuda.compile(add.py_func, (types.float64[:], types.none))
    for cc in (9, "9.0", (9,), (5, 0)):
        with pytest.raises(ValueError, match="compute capability"):
            cuda.compile(add.py_func, (types.int32, types.int32), cc=cc)
    with pytest.raises(ValueError, match="no name for a function"):
        cuda.compile(add.py_func, (types.int32, types.int32), abi_info={"abi_name": "a b"})
    with pytest.raises(TypeError, match="takes a Python function"):
        cuda.compile(len, (types.int32,))


def test_sass_is_told_to_be_nvidias_where_it_is_not_there():
    if cuda.get_current_device().kind == "nvidia":
        pytest.skip("the device is NVIDIA's")
    for question in (of_this_module.inspect_sass, of_this_module.inspect_sass_cfg):
        with pytest.raises(Unsupported, match=r"SASS is the code of NVIDIA's GPUs.*current device"):
            question()


def test_metadata_by_signature():
    assert outcome(of_this_module) == [1, 1, 1]
    told = of_this_module.get_metadata()
    assert all(data["name"] == "of_this_module" for data in told.values())


@pytest.mark.parametrize("given", [len, print, 5, Wrapped, {}], ids=repr)
def test_what_is_no_function_is_not_compiled(given):
    for decorate in (cuda.jit, roc.jit, cuda.jit(device=True), cuda.jit("void(int32)")):
        with pytest.raises(TypeError, match="jit"):
            decorate(given)
