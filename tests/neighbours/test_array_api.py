"""array-api-compat: what it says of device arrays and SmartArrays."""

import numpy as np
import pytest

import haulage
from haulage import cuda
from support.neighbours import neighbour

compat = neighbour("array_api_compat", "array-api-compat")

OTHERS = [
    *("is_numpy_array", "is_cupy_array", "is_torch_array", "is_dask_array", "is_jax_array"),
    *("is_ndonnx_array", "is_pydata_sparse_array", "is_lazy_array"),
]


@pytest.fixture(autouse=True)
def on_the_processor():
    with haulage.use("cpu"):
        yield


@pytest.fixture
def array():
    return cuda.to_device(np.arange(6.0).reshape(2, 3))


@pytest.fixture
def smart():
    return haulage.SmartArray(np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("ask", OTHERS)
def test_they_are_of_no_other_library(ask, array, smart):
    assert not getattr(compat, ask)(array)
    assert not getattr(compat, ask)(smart)


def test_a_device_array_has_no_namespace_and_does_not_claim_one(array):
    assert not compat.is_array_api_obj(array)
    with pytest.raises(TypeError, match="DeviceNDArray is not a supported array type"):
        compat.array_namespace(array)
    with pytest.raises(AttributeError, match=r"haulage\.SmartArray"):
        array.__array_namespace__()


def test_a_device_array_has_a_device_and_a_size(array):
    device = compat.device(array)
    assert device is array.device
    assert compat.to_device(array, device) is array
    assert compat.to_device(array, "cpu") is array
    assert compat.size(array) == 6


def test_a_smart_array_has_numpys_namespace(smart):
    assert compat.is_array_api_obj(smart)
    xp = compat.array_namespace(smart)
    assert xp is np
    assert xp.sum(smart) == 15
    assert xp.matmul(smart, smart.T).tolist() == [[5, 14], [14, 50]]
    assert xp.concat([smart, smart]).shape == (4, 3)
    assert xp.asarray(smart, device=compat.device(smart)).tolist() == smart.tolist()
    assert xp.where(smart > 2, smart, 0).sum() == 12
    assert xp.linalg.matrix_norm(smart) == np.linalg.norm(np.arange(6.0))
    assert xp.isdtype(smart.dtype, "real floating")


def test_a_smart_array_is_on_the_only_device_of_that_namespace(smart):
    assert compat.device(smart) == "cpu" == compat.device(np.zeros(1))
    assert compat.to_device(smart, "cpu") is smart
    assert compat.size(smart) == 6
    with pytest.raises(ValueError, match=r"get\(device\)"):
        compat.to_device(smart, "gpu")


def test_a_function_written_for_the_standard_takes_a_smart_array_after_a_kernel(smart):
    @cuda.jit
    def double(x):
        i, j = cuda.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            x[i, j] *= 2

    def standardised(x):
        xp = compat.array_namespace(x)
        return (x - xp.mean(x)) / xp.std(x)

    host = np.arange(6.0).reshape(2, 3)
    double[1, (4, 4)](smart)
    assert np.allclose(standardised(smart), standardised(2 * host))
