"""The native worker threads in C: compiled without a warning for each system, and used without
Python. What they do for kernels is tested where the CPU's driver is."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import haulage

CORE = Path(haulage.__file__).parent / "_core"
SOURCES = sorted(CORE.glob("pool_*.c"))
DRIVER = Path(__file__).parent / "pool_driver.c"
STRICTLY = ["-O2", "-Wall", "-Wextra", "-Werror", f"-I{CORE}", "-pthread"]


@pytest.fixture(params=["cc", "zig"])
def compiler(request):
    """The command of a C compiler."""
    if request.param == "zig":
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip("the package ziglang is not installed")
        return [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]
    found = shutil.which("cc")
    if found is None:
        pytest.skip("there is no C compiler cc")
    return [found]


def test_a_program_in_c_runs_copies_crashes_stops_and_forks(compiler, tmp_path):
    program = tmp_path / "program"
    subprocess.run([*compiler, *STRICTLY, DRIVER, *SOURCES, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "target", ["x86_64-linux-musl", "aarch64-linux-gnu", "x86_64-macos", "aarch64-macos"]
)
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_it_is_code_of_other_systems_too(source, target, tmp_path):
    pytest.importorskip("ziglang")
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *STRICTLY, "-c", source]
    subprocess.run([*command, "-o", tmp_path / "made.o"], check=True)
