"""The AMD back end's own kernels, which copy and fill: their code, and when they are used."""

import ctypes
import math
import re
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doubles import amd_objects
from haulage.backends.cpu_driver import elf, loader
from haulage.backends.gpu_driver.kernels import COPY, FILL, SIZES, Kernels
from haulage.backends.gpu_driver.regions import region
from haulage.compiler.gpu.amd import own_kernels
from haulage.targets.amd_architectures import ARCHITECTURES
from haulage.targets.amd_metadata import kernels
from nodevice.backends.cpu_driver.cpu_objects import host_object
from support.nvidia_children import needs_compiler, run

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


class _Native:
    """The kernels' text compiled for the processor, where `start` runs them thread by thread."""

    def __init__(self):
        text = re.sub(r" ?addrspace\(\d\)", "", own_kernels.text())
        text = re.sub(r"(?m)^(target triple|declare|!).*\n", "", text)
        places = r"  %(group|lane|packet|threads\.at|threads) = .*\n"
        text, replaced = re.subn(places, "", text)
        assert replaced == 5 * len(NAMES)
        text = re.sub(
            r"define protected amdgpu_kernel void (@\w+)\(ptr byref\(.*?\) align 8 %given\)[^{]*",
            r"define void \1(ptr %given, i32 %group, i32 %lane, i32 %threads) ",
            text,
        )
        code = host_object(text)
        self.code = loader.link(list(NAMES), code, elf.symbols(code)[1])
        self.kernels = Kernels(self, self, lambda device: 0, lambda module, name: name, lambda _: 1)

    def device(self):
        return 0

    def start(self, device, launch, stream):
        name, grid, block, shared_bytes, args = launch
        assert (grid[1:], block, shared_bytes) == ((1, 1), (256, 1, 1), 0)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_char_p, *[ctypes.c_uint32] * 3)
        kernel = kind(self.code[name])
        for group in range(grid[0]):
            for lane in range(256):
                kernel(args, group, lane, 256 * grid[0])


@pytest.fixture(scope="module")
def native():
    return _Native()


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_what_they_copy_is_what_numpy_copies(native, data):
    kind = data.draw(st.sampled_from(["u1", "u2", "u4", "u8", "c16", "S3", "S24"]))
    shape = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    steps = [data.draw(st.sampled_from([1, 2, -1, -3])) for _ in shape]
    axes = data.draw(st.permutations(range(len(shape))))
    whole = [size * abs(step) for size, step in zip(shape, steps, strict=True)]
    nbytes = np.dtype(kind).itemsize * math.prod(whole)
    source = np.frombuffer(np.random.default_rng(0).bytes(nbytes), kind).reshape(whole)
    source = source[tuple(slice(None, None, step) for step in steps)].transpose(axes)
    target = np.zeros([2 * size for size in source.shape], kind)[
        (slice(None, None, 2),) * len(axes)
    ]
    arrays = (target.ctypes.data, target.strides, source.ctypes.data, source.strides)
    what = region(*arrays, source.shape, source.dtype.itemsize)
    native.kernels.copy(what, 0)
    assert target.tobytes() == source.tobytes()
    assert not target.base.ravel()[1::2].any()


@pytest.mark.parametrize(
    "value", [b"\1", b"\1\2", b"abcd", b"12345678", b"0123456789abcdef", b"abcdef"]
)
@pytest.mark.parametrize(("offset", "count"), [(0, 5000), (8, 1), (2, 300)])
def test_what_they_fill(native, value, offset, count):
    room = np.zeros(16 * 6000, np.uint8)
    start = offset + (-room.ctypes.data % 16)
    native.kernels.fill(room.ctypes.data + start, value, count, 0)
    end = start + count * len(value)
    assert room[start:end].tobytes() == value * count
    assert not room[:start].any()
    assert not room[end:].any()


@needs_compiler
@pytest.mark.parametrize("rocm", [5, 7])
def test_steps_and_wide_values_take_one_launch_and_the_code_is_made_once(rocm):
    said = run(
        """
import numpy as np
import haulage
from haulage import cuda
from haulage.compiler.gpu.amd import own_kernels
from nodevice.backends.cpu_driver.cpu_objects import host_object

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
