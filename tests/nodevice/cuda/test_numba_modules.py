"""Modules of numba.cuda that hold tables and arithmetic, and names without a counterpart."""

import importlib
import pickle

import pytest
from numba import types
from numba.core.datamodel import models
from numba.core.typing import templates

from haulage import cuda
from haulage.cuda import cudadecl, cudaimpl, extending, libdevice, random
from haulage.cuda.cudadrv import driver
from haulage.cuda.deviceufunc import GUFuncEngine


def test_the_engine_tells_core_shapes_and_the_loop():
    engine = GUFuncEngine.from_signature("(m, n), (n, p) -> (m, p), (m)")
    schedule = engine.schedule([(7, 100, 4, 5), (1, 5, 6)])
    assert schedule.parent is engine
    assert schedule.ishapes == [(4, 5), (5, 6)]
    assert schedule.oshapes == [(4, 6), (4,)]
    assert schedule.loopdims == (7, 100)
    assert schedule.loopn == 700
    assert schedule.pinned == [False, True]
    assert schedule.output_shapes == [(7, 100, 4, 6), (7, 100, 4)]


def test_the_engine_broadcasts_loops_as_numpy_does():
    schedule = GUFuncEngine.from_signature("(),()->()").schedule([(3, 1), (4,)])
    assert schedule.loopdims == (3, 4)
    assert schedule.pinned == [False, False]


@pytest.mark.parametrize(
    ("shapes", "error"),
    [
        ([(4, 5)], TypeError),
        ([(4, 5), (6, 7)], ValueError),
        ([(4, 5), (5,)], ValueError),
        ([(2, 4, 5), (3, 5, 6)], ValueError),
    ],
)
def test_the_engine_names_shapes_that_do_not_fit(shapes, error):
    with pytest.raises(error):
        GUFuncEngine.from_signature("(m,n),(n,p)->(m,p)").schedule(shapes)


def test_libdevices_prototypes_are_those_of_c():
    from haulage.cuda.libdevicefuncs import arg, create_signature, functions

    assert functions["__nv_sin"] == (types.float64, [arg("x", types.float64, False)])
    result, arguments = functions["__nv_sincosf"]
    assert result == types.void
    assert [(each.name, each.is_ptr) for each in arguments] == [
        ("x", False),
        ("sptr", True),
        ("cptr", True),
    ]
    result, arguments = functions["__nv_frexp"]
    expected = types.Tuple([types.float64, types.int32])(types.float64)
    assert create_signature(result, arguments) == expected
    assert {name.removeprefix("__nv_") for name in functions} == {
        name
        for name in vars(libdevice)
        if name.isidentifier() and not name.startswith("_") and name != "words"
    }


def test_vector_types_lead_to_the_words_and_their_aliases():
    from haulage.cuda.vector_types import vector_types

    assert len(vector_types) == 40
    for name, kind in vector_types.items():
        assert kind.name == name
        assert kind.user_facing_object is getattr(cuda, name)
        assert kind.num_elements == len(kind.attr_names) == int(name[-1])
        assert all(
            getattr(cuda, alias) is kind.user_facing_object
            for alias in kind.user_facing_object.aliases
        )
    assert vector_types["uint64x3"].base_type == types.uint64
    assert cuda.uint64x3.aliases == ("ulong3", "ulonglong3")
    assert cuda.float64x1.aliases == ("double1",)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("kernels.reduction", {"Reduce": cuda.Reduce}),
        ("intrinsic_wrapper", {"shfl_sync": cuda.shfl_sync, "all_sync": cuda.all_sync}),
        ("vectorizers", {"CUDAUFuncDispatcher": type(cuda.vectorize(lambda x: x))}),
        ("cudamath", {"registry": cudadecl.registry}),
        ("mathimpl", {"lower": cudaimpl.lower}),
        ("random", {"xoroshiro128p_dtype": random.xoroshiro128p_dtype}),
    ],
)
def test_long_names_are_the_short_ones(module, names):
    loaded = importlib.import_module(f"haulage.cuda.{module}")
    assert {name: getattr(loaded, name) for name in names} == names
    assert all(hasattr(loaded, name) for name in loaded.__all__)


def test_names_that_only_the_package_numba_cuda_has():
    assert cuda.HAS_NUMBA
    assert extending.core_models is models
    assert extending.infer is templates.infer
    assert not driver._have_nvjitlink()


def test_a_name_without_a_counterpart_is_an_error_with_a_reason():
    import haulage.cuda.deviceufunc as module

    with pytest.raises(
        AttributeError, match=r"numba.cuda.deviceufunc has no 'DeviceVectorize': .+"
    ):
        module.DeviceVectorize  # noqa: B018
    with pytest.raises(ImportError, match=r"has no 'DeviceVectorize': .+cuda.vectorize"):
        from haulage.cuda.deviceufunc import DeviceVectorize  # noqa: F401
    assert not hasattr(module, "DeviceVectorize")


@pytest.mark.parametrize(
    ("name", "advice"),
    [("autojit", "cuda.jit"), ("exp", "math"), ("sqrt", "math"), ("test", "haulage run")],
)
def test_names_that_programs_try_lead_to_the_right_ones(name, advice):
    with pytest.raises(AttributeError, match=f"numba.cuda has no '{name}': .*{advice}"):
        getattr(cuda, name)
    assert not hasattr(cuda.DeviceNDArray, "to_host")
    array = cuda.DeviceNDArray.__new__(cuda.DeviceNDArray)
    with pytest.raises(AttributeError, match=r"to_host.*copy_to_host\(\)"):
        array.to_host()


@pytest.mark.parametrize(
    ("module", "name"),
    [("initialize", "initialize_all"), ("simulator.kernel", "FakeCUDAKernel")],
)
def test_modules_that_programs_import_and_never_use_can_be_imported(module, name):
    loaded = importlib.import_module(f"haulage.cuda.{module}")
    with pytest.raises(AttributeError, match=f"numba.cuda.{module} has no '{name}': .+"):
        getattr(loaded, name)


def test_names_that_editors_find_in_numbas_modules():
    from ctypes import c_int
    from functools import lru_cache

    from haulage.cuda.cudadrv import devicearray, nvvm
    from haulage.cuda.simulator import api

    assert devicearray.lru_cache is lru_cache
    assert nvvm.nvvm_result is c_int
    assert api.detect is cuda.detect


def test_numbas_simulator_is_a_module_without_names():
    import haulage.cuda.simulator as simulator

    with pytest.raises(
        AttributeError, match=r"numba.cuda.simulator has no 'jit': .+HAULAGE_DEVICE"
    ):
        simulator.jit  # noqa: B018


def test_what_numbas_report_on_the_system_asks_for(capsys):
    from haulage.cuda.cudadrv import libs

    assert cuda.implementation == "Haulage"
    assert libs.test()
    assert "No library of NVIDIA's is needed" in capsys.readouterr().out


def test_programs_make_errors_of_the_driver_themselves():
    from haulage.cuda.cudadrv.driver import CudaAPIError

    error = pickle.loads(pickle.dumps(CudaAPIError(2, "no room")))
    assert (error.code, error.msg, str(error)) == (2, "no room", "[2] no room")


def test_kernels_and_device_functions_are_dispatchers_and_plain_functions_are_not():
    from haulage.cuda.dispatcher import CUDADispatcher, Dispatcher

    def plain(x):
        x[0] = 1

    for kind in (CUDADispatcher, Dispatcher):
        assert isinstance(cuda.jit(plain), kind)
        assert isinstance(cuda.jit(device=True)(plain), kind)
        assert not isinstance(plain, kind)
