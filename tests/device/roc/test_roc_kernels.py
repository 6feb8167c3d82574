"""Kernels of roc: where a work-item is, what kernels take and call, how they are configured and
what can be asked of them."""

import copy
import pickle

import numba
import numpy as np
import pytest

from haulage import roc
from haulage.errors import CompileError, DeviceError, LaunchError
from haulage.roc import compiler
from haulage.roc.hsadrv.error import HsaDriverError, HsaKernelLaunchError

pytestmark = pytest.mark.usefixtures("device")


@roc.jit
def assigned(out, value):
    i = roc.get_global_id(0)
    if i < out.size:
        out[i] = value[i]


# ---- where a work-item is -----------------------------------------------------------------------


@roc.jit
def positions(out):
    group, item = roc.get_group_id(0), roc.get_local_id(0)
    out[group, item, 0] = roc.get_global_id(0)
    out[group, item, 1] = item
    out[group, item, 2] = group
    out[group, item, 3] = roc.get_global_size(0)
    out[group, item, 4] = roc.get_local_size(0)
    out[group, item, 5] = roc.get_num_groups(0)
    out[group, item, 6] = roc.get_work_dim()


@pytest.fixture
def positioned():
    """What `positions` says of 4 groups of 6 work-items, in an array with something around it."""
    around = np.full((6, 6, 7), -1)
    positions[4, 6](around[1:-1])
    assert (around[[0, -1]] == -1).all()
    return around[1:-1]


def test_global_ids_count_through_the_groups(positioned):
    np.testing.assert_array_equal(positioned[..., 0], np.arange(24).reshape(4, 6))


def test_local_ids_begin_anew_in_each_group(positioned):
    np.testing.assert_array_equal(positioned[..., 1], np.tile(np.arange(6), (4, 1)))


def test_group_ids_are_the_same_in_a_group(positioned):
    np.testing.assert_array_equal(positioned[..., 2], np.repeat(np.arange(4), 6).reshape(4, 6))


def test_sizes_are_the_same_for_all(positioned):
    np.testing.assert_array_equal(positioned[..., 3:], np.tile([24, 6, 4, 1], (4, 6, 1)))


@roc.jit
def dimensions(out):
    out[roc.get_global_id(0), roc.get_global_id(1)] = roc.get_work_dim()


def test_the_dimensions_are_those_that_the_range_has():
    out = np.zeros((4, 6), np.int32)
    dimensions[(2, 3), (2, 2)](out)
    assert (out == 2).all()
    dimensions[4, 1](out)
    assert (out[:, 0] == 1).all()


# ---- arrays and numbers -------------------------------------------------------------------------


def test_one_work_item_writes_a_constant_of_the_program():
    number = 4711

    @roc.jit
    def constant(out):
        out[0] = number

    out = np.zeros(2, np.intp)
    constant[1, 1](out)
    assert out.tolist() == [number, 0]


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)])
def test_one_work_item_goes_through_an_array_of_many_axes(shape):
    @roc.jit
    def numbered(out):
        for number, place in enumerate(np.ndindex(out.shape)):
            out[place] = number

    out = np.zeros(shape, np.intp)
    numbered[1, 1](out)
    np.testing.assert_array_equal(out.ravel(), np.arange(out.size))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("float64", 2 / 3),
        ("float32", 2 / 3),
        ("int32", -77),
        ("int16", -77),
        ("complex64", 1.5 - 2.5j),
        ("complex128", 2 / 3 - 1j / 3),
    ],
)
def test_numbers_of_these_types_are_arguments(kind, value):
    def filled(out, value):
        out[roc.get_global_id(0)] = value

    number = np.dtype(kind).type(value)
    array = getattr(numba, kind)[::1]
    out = np.zeros(3, kind)
    compiler.compile_kernel(filled, [array, array.dtype])[3, 1](out, number)
    assert out.tolist() == [number] * 3


# ---- functions ----------------------------------------------------------------------------------


def test_a_kernel_may_be_empty_and_have_no_arguments():
    @roc.jit
    def empty():
        pass

    empty[1, 1]()
    empty[3, 64]()


def test_functions_without_arguments_and_results_call_one_another():
    @roc.jit(device=True)
    def lowest():
        pass

    @roc.jit(device=True)
    def middle():
        lowest()

    @roc.jit(device=True)
    def highest():
        middle()
        lowest()

    @roc.jit
    def calling(number, out):
        highest()
        out[0] = number

    out = np.zeros(1)
    calling[1, 1](5, out)
    assert out[0] == 5


def test_a_function_is_compiled_for_what_kernels_call_it_with():
    @roc.jit(device=True)
    def difference(a, b):
        return a - b

    @roc.jit
    def differences(a, b):
        i = roc.get_global_id(0)
        if i < a.size:
            a[i] = difference(a[i], b[i])

    for dtype in (np.int64, np.float32):
        a = np.arange(20, dtype=dtype)
        differences.forall(a.size)(a, np.full(20, 3, dtype))
        np.testing.assert_array_equal(a, np.arange(20, dtype=dtype) - 3)


def test_a_function_with_a_signature_converts_its_result():
    @roc.jit("float32(float64[:], intp)", device=True)
    def element(values, i):
        return values[i]

    @roc.jit("(float64[:], float64[:])")
    def rounded(out, values):
        i = roc.get_global_id(0)
        out[i] = element(values, i)

    values = np.random.default_rng(0).random(8)
    out = np.zeros(8)
    rounded[8, 1](out, values)
    np.testing.assert_array_equal(out, values.astype(np.float32))


def test_a_function_compiled_for_types_that_are_named():
    def element(values, i):
        return values[i]

    array = numba.int32[::1]
    chosen = compiler.compile_device(element, array.dtype, [array, numba.intp])
    anything = compiler.compile_device_template(element)

    def both(out, values):
        i = roc.get_global_id(0)
        out[i] = chosen(values, i) + anything(values, i)

    out = np.zeros(10, np.int32)
    compiler.compile_kernel(both, [array, array])[10, 1](out, np.arange(10, dtype=np.int32))
    np.testing.assert_array_equal(out, 2 * np.arange(10))


# ---- signatures ---------------------------------------------------------------------------------


def test_a_kernel_without_a_signature_takes_arrays_of_all_types():
    for dtype in (np.uint32, np.float32, np.int8):
        values, out = np.arange(10, dtype=dtype), np.zeros(10, dtype)
        assigned[10, 1](out, values)
        np.testing.assert_array_equal(out, values)


@pytest.mark.parametrize("signature", ["(uint32[:], uint32[:])", "void(uint32[::1], uint32[:])"])
def test_a_kernel_with_a_signature_takes_its_types_only(signature):
    of_ints = roc.jit(signature)(assigned.py_func)
    values, out = np.arange(10, dtype=np.uint32), np.zeros(10, np.uint32)
    of_ints[10, 1](out, values)
    np.testing.assert_array_equal(out, values)
    # Not what its bytes would be as integers.
    with pytest.raises(TypeError, match=r"array\(float32, 1d, C\).*compiled for these only"):
        of_ints[10, 1](out, values.astype(np.float32))


@pytest.mark.parametrize("signature", ["int32(int32[:])", numba.int32(numba.int32[:])])
def test_a_signature_with_a_result_is_refused_at_once(signature):
    with pytest.raises(TypeError, match="HSA kernel must have void return type but got int32"):
        roc.jit(signature)(lambda x: None)


def test_a_value_that_a_kernel_returns_is_refused():
    @roc.jit
    def first(x):
        return x[0]

    with pytest.raises(CompileError, match="must have void return type"):
        first[1, 1](np.zeros(1))


# ---- configurations -----------------------------------------------------------------------------


@roc.jit
def counted(out):
    roc.atomic.add(out, 0, 1)


def count_of(launch):
    out = np.zeros(1, np.int64)
    launch(out)
    return out[0]


def test_groups_are_counted_in_brackets_and_work_items_in_configure():
    assert count_of(counted[5, 8]) == 40
    assert count_of(counted[(2, 3), (4, 2)]) == 48
    assert count_of(counted[[2], [3]]) == 6
    assert count_of(counted[(2, 3), 4]) == 24
    assert count_of(counted.configure(40, 8)) == 40
    assert count_of(counted.configure(global_size=(8, 6), local_size=(4, 2))) == 48
    assert count_of(counted.configure((8, 6), 4)) == 48
    assert count_of(counted.configure(30)) == 30


def test_forall_covers_the_elements():
    values, out = np.arange(200), np.zeros(200, np.int64)
    assigned.forall(200)(out, values)
    np.testing.assert_array_equal(out, values)
    assert count_of(counted.forall(nelem=200, local_size=40, stream=None)) == 200
    # Fewer than a group are a group of their own.
    assert count_of(counted.forall(7)) == 7
    assert count_of(counted.forall(0)) == 0


def test_sizes_of_a_configured_kernel_are_in_work_items():
    stream = roc.stream()
    chosen = counted.configure((8, 6), (4, 2), stream)
    assert (chosen.global_size, chosen.local_size) == ((8, 6), (4, 2))
    assert chosen.stream is stream
    assert counted[5, 8].global_size == (40,)
    assert counted[1, 1].local_size == (1,)
    assert counted[(1, 1, 2), 8].local_size == (8, 1, 1)
    assert counted[5, 8].stream == 0
    assert counted.forall(0).global_size == (0,)


def test_a_configured_kernel_can_be_configured_anew_and_copied():
    chosen = counted[5, 8]
    assert count_of(chosen.copy()) == 40
    assert chosen.copy() is not chosen
    assert count_of(chosen[2, 3]) == 6
    assert count_of(chosen.configure(12, 4)) == 12
    assert count_of(chosen.forall(9)) == 9
    assert chosen.py_func is counted.py_func
    assert count_of(pickle.loads(pickle.dumps(chosen))) == 40
    assert copy.copy(chosen).global_size == (40,)
    with pytest.raises(AttributeError, match="no attribute 'localsize'"):
        _ = chosen.localsize


def test_a_copy_of_a_kernel_has_what_it_is_compiled_for():
    assert count_of(counted[1, 4]) == 4
    other = counted.copy()
    assert other is not counted
    assert other.signatures == counted.signatures
    assert count_of(other[2, 4]) == 8


def test_specialize_chooses_the_types_of_arguments():
    values = np.arange(6, dtype=np.float32)
    of_floats = assigned.specialize(values, values)
    out = np.zeros_like(values)
    of_floats.configure(6, 3)(out, values)
    np.testing.assert_array_equal(out, values)
    assert assigned[2, 3].specialize(values, values) is of_floats
    with pytest.raises(TypeError, match="compiled for these only"):
        of_floats[2, 3](out.astype(int), values.astype(int))


# ---- limits -------------------------------------------------------------------------------------


def test_groups_beyond_what_the_device_takes_say_to_reduce_them(device):
    most = device.properties.max_threads_per_block
    for size in (most + 1, 2**30):
        with pytest.raises(HsaKernelLaunchError, match="Try reducing group-size") as raised:
            counted[1, size](np.zeros(1, np.int64))
        told = str(raised.value)
        assert told.startswith("insufficient resources to launch kernel due to:\n* ")
        assert str(most) in told
        assert "counted" in told
        assert "CUDA" not in told
    assert isinstance(raised.value, (HsaDriverError, LaunchError, DeviceError))


def test_other_limits_of_launches_do_not_say_to_reduce_groups(device):
    room = device.properties.max_dynamic_shared + 1
    with pytest.raises(HsaKernelLaunchError, match=r"insufficient resources.*\n.*shared") as raised:
        counted.forall(4, sharedmem=room)(np.zeros(1, np.int64))
    assert "group-size" not in str(raised.value)


# ---- what can be asked of a compiled kernel -----------------------------------------------------


@pytest.mark.parametrize("layout", [slice(None), slice(None, None, 1)], ids=["any", "dense"])
def test_the_assembly_has_the_entry(device, layout):
    def first(out, values):
        out[0] = values[0]

    kernel = compiler.compile_kernel(first, [numba.float32[layout]] * 2)
    assert kernel.entry_name in kernel.assembly
    if device.kind in ("cpu", "amd"):
        assert f".globl\t{kernel.entry_name}" in kernel.assembly
        assert kernel.binary.startswith(b"\x7fELF")
    assert kernel.argument_types == (numba.float32[layout],) * 2
    assert kernel[1, 1].assembly == kernel.assembly


def test_a_kernel_compiled_for_types_that_are_named_runs():
    kernel = compiler.compile_kernel(assigned.py_func, [numba.float32[::1]] * 2)
    values = np.random.default_rng(1).random(512).astype(np.float32)
    out = np.zeros_like(values)
    kernel[4, 128](out, values)
    np.testing.assert_array_equal(out, values)


def test_the_code_of_a_kernel_for_several_signatures_is_asked_by_signature():
    kernel = roc.jit(assigned.py_func)
    with pytest.raises(AttributeError, match=r"compiled for 0; take kernel\.specialize"):
        _ = kernel.assembly
    assert not hasattr(kernel, "binary")
    for dtype in (np.float32, np.float64):
        kernel[1, 4](np.zeros(4, dtype), np.ones(4, dtype))
    with pytest.raises(AttributeError, match=r"'entry_name'.*compiled for 2"):
        _ = kernel.entry_name
    assert kernel.specialize(np.zeros(4), np.zeros(4)).assembly
