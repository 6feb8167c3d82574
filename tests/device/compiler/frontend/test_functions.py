"""What kernels call and capture: functions of every making, their results, and where names lead."""

import types

import numba
import numpy as np
import pytest
from numba.extending import intrinsic, overload, register_jitable

from haulage import cuda, roc
from haulage.errors import CompileError, KernelError

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


@numba.njit
def twice(x):
    return 2 * x


def more(x, by=3):
    return x + by


@register_jitable
def hundred_more(x):
    return x + 100


@cuda.jit
def nested(x):
    return x + 1, (x * 2, x * 3)


@cuda.jit
def seven(x):
    x[0] = 7


@cuda.jit
def tail(x):
    return x[1:]


@cuda.jit
def tail_or_all(x, all_of_it):
    part = x[0:] if all_of_it else x[1:].reshape(-1)
    return part, x.size


def outcome(kernel, *args, size=4):
    out = np.zeros(size)
    kernel[1, 1](out, *args)
    return out.tolist()


def test_functions_of_every_making(way):
    @cuda.jit
    def kernel(out):
        first, (second, third) = nested(1.0)
        out[0] = twice(2.0) + more(1.0)
        out[1] = hundred_more(1)
        out[2] = first + second + third
        if seven(out) is None:
            out[3] = more(1.0, by=1)

    assert outcome(kernel) == [7, 101, 7, 2]


@pytest.mark.parametrize("words", [cuda, roc])
def test_functions_return_views_of_arrays_that_are_given_or_shared(words, way):
    @words.jit(device=True)
    def room():
        return words.shared.array(4, np.float64)

    @words.jit
    def kernel(out):
        part = tail(out)
        part[0] = 5
        part, size = tail_or_all(out, False)
        part[1] = size
        part, size = tail_or_all(out, True)
        part[0] = 3
        shared = room()
        shared[1] = 8
        out[3] = shared[1]

    assert outcome(kernel) == [3, 5, 4, 8]


@cuda.jit(device=True)
def own_array():
    room = cuda.local.array(3, np.float64)
    room[0] = 1
    return room


@cuda.jit(device=True)
def view_of_own_array():
    return cuda.local.array(3, np.float64)[1:]


@cuda.jit(device=True)
def tuple_with_own_array(x):
    return x, cuda.local.array(3, np.float64)


@pytest.mark.parametrize("function", [own_array, view_of_own_array, tuple_with_own_array])
def test_arrays_of_the_thread_end_with_their_function(function):
    @cuda.jit
    def kernel(out):
        if function is tuple_with_own_array:
            out[0] = function(out)[1][0]
        else:
            out[0] = function()[0]

    with pytest.raises(CompileError, match="ends with it; let its caller give it an array"):
        outcome(kernel)


def sized(x):
    raise NotImplementedError


@overload(sized)
def _any_target(x):
    if isinstance(x, numba.types.Integer):
        return lambda x: x + 1000
    return lambda x: x + 2000


def for_cuda(x):
    raise NotImplementedError


@overload(for_cuda, target="cuda")
def _cuda_only(x):
    return lambda x: x + 1


@intrinsic(target="cuda")
def doubled(context, x):
    return x(x), lambda context, builder, sig, args: builder.add(args[0], args[0])


@pytest.mark.parametrize("words", [cuda, roc])
def test_overloads_and_intrinsics_of_users(words, way):
    @words.jit
    def kernel(out):
        out[0] = sized(1)
        out[1] = sized(1.0)
        out[2] = for_cuda(1)
        out[3] = doubled(21)

    assert outcome(kernel) == [1001, 2001, 2, 42]


@cuda.jit
def is_even(n):
    return True if n == 0 else is_odd(n - 1)


@cuda.jit
def is_odd(n):
    return False if n == 0 else is_even(n - 1)


def test_functions_that_call_one_another(way):
    @cuda.jit
    def kernel(out, n):
        out[0] = is_even(n)
        out[1] = is_odd(n)

    assert outcome(kernel, 10) == [1, 0, 0, 0]


def test_functions_in_tuples_and_as_arguments(way):
    functions = (twice, more, nested)

    @cuda.jit(device=True)
    def apply(function, x):
        return function(x)

    @cuda.jit
    def kernel(out):
        out[0] = functions[0](1.0)
        out[1] = functions[1](1.0)
        out[2] = functions[2](1.0)[1][1]
        out[3] = apply(twice, 5.0)

    assert outcome(kernel) == [2, 4, 3, 10]


module = types.ModuleType("module")
module.cuda, module.constant, module.more = cuda, 3, more


class Settings:
    cuda = cuda
    size = 4
    more = staticmethod(more)


def test_names_lead_through_modules_classes_and_aliases(way):
    grid, index, atomic = cuda.grid, cuda.threadIdx, cuda.atomic

    @cuda.jit
    def kernel(out):
        word = grid
        i = word(1)
        if i < Settings.size:
            out[i] = module.cuda.threadIdx.x + Settings.cuda.blockDim.x + module.constant
            atomic.add(out, 0, Settings.more(1.0) + module.more(index.x * 0))

    out = np.zeros(4)
    kernel[1, 4](out)
    assert out.tolist() == [7 + 4 * 7, 8, 9, 10]


def test_what_is_bound_in_one_branch_only(way):
    @cuda.jit
    def kernel(out, n):
        if n > 2:
            value, pair = 3.0, (1, 2)
            room = cuda.local.array(2, np.float64)
            room[0] = value
        if n > 2:
            out[0] = value + room[0]
            out[1] = pair[1]

    assert outcome(kernel, 3) == [6, 2, 0, 0]
    assert outcome(kernel, 1) == [0, 0, 0, 0]


def test_values_that_one_of_two_branches_gives():
    def one_more(value):
        return value + 1

    def kernel(x, c):
        x[0 if c > 1 else 1] = one_more(c)
        x[2] = one_more(c) if (m := one_more(c)) > 2 else m
        x[3] = (y := x[0] or 7) + y if c > 1 else 5
        x[4] = (c and (w := one_more(c)) + w) or 3
        x[5] = (z := c) + z if c > 1 else (z := 9)
        a = b = c
        x[6] = a + b + (a := 2) + a

    for c in (0, 1, 2):
        x, wanted = np.zeros(7), np.zeros(7)
        kernel(wanted, c)
        cuda.jit(kernel)[1, 1](x, c)
        assert x.tolist() == wanted.tolist()


def test_tuples_are_unrolled_by_the_modules_name_too():
    @cuda.jit
    def kernel(out, arrays):
        for array in numba.literal_unroll(arrays):
            out[0] += array[0]

    assert outcome(kernel, (np.array([2.5]), np.array([3], np.int32))) == [5.5, 0, 0, 0]


def test_values_that_are_assigned_where_they_are_used():
    def kernel(x):
        if (n := x.size) > 2:
            x[0] = n
        i = 0
        while (v := x[i]) > 0:
            i += 1
        x[1] = v + i
        x[2] = (n := x[0]) + (n := x[1]) * n
        if (p := x[0]) > 0 and (q := x[4]) > 0:
            x[3] = p + q
        for k in range(size := x.size):
            x[4] += (last := k) * size + last

    for second in (0.0, 5.0):
        x = np.array([1.0, second, 0, 0, 2])
        wanted = x.copy()
        kernel(wanted)
        cuda.jit(kernel)[1, 1](x)
        assert x.tolist() == wanted.tolist()


def test_inner_functions_lambdas_and_star_arguments(way):
    def total(*parts):
        return parts[0] + parts[1] + len(parts)

    @cuda.jit
    def kernel(out, z):
        def inner(x):
            return x + z

        triple = lambda x: x * 3  # noqa: E731
        out[0] = inner(1.0)
        out[1] = triple(2.0)
        both = (1, 2.5)
        out[2] = total(*both)

    assert outcome(kernel, 4) == [5, 6, 5.5, 0]


def test_reshapes_and_transposes_of_arrays(way):
    @cuda.jit
    def kernel(out, x, columns, row):
        out[0] = x.reshape(6)[3] + x.reshape((3, 2))[1, 0] + x.reshape(3, -1)[2, 1]
        out[1] = x.ravel()[4] + x.transpose()[2, 1] + np.transpose(x)[1, 0]
        x.reshape((1, 6))[0, 5] = 7
        out[2] = x[1, 2]
        out[3] = row.reshape((2, 1, 3))[1, 0, 2] + columns.T.reshape(6)[1]

    x = np.arange(6.0).reshape(2, 3)
    columns = np.asfortranarray(x.T)
    assert outcome(kernel, x, columns, np.arange(6)) == [3 + 2 + 5, 4 + 5 + 1, 7, 5 + 1]


@pytest.mark.parametrize("shape", [(7,), (3, 3), (6,)])
def test_a_reshape_that_needs_a_copy_or_other_elements_is_a_fault(shape, way):
    @cuda.jit
    def kernel(out, x):
        out[0] = x.reshape(shape).size

    out, x = np.zeros(1), np.asfortranarray(np.arange(6.0).reshape(2, 3))
    with pytest.raises(KernelError, match=r"total size|incompatible shape"):
        kernel[1, 1](out, x)


@numba.njit("int64(int64, int64)")
def of_one_signature(a, b):
    return a * 10 + b


def test_functions_that_numba_compiled_for_one_signature_are_compiled_anew(way):
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        out[i] = of_one_signature(i, 0.5)

    out = np.zeros(4)
    kernel[1, 4](out)
    assert out.tolist() == [0.5, 10.5, 20.5, 30.5]
