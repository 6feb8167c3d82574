"""Words about memory on NVIDIA's GPUs: hints for caches, constants, shared and local arrays."""

import numpy as np
import pytest

import haulage
from doubles.nvidia_code import instructions, words
from doubles.ptxas import assemble
from haulage import cuda

TABLE = np.arange(64, dtype=np.float32)
LARGE = np.arange(10_000, dtype=np.float64)


def hinted(x, y):
    i = cuda.threadIdx.x
    y[i] = cuda.ldca(x, i)
    y[i + 1] = cuda.ldcg(x, i)
    y[i + 2] = cuda.ldcs(x, i)
    y[i + 3] = cuda.ldlu(x, i)
    y[i + 4] = cuda.ldcv(x, i)
    cuda.stcg(y, i, 1)
    cuda.stcs(y, i, 2)
    cuda.stwb(y, i, 3)
    cuda.stwt(y, i, 4)


@pytest.mark.parametrize(
    ("kind", "bits"),
    [("int8", 8), ("float16", 16), ("int32", 32), ("float32", 32), ("uint64", 64), ("float64", 64)],
)
def test_hints_for_caches_are_in_the_instructions(kind: str, bits: int) -> None:
    for place in (f"{kind}[::1]", f"CPointer({kind})"):
        found = words(hinted, f"void({place}, {place})", "sm_75")
        hints = [each for each in found if each.endswith(f".b{bits}") and each.count(".") == 3]
        assert hints == [
            *(f"ld.global.{hint}.b{bits}" for hint in ("ca", "cg", "cs", "lu", "cv")),
            *(f"st.global.{hint}.b{bits}" for hint in ("cg", "cs", "wb", "wt")),
        ]


def test_hints_for_shared_memory_leave_the_address_generic() -> None:
    def kernel(x):
        room = cuda.shared.array(32, np.float32)
        cuda.stcg(room, cuda.threadIdx.x, x[0])
        cuda.syncthreads()
        x[1] = cuda.ldcg(room, 31 - cuda.threadIdx.x)

    found = words(kernel, "void(float32[::1])")
    assert "st.cg.b32" in found
    assert "ld.cg.b32" in found


def test_constants_lie_in_constant_memory() -> None:
    def kernel(x):
        table = cuda.const.array_like(TABLE)
        x[cuda.threadIdx.x] = table[cuda.blockIdx.x]

    assert "ld.const.b32" in words(kernel, "void(float32[::1])")


def test_an_array_that_is_only_named_lies_in_the_devices_memory() -> None:
    def kernel(x):
        x[cuda.threadIdx.x] = TABLE[cuda.blockIdx.x]

    assert "ld.global.nc.b32" in words(kernel, "void(float32[::1])")


def test_constants_of_device_functions_and_those_without_room() -> None:
    @cuda.jit(device=True)
    def entry(i):
        return cuda.const.array_like(TABLE)[i]

    def kernel(x):
        large = cuda.const.array_like(LARGE)
        x[0] = large[cuda.blockIdx.x] + entry(cuda.blockIdx.x)

    found = words(kernel, "void(float64[::1])")
    assert "ld.const.b32" in found
    assert "ld.global.nc.b64" in found


def test_constants_of_kernels_to_debug() -> None:
    @cuda.jit(debug=True, opt=False)
    def kernel(x):
        x[0] = cuda.const.array_like(TABLE)[cuda.blockIdx.x]

    assemble(haulage.compile(kernel, "void(float32[::1])", "sm_90").asm, "-O0")


def test_an_array_with_constant_indices_stays_in_registers() -> None:
    def kernel(x):
        own = cuda.local.array(4, np.float32)
        for i in range(4):
            own[i] = x[i]
        total = np.float32(0)
        for i in range(4):
            total += own[i] * own[3 - i]
        x[0] = total

    code = haulage.compile(kernel, "void(float32[::1])", "sm_90")
    assert ".local" not in code.asm
    assert code.metadata["local_bytes"] == 0


def test_shared_memory_known_and_of_the_launch() -> None:
    def kernel(x):
        known = cuda.shared.array(32, np.float32)
        launched = cuda.shared.array(0, np.float32)
        t = cuda.threadIdx.x
        known[t] = x[t]
        launched[t] = x[t + 32]
        cuda.syncthreads()
        x[t] = known[31 - t] + launched[31 - t]

    code = haulage.compile(kernel, "void(float32[::1])", "sm_90")
    assert code.metadata["shared_bytes"] == 128
    assert code.metadata["uses_dynamic_shared"]
    assert ".extern .shared .align 64" in code.asm
    found = words(kernel, "void(float32[::1])")
    assert found.count("ld.shared.b32") == 2
    assert found.count("st.shared.b32") == 2


def test_all_of_the_launchs_memory_begins_at_one_place() -> None:
    def kernel(x, n):
        ints = cuda.shared.array(n, np.int32)
        floats = cuda.shared.array(n, np.float64)
        t = cuda.threadIdx.x
        ints[t] = x[t]
        floats[t] = x[t]
        cuda.syncthreads()
        x[t] = ints[n - 1 - t] + floats[n - 1 - t]

    code = haulage.compile(kernel, "void(float32[::1], int64)", "sm_75")
    assemble(code.asm, "-O0")
    assert code.asm.count(".extern .shared") == 1
    assert "%dynamic_smem_size" in code.asm


def gathered(x, out):
    t = cuda.threadIdx.x
    out[0] = cuda.syncthreads_and(x[t] > 0)
    out[1] = cuda.syncthreads_or(x[t] > 1)
    out[2] = cuda.syncthreads_count(x[t] > 2)


def test_barriers_that_gather_are_single_instructions() -> None:
    found = words(gathered, "void(int32[::1], int32[::1])")
    barriers = [each for each in found if each.startswith("bar")]
    assert [each.partition(".red")[2].split(".")[1] for each in barriers] == ["and", "or", "popc"]


def test_fences_clocks_and_rests() -> None:
    def kernel(x):
        x[0] = cuda.clock64()
        cuda.threadfence_block()
        x[1] = cuda.clock()
        cuda.threadfence()
        x[2] = cuda.globaltimer()
        cuda.threadfence_system()
        cuda.nanosleep(100)

    code = instructions(kernel, "void(int64[::1])")
    starts = [line.split()[0].rstrip(";") for line in code]
    fences = [each for each in starts if each.startswith(("membar", "fence"))]
    assert fences == ["membar.cta", "membar.gl", "membar.sys"]
    assert "nanosleep.u32" in starts
    registers = [line.split(", ")[1] for line in code if "clock" in line or "timer" in line]
    assert registers == ["%clock64;", "%clock64;", "%globaltimer;"]
