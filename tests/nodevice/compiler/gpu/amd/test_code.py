"""Code for AMD's GPUs: what instructions the words of the kernel language become."""

# mypy: allow-untyped-defs

import math
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numba import float32, uint8

import haulage
from doubles.amd_objects import (
    ARCHITECTURES,
    count,
    disassembler,
    instructions,
    needs_disassembler,
)
from haulage import cuda, roc
from haulage.compiler.gpu.amd import device_library
from haulage.cuda import cg
from haulage.errors import CompileError, Unsupported
from haulage.targets import amd_architectures
from haulage.targets.amd_metadata import kernels

FLOATS = "void(float32[::1])"
TWO = "void(float32[::1], float32[::1])"
INTS = "void(int32[::1])"

# One of each kind: wavefronts of 64 lanes and of 32, counters of all accesses and of some.
FEW = ("gfx90a", "gfx1100", "gfx1201")

pytestmark = needs_disassembler


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


@cuda.jit
def total(x, out):
    tile = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    if t == 0:
        for k in range(256):
            out[0] += tile[k]


@cuda.jit
def four(x, y):
    i = cuda.grid(1) * 4
    y[cuda.grid(1)] = x[i] + x[i + 1] * x[i + 2] - x[i + 3]


@pytest.mark.parametrize("architecture", amd_architectures.ARCHITECTURES)
def test_a_kernel_is_compiled_for_each_architecture(architecture: str) -> None:
    # By LLVM's text, since not every disassembler knows the newest ones.
    asm = haulage.compile(saxpy, "void(float32, float32[::1], float32[::1])", architecture).asm
    lines = [line.strip() for line in asm[: asm.index("s_endpgm") + 8].splitlines()]
    assert count(lines, "global_load_(dword|b32) ") == 2
    assert count(lines, "global_store_(dword|b32) ") == 1
    assert count(lines, "v_(fmac|fma|mac|mad)_f32") == 1
    assert count(lines, "flat_|scratch_|buffer_") == 0
    assert lines[-1] == "s_endpgm"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_shared_memory_is_the_compute_units_and_a_barrier_is_one(architecture: str) -> None:
    lines = instructions(total, TWO, architecture)
    assert count(lines, "ds_(write|store)_b32") == 1
    assert count(lines, "ds_(read|load)") > 1
    assert count(lines, "s_barrier($|_wait)") == 1
    barrier = next(i for i, line in enumerate(lines) if line.startswith("s_barrier"))
    # What was written before is there first.
    assert any(line.startswith(("s_waitcnt", "s_wait_dscnt")) for line in lines[:barrier])
    code = haulage.compile(total, TWO, architecture)
    assert code.metadata["shared_bytes"] == 1024
    assert code.metadata["local_bytes"] == 0


@pytest.mark.parametrize("architecture", FEW)
def test_neighbours_are_loaded_at_once(architecture: str) -> None:
    lines = instructions(four, TWO, architecture)
    assert count(lines, "global_load_(dwordx4|b128)") == 1
    assert count(lines, "global_load") == 1


@pytest.mark.parametrize("architecture", FEW)
def test_a_private_array_with_known_places_is_in_registers(architecture: str) -> None:
    @cuda.jit
    def turned(x, y):
        own = cuda.local.array(8, float32)
        i = cuda.grid(1)
        for k in range(8):
            own[k] = x[8 * i + k]
        result = float32(0)
        for k in range(8):
            result += own[k] * own[7 - k]
        y[i] = result

    assert count(instructions(turned, TWO, architecture), "scratch_|buffer_") == 0
    assert haulage.compile(turned, TWO, architecture).metadata["local_bytes"] == 0


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_functions_that_call_themselves_have_scratch_for_many_calls(architecture: str) -> None:
    @cuda.jit(device=True)
    def fibonacci(n):
        if n < 2:
            return n
        return fibonacci(n - 1) + fibonacci(n - 2)

    @cuda.jit
    def numbers(x):
        x[cuda.grid(1)] = fibonacci(x[cuda.grid(1)])

    code = haulage.compile(numbers, INTS, architecture)
    assert 4096 < code.metadata["local_bytes"] < 5000
    assert code.metadata["local_bytes"] == code.resources["local_bytes"]


@pytest.mark.parametrize("architecture", FEW)
@pytest.mark.parametrize("optimised", [True, False])
def test_what_tells_the_host_of_prints_calls_itself_not(architecture: str, optimised: bool) -> None:
    def told(x):
        print(x[0] // x[1])

    code = haulage.compile(told, INTS, architecture, debug=True, opt=optimised)
    assert 0 < code.metadata["local_bytes"] < 1000


@pytest.mark.parametrize("architecture", FEW)
def test_a_private_array_with_places_of_the_threads_is_in_scratch(architecture: str) -> None:
    @cuda.jit
    def looked_up(x, places):
        own = cuda.local.array(64, float32)
        for k in range(64):
            own[k] = x[k]
        for k in range(64):
            own[places[k] & 63] += own[places[k + 1] & 63]
        x[cuda.grid(1)] = own[places[cuda.grid(1)] & 63]

    lines = instructions(looked_up, "void(float32[::1], int32[::1])", architecture)
    assert count(lines, "(scratch|buffer)_(load|store)") > 0
    assert count(lines, "flat_") == 0
    code = haulage.compile(looked_up, "void(float32[::1], int32[::1])", architecture)
    assert code.metadata["local_bytes"] >= 256


@pytest.mark.parametrize("architecture", FEW)
def test_lanes_of_a_warp_exchange_values_without_memory(architecture: str) -> None:
    @cuda.jit
    def summed(x):
        value = x[cuda.grid(1)]
        for step in (16, 8, 4, 2, 1):
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        x[cuda.grid(1)] = value

    lines = instructions(summed, FLOATS, architecture)
    # `test_shuffles.py` looks at which lane each one reads.
    assert count(lines, "ds_bpermute_b32|ds_(read|write|load|store)") == 0
    assert count(lines, "v_mov_b32_dpp") > 5
    lanes = haulage.compile(summed, FLOATS, architecture).resources["lanes"]
    assert lanes == (64 if amd_architectures.version(architecture) < (10, 0, 0) else 32)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_of_roc_have_wavefronts_of_64(architecture: str) -> None:
    @roc.jit
    def permuted(x):
        roc.wavebarrier()
        x[roc.get_global_id(0)] = roc.ds_bpermute(roc.get_local_id(0) ^ 5, x[roc.get_global_id(0)])

    code = haulage.compile(permuted, INTS, architecture)
    assert code.resources["lanes"] == 64
    lines = instructions(permuted, INTS, architecture)
    # What these become is in `test_shuffles.py`; gfx10's reaches a half of the wavefront only.
    assert count(lines, "ds_bpermute_b32") == {"gfx1030": 0, "gfx1100": 2}.get(architecture, 1)


def test_the_barrier_of_a_wavefront_is_none_of_a_kernel_with_warps_of_32() -> None:
    def waits(x):
        roc.wavebarrier()
        x[0] = 1

    with pytest.raises(CompileError, match="wavefronts of 64 work-items, and gfx1030 has warps of"):
        haulage.compile(waits, INTS, "gfx1030")
    assert haulage.compile(waits, INTS, "gfx90a").code


def test_votes_are_masks_of_lanes() -> None:
    @cuda.jit
    def voted(x):
        i = cuda.grid(1)
        x[i] = cuda.ballot_sync(0xFFFFFFFF, x[i] > 0)

    half = instructions(voted, INTS, "gfx90a")
    # A warp is a half of the wavefront, whose lanes stand in the upper half of the mask or not.
    assert count(half, "v_lshrrev_b64") == 1
    assert count(half, "v_mbcnt_hi") == 1
    whole = instructions(voted, INTS, "gfx1030")
    assert count(whole, "v_lshrrev_b64|v_mbcnt") == 0


def test_atomic_changes_are_the_devices() -> None:
    @cuda.jit
    def counted(x, y):
        cuda.atomic.add(x, y[cuda.grid(1)] & 7, 1)

    lines = instructions(counted, "void(int32[::1], int32[::1])", "gfx942")
    assert [line.split()[0] for line in lines if "atomic" in line] == ["global_atomic_add"]


def test_sums_of_floats_are_right_in_any_memory() -> None:
    @cuda.jit
    def added(x, y):
        cuda.atomic.add(x, cuda.grid(1) & 7, y[cuda.grid(1)])

    # The instruction of these loses sums in memory of the host.
    for architecture in ("gfx90a", "gfx1030"):
        lines = instructions(added, TWO, architecture)
        assert count(lines, "global_atomic_cmpswap") == 1
        assert count(lines, "global_atomic_add_f32") == 0
    assert count(instructions(added, TWO, "gfx942"), "global_atomic_add_f32") == 1


def test_a_sum_of_floats_in_shared_memory_is_one_instruction() -> None:
    @cuda.jit
    def added(x):
        tile = cuda.shared.array(32, float32)
        tile[cuda.threadIdx.x] = 0
        cuda.syncthreads()
        cuda.atomic.add(tile, int(x[cuda.threadIdx.x]) & 31, x[cuda.grid(1)])
        cuda.syncthreads()
        x[cuda.grid(1)] = tile[cuda.threadIdx.x]

    for architecture in ARCHITECTURES:
        assert count(instructions(added, FLOATS, architecture), "ds_add_f32") == 1, architecture


def test_fences_are_of_their_scopes() -> None:
    def made(fence):
        @cuda.jit
        def handed(x):
            x[1] = x[0]
            fence()
            x[2] = 1

        return instructions(handed, INTS, "gfx942")

    block, device, system = map(
        made, (cuda.threadfence_block, cuda.threadfence, cuda.threadfence_system)
    )
    assert count(block, "buffer_wbl2|buffer_inv") == 0
    assert "buffer_wbl2 sc1" in device
    assert "buffer_wbl2 sc0 sc1" in system


def test_the_grids_barrier_waits_for_all_blocks() -> None:
    @cuda.jit
    def handed(x):
        x[0] = 1
        cuda.cg.this_grid().sync()
        x[1] = x[0] + 2

    for architecture in FEW:
        lines = instructions(handed, INTS, architecture)
        assert count(lines, "s_barrier($|_wait)") == 3
        assert count(lines, "global_atomic_add") == 1
        # Who waits leaves the compute unit to the others.
        assert count(lines, "s_sleep") == 1
        assert haulage.compile(handed, INTS, architecture).metadata["cooperative"]


def test_dynamic_shared_memory_is_the_launchs() -> None:
    @cuda.jit
    def swapped(x):
        room = cuda.shared.array(0, float32)
        room[cuda.threadIdx.x] = x[cuda.threadIdx.x]
        cuda.syncthreads()
        x[cuda.threadIdx.x] = room[cuda.threadIdx.x ^ 1] + room.size

    code = haulage.compile(swapped, FLOATS, "gfx90a")
    assert code.metadata["uses_dynamic_shared"]
    assert code.metadata["shared_bytes"] == 0
    # The runtimes of ROCm 5 do not know this argument, and would take it for the launch's.
    assert b"hidden_dynamic_lds_size" not in code.code


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@needs_disassembler
def test_dynamic_shared_memory_is_what_the_launch_has_beside_the_kernels_own(architecture):
    @cuda.jit
    def both(x):
        own = cuda.shared.array(101, uint8)
        room = cuda.shared.array(0, float32)
        own[cuda.threadIdx.x] = cuda.blockDim.x
        cuda.syncthreads()
        room[cuda.threadIdx.x] = own[100]
        cuda.syncthreads()
        x[0] = room[1] + room.size

    lines = instructions(both, FLOATS, architecture)
    # From the packet of the launch; what the kernel has takes 128 bytes, as 64 are the alignment.
    assert count(lines, r"s_load_(dword|b32)\b.*, 0x1c$") == 1
    assert count(lines, r"s_sub_(co_)?i32 .*, 0x80$") == 1
    code = haulage.compile(both, FLOATS, architecture)
    assert code.metadata["shared_bytes"] == 128
    assert b"hidden_block_count_x" in code.code
    assert b"hidden_dynamic_lds_size" not in code.code


def test_captured_arrays_are_constants_of_the_code() -> None:
    table = np.arange(4, dtype=np.float32)

    @cuda.jit
    def looked_up(x):
        i = cuda.grid(1)
        x[i] = table[i & 3] + cuda.const.array_like(table)[0]

    lines = instructions(looked_up, FLOATS, "gfx90a")
    assert count(lines, "s_getpc_b64") > 0
    assert count(lines, "flat_") == 0


@pytest.mark.parametrize("architecture", FEW)
def test_a_kernel_tells_of_faults_and_prints_by_the_channel(architecture: str) -> None:
    @cuda.jit
    def speaks(x):
        if x[0] > 1:
            raise ValueError("too large")
        print("a number", x[0])

    code = haulage.compile(speaks, INTS, architecture)
    for name in (b"haulage_channel\0", b"haulage_module\0"):
        assert name in code.code
    # Memory of the host: the largest of the faults is found by what all buses have.
    lines = instructions(speaks, INTS, architecture)
    assert count(lines, "(global|flat)_atomic_u?max") == 0
    assert count(lines, "global_atomic_cmpswap") >= 2


def test_options_are_honoured() -> None:
    signature = "void(float32, float32[::1], float32[::1])"
    bounded = haulage.compile(saxpy, signature, "gfx90a", launch_bounds=256)
    assert '"amdgpu-flat-work-group-size"="1,256"' in bounded.llvm
    assert (
        '"amdgpu-waves-per-eu"="2'
        in haulage.compile(saxpy, signature, "gfx90a", launch_bounds=(256, 2)).llvm
    )
    few = haulage.compile(four, TWO, "gfx1030", max_registers=8)
    assert few.resources["registers"] <= 8
    for architecture, most in (("gfx906", 64), ("gfx90a", 32), ("gfx90c", 64), ("gfx942", 32)):
        asked = haulage.compile(saxpy, signature, architecture, max_registers=64).llvm
        assert f'"amdgpu-num-vgpr"="{most}"' in asked
    lines = haulage.compile(saxpy, signature, "gfx90a", lineinfo=True)
    assert b".debug_line" in lines.code
    plain = haulage.compile(saxpy, signature, "gfx90a")
    assert b".debug_line" not in plain.code


@pytest.mark.parametrize("architecture", FEW)
def test_tools_find_the_lines_of_instructions(architecture: str, tmp_path: Path) -> None:
    @cuda.jit(lineinfo=True)
    def lined(x):
        i = cuda.grid(1)
        x[i] = x[i] / x[i + 1]

    file = tmp_path / "kernel.hsaco"
    file.write_bytes(haulage.compile(lined, FLOATS, architecture).code)
    program = disassembler()
    assert program is not None
    told = subprocess.run([program, "-d", "-l", file], capture_output=True, text=True, check=True)
    first = lined.py_func.__code__.co_firstlineno
    for line in (first + 2, first + 3):
        assert f"; {__file__}:{line}\n" in told.stdout


def test_fastmath_takes_the_hardwares_functions() -> None:
    @cuda.jit(fastmath=True)
    def fast(x):
        i = cuda.grid(1)
        x[i] = math.sin(x[i]) + math.exp(x[i]) / x[i] + float32(x[i] ** float32(2.5))

    lines = instructions(fast, FLOATS, "gfx1100")
    assert count(lines, "v_sin_f32") == 1
    assert count(lines, "v_exp_f32") == 2
    assert count(lines, "v_log_f32") == 1
    assert len(lines) < 80
    assert (
        '"denormal-fp-math-f32"="preserve-sign,preserve-sign"'
        in haulage.compile(fast, FLOATS, "gfx1100").llvm
    )


def test_mathematics_without_the_device_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_library, "find", lambda: None)

    def known(x):
        x[0] = math.exp(x[0]) + math.atan2(x[1], x[2]) + math.pow(x[3], x[4])

    def unknown(x):
        x[0] = math.lgamma(x[0])

    assert haulage.compile(known, FLOATS, "gfx1030").metadata["local_bytes"] == 0
    with pytest.raises(CompileError, match=r"lgamma: .*rocm-device-libs.*HIP_DEVICE_LIB_PATH"):
        haulage.compile(unknown, FLOATS, "gfx1030")

    def approximated(x):
        x[0] = math.sin(x[0]) + math.cos(x[1]) + math.tan(x[2])

    assert "v_sin_f32" in haulage.compile(approximated, FLOATS, "gfx1030", fastmath=True).asm
    # Else those of `test_own_functions.py`.
    exact = haulage.compile(approximated, FLOATS, "gfx1030")
    assert "v_sin_f32" not in exact.asm
    assert "haulage.two.over.pi" in exact.llvm


def test_nanoseconds_are_counted_by_a_rate_that_the_back_end_writes() -> None:
    @cuda.jit
    def timed(x):
        start = cuda.globaltimer()
        cuda.nanosleep(1000)
        x[0] = cuda.globaltimer() - start
        x[1] = cuda.clock64()

    code = haulage.compile(timed, "void(int64[::1])", "gfx90a")
    assert b"haulage_clock_rate\0" in code.code
    assert (
        "@haulage_clock_rate = protected addrspace(1) externally_initialized"
        in code.stages["linked"]
    )
    lines = instructions(timed, "void(int64[::1])", "gfx90a")
    assert count(lines, "s_memrealtime") == 2
    assert count(lines, "s_memtime") == 1
    assert count(lines, "s_sleep") >= 1
    # gfx11 counts 20 bits of its cycles only.
    assert count(instructions(timed, "void(int64[::1])", "gfx1100"), "s_getreg") == 0


def test_code_says_what_it_takes() -> None:
    code = haulage.compile(saxpy, "void(float32, float32[::1], float32[::1])", "gfx942")
    assert 0 < code.resources["registers"] < 32
    assert code.resources["local_bytes"] == 0
    assert code.resources["lanes"] == 64
    assert "v_fmac_f32" in code.asm
    assert ".amdhsa_kernel saxpy" in code.asm


def test_arrays_that_no_gpu_has_room_for_are_refused() -> None:
    # LLVM's code generator would end the process.
    def kernels(count):
        def shared(x):
            room = cuda.shared.array(count, float32)
            room[cuda.threadIdx.x] = x[0]
            cuda.syncthreads()
            x[1] = room[cuda.threadIdx.x ^ 1]

        def local(x):
            room = cuda.local.array(count, float32)
            for k in range(count):
                room[k] = x[k]
            x[1] = room[int(x[0])]

        return shared, local

    shared, _ = kernels(16384)
    assert haulage.compile(shared, FLOATS, "gfx90a").metadata["shared_bytes"] == 65536
    shared, local = kernels(40000)
    with pytest.raises(CompileError, match="160000 bytes of shared arrays; gfx90a has 65536"):
        haulage.compile(shared, FLOATS, "gfx90a")
    assert haulage.compile(shared, FLOATS, "gfx950").metadata["shared_bytes"] == 160000
    with pytest.raises(CompileError, match="160000 bytes of local arrays for each thread; gfx90a"):
        haulage.compile(local, FLOATS, "gfx90a")
    assert haulage.compile(local, FLOATS, "gfx1100").metadata["local_bytes"] >= 160000


@pytest.mark.parametrize("name", ["gfx90", "gfx9", "gfx943", "gfx1300", "gfx90A"])
def test_an_unknown_architecture_is_refused_before_llvm_sees_it(name: str) -> None:
    with pytest.raises(ValueError, match=f"target '{name}': expected one of gfx900,"):
        haulage.compile(saxpy, "void(float32, float32[::1], float32[::1])", name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "gfx90a:sramecc+:xnack-",
            "expected 'gfx90a'; its code is for GPUs with sramecc and xnack",
        ),
        ("gfx9-4-generic", "expected one of gfx900,.*; code for several generations"),
    ],
)
def test_names_that_roc_has_for_other_code_are_refused_with_the_reason(name, message) -> None:
    with pytest.raises(ValueError, match=f"target '{re.escape(name)}': {message}"):
        haulage.compile(saxpy, "void(float32, float32[::1], float32[::1])", name)


def test_code_for_nvidias_gpus_cannot_be_linked_with() -> None:
    foreign = cuda.declare_device("foreign", "float32(float32)")

    def called(x):
        x[0] = foreign(x[0])

    with pytest.raises(CompileError, match=r"declare_device\('foreign', ...\).*@cuda.jit\(device"):
        haulage.compile(called, FLOATS, "gfx942")
    linked = cuda.jit(link=[cuda.PTXSource(b".version 8.0\n.target sm_70\n")])(lambda x: None)
    with pytest.raises(Unsupported, match=r"jit\(link=...\) names code for NVIDIA's GPUs.* gfx942"):
        haulage.compile(linked, FLOATS, "gfx942")


def test_kept_code_is_of_the_linker_that_is_chosen(monkeypatch) -> None:
    linked = amd_architectures.identity("gfx942")
    monkeypatch.setenv("HAULAGE_AMD_LINKER", "lld")
    assert amd_architectures.identity("gfx942") != linked
    assert amd_architectures.identity("gfx942") != amd_architectures.identity("gfx90a")


@cuda.jit
def wait_for_all(x):
    x[cuda.grid(1)] = 1
    cg.this_grid().sync()
    x[cuda.grid(1)] += x[0]


@needs_disassembler
def test_a_barrier_of_the_grid_counts_where_its_last_argument_says() -> None:
    lines = instructions(wait_for_all, "void(int32[::1])", "gfx942")
    # No variable of the module.
    assert count(lines, "s_getpc") == 0
    assert count(lines, r"global_atomic_add ") == 1
    assert count(lines, "s_barrier") == 3
    code = haulage.compile(wait_for_all, "void(int32[::1])", "gfx942")
    (kernel,) = kernels(code.code).values()
    (counter,) = [each for each in kernel.arguments if each.name == "haulage_grid_counter"]
    assert (counter.offset, counter.nbytes) == (56, 8)


@pytest.mark.parametrize("optimised", [True, False])
def test_nothing_is_asked_of_the_runtime_that_it_would_have_to_prepare(optimised: bool) -> None:
    wait = cuda.jit(wait_for_all.py_func, opt=optimised)
    (kernel,) = kernels(haulage.compile(wait, "void(int32[::1])", "gfx90a").code).values()
    hidden = {each.kind for each in kernel.arguments if each.is_hidden}
    assert "hidden_block_count_x" in hidden
    assert not hidden & {
        *("hidden_hostcall_buffer", "hidden_multigrid_sync_arg", "hidden_heap_v1"),
        *("hidden_default_queue", "hidden_completion_action", "hidden_queue_ptr"),
    }
