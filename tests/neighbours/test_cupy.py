"""CuPy, as far as it goes without an NVIDIA GPU: it is imported, and makes no array there."""

import numpy as np
import pytest

import haulage
from haulage import cuda
from support.neighbours import neighbour

cupy = neighbour("cupy", "cupy-cuda12x")

pytestmark = pytest.mark.heavy
HAS_GPU = cupy.cuda.is_available()


def test_its_arrays_and_streams_have_what_haulage_asks_for():
    for name in ("__dlpack__", "__dlpack_device__", "__cuda_array_interface__"):
        assert hasattr(cupy.ndarray, name)
    assert hasattr(cupy.cuda.Stream, "__cuda_stream__")
    assert not hasattr(cupy.ndarray, "__dlpack_c_exchange_api__")


def test_its_streams_tell_their_handle_and_take_what_tells_one():
    class Stream:
        def __cuda_stream__(self):
            return 0, 7

    assert cupy.cuda.Stream.null.__cuda_stream__() == (0, 0)
    assert cupy.cuda.Stream.from_external(Stream()).__cuda_stream__() == (0, 7)


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU, on which CuPy makes arrays")
def test_without_a_gpu_it_makes_no_array_of_ours():
    with haulage.use("cpu"):
        array = cuda.to_device(np.ones(3))
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError):
        cupy.asarray(array)
    with pytest.raises(TypeError, match="CPU arrays cannot be directly imported to CuPy"):
        cupy.from_dlpack(array)
    assert array.copy_to_host().tolist() == [1, 1, 1]


@pytest.mark.skipif(
    not HAS_GPU, reason="CuPy makes arrays on NVIDIA's GPUs only, and there is none"
)
def test_arrays_share_memory():
    array = cuda.to_device(np.ones(3))
    theirs = cupy.from_dlpack(array)
    assert theirs.data.ptr == array.device_pointer
    assert cuda.as_cuda_array(theirs).device_pointer == array.device_pointer
