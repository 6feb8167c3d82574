"""What the OpenCL back end reads in a SPIR-V module."""

import numpy as np
import pytest

import haulage
from doubles.opencl_programs import OpenCLPrograms
from haulage import cuda
from haulage.backends.opencl_driver import spirv


def test_arguments_lie_as_in_a_struct_of_c():
    kernels = spirv.kernels(OpenCLPrograms().code())
    assert set(kernels) == {"where", "types", "scale", "chain", "stop"}
    assert kernels["scale"].given == ((0, 8), (8, 8), (16, 4))
    widths = (8, 8, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8)
    starts = (0, 8, 16, 17, 18, 20, 24, 28, 32, 40, 48, 56)
    assert kernels["types"].given == tuple(zip(starts, widths, strict=True))


def test_parameters_that_the_driver_adds_are_told_by_their_names():
    kernels = spirv.kernels(OpenCLPrograms().code())
    assert kernels["scale"].added == ()
    assert kernels["stop"].given == ((0, 8), (8, 8))
    assert kernels["stop"].added == ((spirv.CHANNEL, 8), (spirv.MODULE, 4))


def test_a_compiled_kernel_with_words_of_warps_and_shared_memory():
    @cuda.jit
    def summed(x):
        shared = cuda.shared.array(0, np.int32)
        thread = cuda.threadIdx.x + cuda.threadIdx.y
        shared[thread] = cuda.shfl_down_sync(0xFFFFFFFF, x[thread], 1)
        x[thread] = shared[thread]

    code = haulage.compile(summed, "(int32[::1],)", "spirv64").code
    (parameters,) = spirv.kernels(code).values()
    names = [name for name, _ in parameters.added]
    assert parameters.lanes == 32
    assert parameters.is_row
    assert names[-1] == spirv.DYNAMIC_SHARED
    assert dict(parameters.added)[spirv.DYNAMIC_SHARED] == 0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (b"no code for any device", "no SPIR-V module"),
        (b"", "0 bytes"),
        (OpenCLPrograms().code() + (5 << 16 | 54).to_bytes(4, "little"), "broken"),
    ],
)
def test_what_is_no_module_is_told(code, words):
    with pytest.raises(ValueError, match=words):
        spirv.kernels(code)
