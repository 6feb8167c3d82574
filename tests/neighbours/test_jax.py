"""JAX on the CPU: arrays over one memory, and kernels in functions that it compiles."""

import gc
import importlib.util
from pathlib import Path

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.errors import CompileError, LaunchError
from support.neighbours import neighbour

jax = neighbour("jax")
jnp = neighbour("jax.numpy")

pytestmark = pytest.mark.heavy

EXAMPLE = Path(__file__).parents[2] / "examples" / "jax_ffi.py"

DTYPES = [
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]


@pytest.fixture(autouse=True)
def on_the_processor():
    with haulage.use("cpu"), jax.enable_x64(True):
        yield


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@cuda.jit
def double_into(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]


def address(array):
    return array.unsafe_buffer_pointer()


@pytest.mark.parametrize("take", [cuda.from_dlpack, cuda.as_cuda_array])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_device_array_over_one_of_jax_shares_its_memory(take, dtype):
    theirs = jnp.asarray([0, 1, 1], dtype=dtype)
    array = take(theirs)
    assert (array.device_pointer, array.dtype) == (address(theirs), dtype)
    assert array.readonly
    assert array.copy_to_host().tolist() == [0, 1, 1]


@pytest.mark.parametrize("give", [jax.dlpack.from_dlpack, jnp.from_dlpack])
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_of_jax_over_one_of_ours_shares_its_memory(give, dtype):
    array = cuda.to_device(np.zeros(64, dtype))
    theirs = give(array)
    assert (address(theirs), theirs.dtype) == (array.device_pointer, dtype)
    array[1] = 1
    assert np.asarray(theirs)[:3].tolist() == [0, 1, 0]


def test_the_memory_lives_as_long_as_jax_holds_it():
    array = cuda.to_device(np.arange(1000.0))
    theirs = jnp.from_dlpack(array)
    del array
    gc.collect()
    again = [cuda.to_device(np.zeros(1000)) for _ in range(3)]
    assert theirs.sum() == 499500
    assert all(address(theirs) != each.device_pointer for each in again)


def test_axes_in_any_order_go_both_ways_and_gaps_do_not():
    array = cuda.to_device(np.arange(64.0).reshape(8, 8))
    theirs = jnp.from_dlpack(array.T)
    assert address(theirs) == array.device_pointer
    assert np.array_equal(theirs, array.copy_to_host().T)
    for gaps in (array[::2], array[::-1]):
        with pytest.raises(Exception, match="trivial"):
            jnp.from_dlpack(gaps)
    # JAX aligns its memory to 64 bytes, and copies what is not.
    assert address(jnp.from_dlpack(array[0, 1:])) != array[0, 1:].device_pointer


def test_without_elements_and_without_axes():
    assert cuda.from_dlpack(jnp.zeros((0, 3))).shape == (0, 3)
    assert jnp.from_dlpack(cuda.device_array((2, 0))).shape == (2, 0)
    assert cuda.from_dlpack(jnp.float32(3))[()] == 3


def test_a_kernel_reads_arrays_of_jax_where_they_are_and_cannot_write_to_them():
    theirs, out = jnp.arange(8.0), np.zeros(8)
    double_into[1, 8](theirs, out)
    assert out.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    for read_only in (theirs, cuda.from_dlpack(theirs)):
        with pytest.raises(CompileError, match="readonly array"):
            add_one[1, 8](read_only)
    copied = cuda.from_dlpack(theirs, copy=True)
    add_one[1, 8](copied)
    assert copied.copy_to_host().tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert theirs.tolist() == list(range(8))


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn"])
def test_types_of_ml_dtypes_are_copied_and_are_no_types_of_kernels(name):
    theirs = jnp.ones(3, getattr(jnp, name))
    array = cuda.to_device(theirs)
    assert (array.dtype.name, array.copy_to_host().tolist()) == (name, [1, 1, 1])
    assert np.asarray(haulage.SmartArray(theirs)).dtype.name == name
    assert np.array_equal(jnp.asarray(array), theirs)
    with pytest.raises(BufferError, match="has no NumPy dtype"):
        cuda.from_dlpack(theirs)
    with pytest.raises(BufferError, match=f"DLPack has no dtype {name}"):
        jnp.from_dlpack(array)
    with pytest.raises((LaunchError, TypeError), match=f"{name}"):
        double_into[1, 3](array, np.zeros(3))


def test_smart_arrays_and_arrays_of_jax():
    smart = haulage.SmartArray(jnp.arange(3.0))
    add_one[1, 3](smart)
    assert smart.tolist() == [1, 2, 3]
    assert jnp.from_dlpack(smart).tolist() == jnp.asarray(smart).tolist() == [1, 2, 3]
    assert (smart + jnp.ones(3)).tolist() == (jnp.ones(3) + smart).tolist() == [2, 3, 4]


def test_a_deleted_array_says_so():
    theirs = jnp.arange(8.0)
    theirs.delete()
    for use in (cuda.to_device, cuda.from_dlpack, add_one[1, 8]):
        with pytest.raises(ValueError, match="was deleted or donated"):
            use(theirs)


def test_what_jax_traces_is_refused_with_what_to_do():
    out = np.zeros(3)
    for use in (cuda.to_device, cuda.from_dlpack, lambda x: double_into[1, 3](x, out)):
        with pytest.raises((TypeError, LaunchError), match=r"JAX traces.*jax\.pure_callback"):
            jax.jit(use)(jnp.ones(3))


# ---- in compiled functions ----------------------------------------------------------------------


def doubled_on_the_host(x):
    x = np.ascontiguousarray(x)
    y = np.empty_like(x)
    double_into[(x.size + 31) // 32, 32](x.reshape(-1), y.reshape(-1))
    return y


def doubled(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(doubled_on_the_host, shape, x, vmap_method="expand_dims")


def test_a_kernel_in_a_compiled_function_by_a_callback():
    compiled = jax.jit(lambda x: doubled(x) + 1)
    x = jnp.arange(100.0)
    for _ in range(3):
        assert np.array_equal(compiled(x), 2 * np.arange(100.0) + 1)


def test_such_a_function_is_mapped():
    x = jnp.arange(12.0).reshape(3, 4)
    assert np.array_equal(jax.jit(jax.vmap(doubled))(x), 2 * np.asarray(x))


@pytest.fixture(scope="module")
def ffi():
    spec = importlib.util.spec_from_file_location("jax_ffi", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "complex64"])
def test_a_kernel_in_a_compiled_function_by_xlas_interface(ffi, dtype):
    compiled = jax.jit(lambda x: ffi.squared(x) + 1)
    x = jnp.arange(1000).astype(dtype)
    for _ in range(3):
        assert np.array_equal(compiled(x), np.asarray(x) ** 2 + 1)
    assert compiled(x[:0]).shape == (0,)


def test_it_is_mapped_too(ffi):
    x = jnp.arange(12.0).reshape(3, 4)
    assert np.array_equal(jax.jit(jax.vmap(ffi.squared))(x), np.asarray(x) ** 2)


def test_it_gets_the_memory_of_xla_itself(ffi):
    seen = []

    def launch(inputs, outputs):
        seen.extend((inputs[0].ctypes.data, inputs[0].flags.writeable))
        outputs[0][...] = inputs[0]

    ffi.register("haulage_seen", launch)
    x = jnp.arange(64.0)
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    given = jax.jit(lambda x: jax.ffi.ffi_call("haulage_seen", shape)(x))(x)
    assert np.array_equal(given, x)
    assert seen == [address(x), False]


def test_what_it_raises_is_raised(ffi):
    def launch(inputs, outputs):
        raise ValueError("on purpose")

    ffi.register("haulage_fails", launch)
    shape = jax.ShapeDtypeStruct((3,), np.float64)
    with pytest.raises(Exception, match="ValueError: on purpose"):
        jax.jit(lambda x: jax.ffi.ffi_call("haulage_fails", shape)(x))(
            jnp.ones(3)
        ).block_until_ready()
