"""`haulage.compile` and the text of what it gives; no device is touched."""

import re

import llvmlite.binding as llvm
import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.errors import CompileError


def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= factor


def tiles(x):
    room = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    room[t] = x[t]
    cuda.syncthreads()
    total = np.float32(0)
    for k in range(64):
        total += room[k] * x[t]
    x[t] = total


@pytest.mark.parametrize(
    "signature",
    [
        "void(float32[::1], float32)",
        "(float32[::1], float32)",
        ("float32[::1]", np.float32),
        ("float32[::1]", "float32"),
    ],
)
def test_compile_gives_text_code_and_metadata(signature):
    code = haulage.compile(scale, signature)
    assert "i64 @haulage_entry(ptr" in code.llvm
    assert "haulage_entry:" in code.asm
    assert isinstance(code.code, bytes)
    assert b"haulage_entry" in code.code
    assert code.metadata["signature"] == "(array(float32, 1d, C), float32)"
    assert code.metadata["target"] == "host"
    assert code.metadata["block"] == (256, 1, 1)
    first, second, *_, third, last = code.stages
    assert [first, second, third, last] == ["lowered", "clean", "blocks", "llvm"]


def test_compile_takes_kernels_and_blocks():
    code = haulage.compile(cuda.jit(tiles), "void(float32[::1])", block=64)
    assert code.metadata["block"] == (64, 1, 1)
    assert code.metadata["shared_bytes"] == 256
    # RegionEnd at the barrier; the loop stays in its region, which is run for chunks of threads.
    assert (code.metadata["strategy"], code.metadata["regions"]) == ("regions", 2)


def test_threads_become_lanes_and_wraparound_of_the_index_folds():
    code = haulage.compile(scale, "void(float32[::1], float32)")
    clean = code.stages["clean"]
    body = clean[clean.index("define") : clean.index("\n}")]
    assert "select" not in body
    assert re.search(r"fmul (contract )?<\d+ x float>", code.llvm)


def test_the_scalar_way_widens_nothing(monkeypatch):
    monkeypatch.setenv("HAULAGE_CPU_THREADS", "scalar")
    code = haulage.compile(scale, "void(float32[::1], float32)", block=256)
    assert code.metadata["strategy"] == "scalar"
    assert not re.search(r"<\d+ x float>", code.llvm)


def test_llvm_reads_no_stage_twice(monkeypatch):
    """It reads the front end's text, the same with limits of indices, and that of blocks."""
    parsed = []
    parse = llvm.parse_assembly

    def noted(text, *arguments):
        # Numba asks for the sizes of types with modules of nothing else.
        if "define " in text:
            parsed.append(text)
        return parse(text, *arguments)

    monkeypatch.setattr(llvm, "parse_assembly", noted)
    code = haulage.compile(tiles, "void(float32[::1])", block=64)
    assert len(parsed) == 3
    assert parsed[-1] == code.stages["blocks"]


def test_a_kernel_without_barriers_is_one_region_without_slots():
    code = haulage.compile(scale, "void(float32[::1], float32)")
    assert code.metadata["regions"] == 1
    assert "/context" not in code.stages["blocks"]


def test_fastmath_is_the_kernels_own_unless_it_is_given():
    signature = "void(float32[::1], float32)"
    quick = cuda.jit(fastmath=True)(scale)
    assert "fmul fast" in haulage.compile(quick, signature).stages["lowered"]
    assert "fmul fast" not in haulage.compile(quick, signature, fastmath=False).stages["lowered"]
    exact = cuda.jit(scale)
    assert "fmul fast" not in haulage.compile(exact, signature).stages["lowered"]
    assert "fmul fast" in haulage.compile(exact, signature, fastmath=True).stages["lowered"]


def test_no_threads_of_the_system_are_started_in_compiled_code():
    code = haulage.compile(tiles, "void(float32[::1])", block=64)
    assert "pthread" not in code.llvm


def test_names_that_llvm_made_are_not_given_again():
    def kernel(x, n):
        room = cuda.shared.array(64, np.float32)
        t = cuda.threadIdx.x
        u = n
        for _ in range(n):
            # LLVM makes one remainder of both; what it is the remainder of gets its name and `.in`.
            u = (u * 3 + 6) % 7 if u > 2 else (u * 5) % 7
            room[t] = x[t]
            cuda.syncthreads()
            x[t] = room[(t + u) % 64]
            cuda.syncthreads()

    code = haulage.compile(kernel, "void(float32[::1], int64)", block=64)
    assert re.search(r'\.in"? = phi', code.stages["clean"])
    assert code.metadata["strategy"] == "regions"


def test_errors_name_what_was_given():
    with pytest.raises(ValueError, match=r"gfx800.*gfx90a"):
        haulage.compile(scale, "void(float32[::1], float32)", "gfx800")
    with pytest.raises(CompileError, match="scale"):
        haulage.compile(scale, "void(float32, float32)")
    with pytest.raises(TypeError):
        haulage.compile(scale, 5)
    with pytest.raises(TypeError, match="void"):
        haulage.compile(scale, "int32(float32[::1], float32)")
    with pytest.raises(TypeError, match="got 5"):
        haulage.compile(5, "void()")
    for unreadable in ("void(float32", "void(no_such_type)", ("float3",)):
        with pytest.raises(TypeError):
            haulage.compile(scale, unreadable)
    with pytest.raises(ValueError, match="block"):
        haulage.compile(scale, "void(float32[::1], float32)", block=0)


def test_an_unknown_way_is_refused(monkeypatch):
    monkeypatch.setenv("HAULAGE_CPU_THREADS", "sideways")
    with pytest.raises(ValueError, match="sideways"):
        haulage.compile(scale, "void(float32[::1], float32)")


def test_ptx_of_a_function_that_debugs_has_a_channel_that_a_linker_shares():
    def fill(x, y):
        x[0] = 1 // y

    ptx, _ = cuda.compile_ptx(fill, "void(float64[:], int64)", device=True, debug=True, opt=False)
    assert ".weak .global" in ptx
