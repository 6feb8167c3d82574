"""NVIDIA's assembler and disassembler where they are: figures, SASS, machine code in the cache."""

import subprocess
import sys

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.compiler.gpu.nvidia import assembler, toolkit
from haulage.errors import CompileError, Unsupported
from haulage.kernel.caching import kept_body
from haulage.kernel.compilation import options_for
from haulage.kernel.signatures import keys_of
from haulage.kernel.vocabulary import CUDA

SIGNATURE = "void(float32[::1])"


def many(x):
    a = cuda.local.array(48, np.float32)
    i = cuda.grid(1)
    for k in range(48):
        a[k] = x[i + k] * x[k]
    for k in range(48):
        x[i + k] = a[k] / (a[47 - k] + a[(k * 7) % 48])


def tile(x):
    room = cuda.shared.array(64, np.float32)
    room[cuda.threadIdx.x] = x[cuda.grid(1)]
    cuda.syncthreads()
    x[cuda.grid(1)] = room[63 - cuda.threadIdx.x]


@pytest.fixture
def without_tools(monkeypatch):
    monkeypatch.setattr(toolkit, "program", lambda wheel, name: None)


def test_the_assembler_says_what_a_thread_takes() -> None:
    plenty = haulage.compile(many, SIGNATURE, "sm_90").resources
    few = haulage.compile(many, SIGNATURE, "sm_90", max_registers=24).resources
    assert few["registers"] <= 24 < plenty["registers"] <= 255
    assert plenty["spill_store_bytes"] == plenty["spill_load_bytes"] == 0
    assert few["spill_store_bytes"] > 0
    assert few["local_bytes"] >= 4
    assert haulage.compile(tile, SIGNATURE, "sm_75").resources["shared_bytes"] == 256


def test_code_for_the_cpu_names_its_registers() -> None:
    resources = haulage.compile(tile, SIGNATURE).resources
    assert list(resources) == ["registers"]
    assert resources["registers"] > 2


@pytest.mark.skipif(
    toolkit.program(*assembler.DISASSEMBLER) is None, reason="nvidia-cuda-nvdisasm is not installed"
)
def test_sass_and_its_graph() -> None:
    code = haulage.compile(tile, SIGNATURE, "sm_90", lineinfo=True)
    sass = code.sass()
    assert "BAR.SYNC" in sass
    assert "test_assembler.py" in sass
    assert code.sass(control_flow=True).startswith("digraph")


def test_the_cpu_has_no_sass() -> None:
    with pytest.raises(Unsupported, match=r"SASS is the code of NVIDIA's GPUs.*for host"):
        haulage.compile(tile, SIGNATURE).sass()


def test_a_kernel_on_any_device_shows_its_ptx_for_a_compute_capability() -> None:
    kernel = cuda.jit(SIGNATURE)(tile)
    (overload,) = kernel.overloads.values()
    ptx = overload.inspect_asm((8, 0))
    assert ".target sm_80\n" in ptx
    assert ".visible .entry tile(" in ptx
    assert kernel.inspect_asm(cc=(8, 0)) == {overload.argument_types: ptx}
    assert overload.library.get_asm_str((9, 0)) == kernel.inspect_asm(SIGNATURE, (9, 0))
    with pytest.raises(ValueError, match=r"compute capability \(3, 5\)"):
        overload.inspect_asm((3, 5))


def test_without_the_tools_the_error_says_how_to_get_them(without_tools) -> None:
    code = haulage.compile(tile, SIGNATURE, "sm_90")
    with pytest.raises(
        Unsupported, match=r"ptxas has not been found.*pip install nvidia-cuda-nvcc"
    ):
        assert code.resources
    with pytest.raises(RuntimeError, match="nvdisasm has not been found"):
        code.sass()


def body_in_cache(function=tile):
    return kept_body(function, keys_of(SIGNATURE), ("nvidia", "sm_90"), CUDA, options_for(False))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HAULAGE_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_kept_kernel_has_machine_code_beside_its_ptx(cache) -> None:
    made = body_in_cache().code((0, 0, 0), "threads")
    found = body_in_cache()
    code = found.code((0, 0, 0), "threads")
    assert found.found
    assert code.machine_code == made.machine_code
    assert code.machine_code[:4] == b"\x7fELF"
    assert code.code == made.code == haulage.compile(tile, SIGNATURE, "sm_90").code
    assert code.metadata == made.metadata


def test_without_an_assembler_a_kept_kernel_has_its_ptx(cache, without_tools) -> None:
    made = body_in_cache().code((0, 0, 0), "threads")
    code = body_in_cache().code((0, 0, 0), "threads")
    assert code.machine_code is None
    assert code.code == made.code


def test_an_assembler_that_refuses_the_ptx_is_told_of(cache, monkeypatch) -> None:
    from haulage.errors import CacheWarning

    def refuse(ptx):
        raise CompileError("ptxas failed with 255: Unsupported .version")

    monkeypatch.setattr(assembler, "machine_code", refuse)
    with pytest.warns(CacheWarning, match=r"kernel tile.*without machine code.*Unsupported"):
        code = body_in_cache().code((0, 0, 0), "threads")
    assert code.machine_code is None


def test_options_that_make_other_code_have_entries_of_their_own(cache) -> None:
    def found(**hints):
        body = kept_body(
            tile, keys_of(SIGNATURE), ("nvidia", "sm_90"), CUDA, options_for(False, False, hints)
        )
        body.code((0, 0, 0), "threads")
        return body.found

    for hints in ({}, {"launch_bounds": 64}, {"max_registers": 32}, {"lineinfo": True}):
        assert not found(**hints)
        assert found(**hints)
    # Hints make no other code.
    assert found(inline="always", lto=True)


def test_a_later_process_needs_no_compiler(cache) -> None:
    program = """
import sys
from haulage.kernel.caching import kept_body
from haulage.kernel.compilation import options_for
from haulage.kernel.signatures import keys_of
from haulage.kernel.vocabulary import CUDA
from haulage import cuda
import numpy as np
def tile(x):
    room = cuda.shared.array(64, np.float32)
    room[cuda.threadIdx.x] = x[cuda.grid(1)]
    cuda.syncthreads()
    x[cuda.grid(1)] = room[63 - cuda.threadIdx.x]
from haulage.runtime.launch.kinds import key_of
keys = (key_of(np.zeros(4, np.float32)),)
body = kept_body(tile, keys, ("nvidia", "sm_90"), CUDA, options_for(False))
code = body.code((0, 0, 0), "threads")
loaded = ["numba" in sys.modules, "llvmlite" in sys.modules]
print(body.found, code.machine_code[1:4], *loaded)
"""
    told = [
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
        ).stdout
        for _ in range(2)
    ]
    assert told == ["False b'ELF' True True\n", "True b'ELF' False False\n"]
