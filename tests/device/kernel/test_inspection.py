"""What a kernel tells of itself: overloads, figures, texts; kernels specialised by hand."""

import io

import numpy as np
import pytest
from numba import float32, float64, int64, types, void

import haulage
from haulage import cuda, roc
from haulage.errors import LaunchError

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


def add(x, n):
    room = cuda.shared.array(10, np.float64)
    own = cuda.local.array(4, np.float64)
    t = cuda.threadIdx.x
    for k in range(4):
        own[k] = n + k
    if t < 10:
        room[t] = own[t % 4]
    cuda.syncthreads()
    x[t] += room[t % 10] + own[n % 4]


FLOATS, DOUBLES = (float32[::1], int64), (float64[::1], int64)


@pytest.fixture(params=[cuda, roc], ids=["cuda", "roc"])
def kernel(request):
    made = request.param.jit(add)
    made[1, 32](cuda.to_device(np.zeros(32, np.float32)), 1)
    made[1, 64](cuda.to_device(np.zeros(64)), 1)
    return made


def test_overloads_and_signatures_are_tuples_of_numba_types(kernel):
    assert kernel.signatures == [FLOATS, DOUBLES]
    assert list(kernel.overloads) == [FLOATS, DOUBLES]
    assert kernel.overloads[DOUBLES].argument_types == DOUBLES


def test_compile_returns_the_overload(kernel):
    made = kernel.compile((float32[:], int64))
    assert kernel.overloads[float32[:], int64] is made
    assert kernel.compile("void(float32[:], int64)") is made


def test_texts_by_signature(kernel, way):
    for texts in (kernel.inspect_llvm(), kernel.inspect_asm()):
        assert list(texts) == [FLOATS, DOUBLES]
    assert "define" in kernel.inspect_llvm()[FLOATS]
    assert kernel.inspect_llvm(FLOATS) == kernel.inspect_llvm()[FLOATS]
    assert kernel.inspect_llvm(void(*DOUBLES)) == kernel.inspect_llvm(DOUBLES)
    assert kernel.inspect_llvm("void(float64[::1], int64)") != kernel.inspect_llvm(FLOATS)
    assert "haulage_entry" in kernel.inspect_asm(FLOATS)
    assert kernel.inspect_asm(FLOATS) == kernel.overloads[FLOATS].code.asm


def test_assembly_before_the_first_launch(way):
    kernel = cuda.jit(void(*FLOATS))(add)
    assert "haulage_entry" in kernel.inspect_asm(FLOATS)


def test_types_are_printed_with_the_source(kernel, capsys):
    kernel.inspect_types()
    told = capsys.readouterr().out
    assert "room[t] = own[t % 4]" in told
    assert str(FLOATS) in told
    assert str(DOUBLES) in told
    file = io.StringIO()
    kernel.inspect_types(file=file)
    assert file.getvalue() == told


def test_figures(kernel, device, way):
    threads = device.properties.max_threads_per_block
    for question, answer in (
        (kernel.get_shared_mem_per_block, 80),
        (kernel.get_max_threads_per_block, threads),
    ):
        assert question() == {FLOATS: answer, DOUBLES: answer}
        assert question(FLOATS) == answer
        assert question(void(*DOUBLES)) == answer
    assert kernel.get_local_mem_per_thread(FLOATS) >= 32
    assert kernel.get_const_mem_size() == {FLOATS: 0, DOUBLES: 0}
    registers = kernel.get_regs_per_thread()
    assert list(registers) == [FLOATS, DOUBLES]
    # A core has 16 registers for numbers and addresses and 32 for vectors, or 32 of each.
    assert all(4 <= count <= 64 for count in registers.values())


def test_arrays_of_constants_count():
    table = np.arange(32.0)

    @cuda.jit("void(float64[::1])")
    def kernel(out):
        out[cuda.grid(1)] = cuda.const.array_like(table)[cuda.grid(1)]

    assert kernel.get_const_mem_size() == table.nbytes


def test_unknown_signatures_are_refused(kernel):
    for question in (kernel.get_shared_mem_per_block, kernel.inspect_llvm, kernel.inspect_asm):
        with pytest.raises(
            LaunchError, match=r"add is not compiled for \(int64,\); it is for .*float32"
        ):
            question((int64,))
    with pytest.raises(LaunchError, match="nothing yet"):
        cuda.jit(add).inspect_llvm((int64,))


def test_specialize_takes_these_arguments_and_no_others(kernel):
    x, y = cuda.to_device(np.zeros(16, np.float32)), cuda.to_device(np.zeros(16, np.int16))
    assert not kernel.specialized
    special = kernel.specialize(x, 2)
    assert special.specialized
    assert special.signatures == [FLOATS]
    assert kernel.specialize(x, 3) is special
    assert kernel.specialize(np.zeros(3, np.int16), 1) is not special
    special[1, 16](x, 2)
    assert x[0] != 0
    assert special.get_shared_mem_per_block() == 80
    with pytest.raises(LaunchError, match="only"):
        special[1, 16](y, 2)
    with pytest.raises(RuntimeError, match=r"add: Dispatcher already specialized"):
        special.specialize(x, 2)
    with pytest.raises(LaunchError, match="missing 'n'"):
        kernel.specialize(x)


def test_specialize_takes_types_too(kernel):
    assert kernel.specializations == {}
    special = kernel.specialize(*FLOATS)
    assert kernel.specialize(np.zeros(3, np.float32), int64) is special
    assert kernel.specialize(float32[:], 1).signatures == [(float32[:], int64)]
    assert special in kernel.specializations.values()
    assert len(kernel.specializations) == 2
    assert next(iter(kernel.specializations))[1] == FLOATS


def test_kernels_made_with_one_signature_are_specialized():
    one = cuda.jit(void(*FLOATS))(add)
    two = cuda.jit([void(*FLOATS), void(*DOUBLES)])(add)
    assert (one.specialized, two.specialized) == (True, False)
    assert one.get_shared_mem_per_block() == 80
    assert two.get_shared_mem_per_block() == {FLOATS: 80, DOUBLES: 80}


@pytest.mark.parametrize("hint", [cuda.In, cuda.Out, cuda.InOut])
def test_specialize_leaves_its_arguments_alone(hint):
    host = np.arange(32.0)
    special = cuda.jit(add).specialize(hint(host), 1)
    np.testing.assert_array_equal(host, np.arange(32.0))
    special[1, 32](cuda.InOut(host), 1)
    assert (host != np.arange(32.0)).all()


def test_specialize_for_a_smart_array():
    smart = haulage.SmartArray(np.zeros(32, np.float32))
    special = cuda.jit(add).specialize(smart, 1)
    assert special.signatures == [FLOATS]


def test_what_numba_s_kernels_are_asked_for_privately():
    @cuda.jit("void(float64[::1], int32)")
    def kernel(x, n):
        total = 2.5 * n
        x[0] = total

    signature = (types.float64[::1], types.int32)
    overload = kernel.overloads[signature]
    assert overload.signature == types.none(*signature)
    assert overload._type_annotation.typemap["total"] == types.float64
    assert "total" in str(overload.type_annotation)
    assert overload.entry_name in overload.inspect_llvm()
    assert overload.library.get_llvm_str() == overload.inspect_llvm()
    assert overload.library.get_asm_str() == overload.inspect_asm()
    assert ".target sm_90\n" in overload.library.get_asm_str((9, 0))
    assert not overload._codelibrary._linking_files


@pytest.mark.parametrize(("count", "nbytes"), [(1000, 4000), (100, 0)])
def test_small_local_arrays_of_known_places_take_no_memory_and_large_ones_theirs(count, nbytes):
    def through(x, y):
        own = cuda.local.array(count, np.int32)
        for i in range(own.shape[0]):
            own[i] = x[i]
        for i in range(own.shape[0]):
            y[i] = own[i]

    kernel = cuda.jit("void(int32[::1], int32[::1])")(through)
    x, y = np.arange(count, dtype=np.int32), np.zeros(count, np.int32)
    kernel[1, 1](x, y)
    np.testing.assert_array_equal(y, x)
    assert kernel.get_local_mem_per_thread() == nbytes
