"""The AMD back end's own kernels, which copy and fill: their code, and when they are used."""

import re
import subprocess

import pytest
from nvidia_children import needs_compiler, run

from doubles import amd_objects
from haulage.backends.gpu_driver.kernels import COPY, FILL, SIZES
from haulage.compiler.gpu.amd import own_kernels
from haulage.targets.amd_architectures import ARCHITECTURES
from haulage.targets.amd_metadata import kernels

NAMES = {f"haulage_{what}_{size}": (what, size) for what in ("copy", "fill") for size in SIZES}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_their_code_takes_what_launches_pass_and_nothing_else(architecture):
    code = own_kernels.code(architecture)
    amd_objects.check(code)
    found = kernels(code)
    assert found.keys() == NAMES.keys()
    for name, kernel in found.items():
        nbytes = (COPY if NAMES[name][0] == "copy" else FILL).size
        assert [(a.offset, a.nbytes, a.is_hidden) for a in kernel.arguments] == [(0, nbytes, False)]
        assert (kernel.local_bytes, kernel.shared_bytes) == (0, 0)


@amd_objects.needs_disassembler
@pytest.mark.parametrize("architecture", ["gfx900", "gfx942", "gfx1100", "gfx1201"])
def test_each_element_is_moved_by_one_instruction(architecture, tmp_path):
    file = tmp_path / "own.hsaco"
    file.write_bytes(own_kernels.code(architecture))
    program = amd_objects.disassembler()
    command = [program, "-d", "--no-show-raw-insn", f"--mcpu={architecture}", str(file)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    parts = re.split(r"^[0-9a-f]+ <(\w+)>:$", told, flags=re.M)
    bodies = dict(zip(parts[1::2], parts[2::2], strict=True))
    widths = {1: "byte|b8", 2: "short|b16", 4: "dword|b32", 8: "dwordx2|b64", 16: "dwordx4|b128"}
    for name, (what, size) in NAMES.items():
        stores = re.findall(r"global_store_(\w+)", bodies[name])
        assert len(stores) == 1, (name, stores)
        assert re.fullmatch(widths[size], stores[0]), (name, stores)
        loads = re.findall(r"(global|flat|scratch)_load", bodies[name])
        assert what == "fill" or loads == ["global"], (name, loads)


@needs_compiler
@pytest.mark.parametrize("rocm", [5, 7])
def test_steps_and_wide_values_take_one_launch_and_the_code_is_made_once(rocm):
    said = run(
        """
import numpy as np
import haulage
from haulage import cuda
from haulage.compiler.gpu.amd import own_kernels

made = []
code = own_kernels.code
own_kernels.code = lambda architecture: made.append(architecture) or code(architecture)
haulage.use("amd")
values = np.arange(30_000.0).reshape(100, 300)

def count(work):
    start = double.now()
    work()
    names = [name for name, _, _ in double.log(start)]
    return names.count("launch"), names.count("copy") + names.count("copy2") + names.count("copy3")

for _ in range(2):
    x, y = cuda.to_device(values), cuda.device_array((300, 100))
    transposed = x.T
    print(*count(lambda: y.copy_to_device(transposed)), np.array_equal(y.copy_to_host(), values.T))
    print(*count(lambda: x[:, 1].fill(2.5)), (x.copy_to_host()[:, 1] == 2.5).all())
    print(*count(lambda: y.fill(-1.5)), set(y.copy_to_host().ravel().tolist()))
haulage.use("amd:1")
z = cuda.device_array(1000, np.complex128)
z[::3].fill(1 + 2j)
print(set(z[::3].copy_to_host().tolist()), made, double.misuses())
""",
        f"major={rocm}, devices=2",
        double="libamdhip64",
    ).splitlines()
    assert said == [
        *["1 0 True", "1 0 True", "1 0 {-1.5}"] * 2,
        "{(1+2j)} ['gfx90a', 'gfx90a'] (0, '')",
    ]
