"""The modules that numba.cuda is made of, under `haulage.cuda`."""

import importlib
import subprocess
import sys

import numpy as np
import pytest
from numba import types

import haulage
from haulage import cuda
from haulage.cuda import (
    api,
    api_util,
    args,
    codegen,
    compiler,
    descriptor,
    device_init,
    dispatcher,
    errors,
    extending,
    stubs,
    target,
)
from haulage.cuda import types as cuda_types
from haulage.errors import CompileError, KernelError, LaunchError, LaunchTypeError

MODULES = (
    *("api", "api_util", "args", "codegen", "compiler", "cuda_paths", "cudadecl", "cudaimpl"),
    *("decorators", "descriptor", "device_init", "dispatcher", "errors", "extending"),
    *("intrinsics", "models", "nvvmutils", "printimpl", "stubs", "target", "types"),
)


def test_a_program_can_name_submodules_that_it_did_not_import():
    program = f"""
import sys
from haulage import cuda
assert not {{"numba", "haulage.cuda.dispatcher"}} & set(sys.modules)
for name in {MODULES}:
    assert getattr(cuda, name) is sys.modules["haulage.cuda." + name]
assert not hasattr(cuda, "no_such_module")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", MODULES)
def test_each_name_of_a_module_is_there_and_another_is_named(module):
    found = importlib.import_module(f"haulage.cuda.{module}")
    for name in getattr(found, "__all__", ()):
        assert hasattr(found, name)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = found.no_such_name


@pytest.mark.parametrize("module", [*MODULES, "random", "cudadrv", "cudadrv.driver", "libdevice"])
def test_all_names_of_a_module_are_for_programs(module):
    given = {}
    exec(f"from haulage.cuda.{module} import *", given)
    assert "__getattr__" not in given


def test_the_host_s_side_and_the_words_are_those_of_the_vocabulary():
    for module in (api, stubs, device_init):
        for name in module.__all__:
            assert getattr(module, name) is getattr(cuda, name)


def test_kernels_and_device_functions_are_dispatchers():
    with haulage.use("cpu"):
        kernel = cuda.jit("void(float64[:])")(lambda x: None)
        function = cuda.jit(device=True)(lambda x: x)
        assert isinstance(kernel, dispatcher.CUDADispatcher)
        assert isinstance(function, dispatcher.CUDADispatcher)
        assert isinstance(kernel[1, 1], dispatcher._LaunchConfiguration)
        assert isinstance(kernel.forall(3), dispatcher.ForAll)
        assert isinstance(kernel.overloads[(types.float64[:],)], dispatcher._Kernel)


def test_kernels_and_device_functions_tell_their_options_and_contexts():
    with haulage.use("cpu"):
        for device in (False, True):
            made = cuda.jit(device=device, fastmath=True, max_registers=32)(lambda x: None)
            options = {"debug": False, "fastmath": True, "max_registers": 32}
            assert made.targetoptions == options
            assert "inline" not in cuda.jit(device=device, inline=True)(lambda: 1).targetoptions
            assert made.typingctx is descriptor.cuda_target.typing_context
            assert made.targetctx is descriptor.cuda_target.target_context


@pytest.mark.parametrize("inline", [True, False, "always", "never"])
def test_functions_are_compiled_whatever_inline_says(inline):
    with haulage.use("cpu"):
        added = cuda.jit(device=True, inline=inline)(lambda x: x + 1)

        @cuda.jit
        def kernel(x):
            x[0] = added(x[0])

        x = np.zeros(1)
        kernel[1, 1](x)
        assert x[0] == 1


def test_the_target_types_and_lowers_kernels():
    with haulage.use("cpu"):
        found = descriptor.cuda_target
        assert isinstance(found.typing_context, target.CUDATypingContext)
        assert isinstance(found.target_context, target.CUDATargetContext)
        assert isinstance(found.target_context.codegen(), codegen.JITCUDACodegen)
        assert found.typing_context.resolve_value_type(cuda.threadIdx).register == "threadIdx"
        assert isinstance(found.typing_context.resolve_value_type(cuda.threadIdx), cuda_types.Dim3)


def test_a_function_is_typed_as_kernels_call_it():
    with haulage.use("cpu"):
        result = compiler.compile_cuda(lambda x: x * cuda.warpsize, None, (types.float32,))
        assert result.signature.return_type == types.float64
        assert isinstance(result.library, codegen.CUDACodeLibrary)
        with pytest.raises(RuntimeError, match="Cannot pickle unfinalized"):
            result.library._reduce_states()
        result = compiler.compile_cuda(lambda x: x, types.float64, (types.float32,), fastmath=True)
        assert result.signature.return_type == types.float64
        with pytest.raises(CompileError, match="no_such_name"):
            compiler.compile_cuda(lambda x: no_such_name, None, (types.float32,))  # noqa: F821


def test_numba_s_types_and_its_ways_to_extend_it_are_there_too():
    assert cuda_types.float32 is types.float32
    assert isinstance(cuda_types.grid_group, cuda_types.GridGroup)
    assert extending.register_jitable.__module__.startswith("numba")


def test_errors_are_haulage_s():
    assert errors.KernelRuntimeError is KernelError
    assert errors.CudaLoweringError is CompileError


def test_sizes_of_a_launch_in_their_normal_form():
    assert errors.normalize_kernel_dimensions(3, (4, 5)) == ((3, 1, 1), (4, 5, 1))
    with pytest.raises(LaunchError, match="configuration was not specified"):
        errors.normalize_kernel_dimensions(None, 1)
    with pytest.raises(LaunchTypeError, match="blockdim must be a sequence of integers"):
        errors.normalize_kernel_dimensions(1, 2.5)
    assert "not specified" in errors.missing_launch_config_msg


def test_hints_around_arguments():
    array = np.zeros(3)
    hint = args.Out(array)
    assert args.wrap_arg(hint) is hint
    assert type(args.wrap_arg(array)) is args.InOut
    assert type(args.wrap_arg(array, args.In)) is args.In
    assert args.wrap_arg(array).value is array
    with pytest.raises(TypeError, match="expected a NumPy array"):
        args.wrap_arg("text")


def test_shapes_and_strides_in_their_normal_forms():
    given = api_util.prepare_shape_strides_dtype
    assert given(6, None, "f4", "C") == ((6,), (4,), np.dtype("f4"))
    assert given((2, 3), None, np.float64, "C") == ((2, 3), (24, 8), np.dtype("f8"))
    assert given((2, 3), (), np.float64, "F") == ((2, 3), (8, 16), np.dtype("f8"))
    assert given((2, 3), (32, 8), np.float64, "C") == ((2, 3), (32, 8), np.dtype("f8"))
    assert given(6, 16, np.int8, "C") == ((6,), (16,), np.dtype("i1"))
    with pytest.raises(ValueError, match="do not fit"):
        given((2, 3), (8,), np.float64, "C")
    with pytest.raises(ValueError, match="order"):
        given((2, 3), None, np.float64, "K")
    assert api_util._fill_stride_by_order((2, 3), np.dtype("f8"), "C") == (24, 8)
