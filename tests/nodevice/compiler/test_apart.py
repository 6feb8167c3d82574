"""Code generators in processes of their own."""

# mypy: allow-untyped-defs

import os
import signal
import subprocess
import sys

import pytest

from haulage.compiler import apart
from haulage.errors import CompileError
from haulage.targets import opencl

MODULE = """
target triple = "spirv64-unknown-unknown"
define spir_kernel void @empty() {
  ret void
}
"""
# Makes LLVM's code generator end its process.
TOO_WIDE = """
define spir_kernel void @wide(i64 %a, i64 %b) {
  %c = zext i64 %a to i65
  %d = mul i65 %c, %c
  %e = lshr i65 %d, 1
  %f = trunc i65 %e to i64
  %p = inttoptr i64 %b to ptr addrspace(1)
  store i64 %f, ptr addrspace(1) %p
  ret void
}
"""


def test_code_and_assembly_are_made() -> None:
    target = opencl.target()
    assert apart.emitted("object", MODULE, target)[:4] == bytes.fromhex("03022307")
    assert b"OpEntryPoint Kernel" in apart.emitted("assembly", MODULE, target)


def test_what_the_code_generator_ends_at_is_an_error_here() -> None:
    target = opencl.target()
    with pytest.raises(CompileError, match=r"for spirv64 has failed: .*OpTypeInt"):
        apart.emitted("object", TOO_WIDE, target)
    assert apart.emitted("object", MODULE, target)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals to end it by")
def test_a_process_that_was_ended_is_started_again() -> None:
    target = opencl.target()
    first = apart.emitted("object", MODULE, target)
    (server,) = [each for each in apart._servers.values() if each.is_ours]
    assert server._process is not None
    os.kill(server._process.pid, signal.SIGKILL)
    server._process.wait()
    assert apart.emitted("object", MODULE, target) == first


def test_it_ends_with_the_program() -> None:
    program = f"""
from haulage.compiler import apart
from haulage.targets import opencl
apart.emitted("object", {MODULE!r}, opencl.target())
(server,) = apart._servers.values()
print(server._process.pid)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert not done.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
