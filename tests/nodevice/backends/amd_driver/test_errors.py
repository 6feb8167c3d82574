"""What the AMD back end makes of the HIP runtime's failures, and what it leaves behind; the runtime
is `doubles.libamdhip64`."""

import pytest

from support.nvidia_children import needs_compiler
from support.nvidia_children import run as run_on

pytestmark = needs_compiler

START = """
import struct
import numpy as np
import haulage
from haulage import cuda
from haulage.backends.amd import AMDBackend
from haulage.platforms import PLATFORMS
from doubles import libamdhip64

def told(call, *args):
    try:
        call(*args)
    except BaseException as error:
        print(type(error).__name__, getattr(error, "code", None), error)
    else:
        print("no error")

new_backend = PLATFORMS["amd"].new_backend
backend = new_backend()
backend.activate(0)
"""


def lines(program: str, options: str = "", **environment: str) -> list[str]:
    """What each call of `told` in a program printed."""
    return run_on(START + program, options, double="libamdhip64", **environment).splitlines()


def test_a_kernel_is_compiled_loaded_and_launched_with_what_it_reads():
    """All but its run: the stand-in does nothing there."""
    said = lines(
        """
from haulage.targets.amd_metadata import kernels

@cuda.jit
def scale(x, factor, small):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= factor + small

loaded = []
load = AMDBackend.load
AMDBackend.load = lambda self, code: loaded.append(code) or load(self, code)
haulage.use("amd")
x = cuda.to_device(np.ones(100, np.float32))
start = double.now()
scale[4, 32](x, 2.5, np.int8(3))
scale[4, 32](x, 2.5, np.int8(3))
cuda.synchronize()
launches = [b for name, a, b in double.log(start) if name == "launch"]
(kernel,) = kernels(loaded[-1]).values()
passed = [each for each in kernel.arguments if not each.is_hidden]
print(len(launches), {max(each.offset + each.nbytes for each in passed)} == set(launches))
"""
    )
    assert said == ["2 True"]


def test_a_grid_with_more_threads_than_a_packet_counts_is_refused():
    said = lines(
        """
@cuda.jit
def kernel(x):
    x[0] = 1

haulage.use("amd")
x = cuda.device_array(1)
for grid, block in (((2**24 - 1, 1), 256), ((2**24, 1), 256), ((1, 2**23), (1, 512))):
    told(kernel[grid, block], x)
"""
    )
    refused = "LimitError 1 kernel kernel: grid"
    assert said[0] == "no error"
    assert said[1].startswith(f"{refused} (16777216, 1, 1) of blocks (256, 1, 1) has 4294967296 ")
    assert said[2].startswith(refused)


def test_a_failure_has_the_runtimes_name_and_words_and_what_was_asked():
    (said,) = lines(
        "double.fail('hipStreamWaitEvent', 400)\ntold(backend.stream_wait_event, 0, 64)"
    )
    assert said.startswith(
        "DeviceError 400 [400] hipStreamWaitEvent(0, 64, 0): hip_ERROR_INVALID_HANDLE: invalid "
        "resource handle; "
    )


def test_others_are_not_told_of_failures_that_were_handled():
    said = lines(
        """
stream = backend.stream_create()
double.fail("hipStreamQuery", 600)
print(backend.stream_query(stream), double.last_error())
told(backend.stream_synchronize, 12345)
print(double.last_error())
told(backend.launch, 77, (1, 1, 1), (2048, 1, 1), 0, 0, b"")
print(double.last_error())
"""
    )
    assert said[0] == "False 0"
    assert said[2] == said[4] == "0"


def test_memory_that_is_not_there_is_told_with_what_is_free():
    device, host = lines(
        """
told(backend.alloc, 3 << 20, "device")
told(backend.alloc, 1 << 50, "pinned")
""",
        "memory=2 << 20",
    )
    assert "no room for 3,145,728 bytes of device memory: 2,097,152 of 2,097,152 bytes" in device
    assert device.startswith("OutOfMemory 2 ")
    assert host.startswith("OutOfMemory 2 the host has no room for 1,125,899,906,842,624 bytes")


def test_a_lost_device_names_the_kernel_that_was_launched():
    first, later = lines(
        """
module = backend.load(libamdhip64.CODE)
function = backend.function(module, "scale")
x, _ = backend.alloc(64, "device")
backend.launch(function, (1, 1, 1), (1, 1, 1), 0, 0, struct.pack("@Pqf", x, 1, 2.0))
backend.synchronize()
double.lose(700)
told(backend.synchronize)
told(backend.alloc, 16, "device")
"""
    )
    for said in (first, later):
        assert said.startswith("DeviceError 700 ")
        assert "Kernel scale was running, or was launched last." in said
        assert "rocgdb" in said


def test_what_is_no_code_object_is_not_given_to_the_runtime():
    said = lines(
        """
told(backend.load, b"text")
told(backend.load, libamdhip64.CODE[:18] + b"\\x3e\\0" + libamdhip64.CODE[20:])
print(double.calls("hipModuleLoadData"))
"""
    )
    assert said[0].startswith("DeviceError 200 [200] 4 bytes that begin with b'text' are no code")
    assert said[1].startswith("DeviceError 200 ")
    assert said[2] == "0"


@pytest.mark.parametrize("rocm", [5, 7])
def test_the_architecture_is_found_in_the_properties(rocm):
    said = lines(
        """
for name in ("gfx906:sramecc-:xnack-", "gfx942:sramecc+:xnack-", "gfx1030", "gfx1201"):
    double.architecture(name)
    p = new_backend().properties(0)
    print(p.architecture, p.compute_capability, p.warp_size, p.details.get("features"))
""",
        f"major={rocm}",
    )
    assert said == [
        "gfx906 (9, 0) 64 sramecc-:xnack-",
        "gfx942 (9, 4) 64 sramecc+:xnack-",
        "gfx1030 (10, 3) 32 None",
        "gfx1201 (12, 0) 32 None",
    ]


def test_an_architecture_that_does_not_agree_with_the_attributes_is_refused():
    (said,) = lines(
        """
from haulage.backends.amd_driver import figures
figures.ATTRIBUTES["COMPUTE_CAPABILITY_MINOR"] = figures.ATTRIBUTES["WARP_SIZE"]
told(backend.properties, 0)
"""
    )
    assert "the architecture of AMD device 0 cannot be told" in said
    assert "gfx90a" in said
    assert "9.64" in said


def test_managed_memory_is_refused_where_the_device_has_none():
    said = lines("double.without(managed=True)\ntold(backend.alloc, 64, 'managed')")
    assert said[0].startswith("Unsupported 801 AMD device 0 has no managed memory")


def test_memory_kinds_ask_for_what_they_are():
    (said,) = lines(
        """
from haulage.backends.base import COHERENT, NON_COHERENT, WRITE_COMBINED
start = double.now()
for kind, flags in (("pinned", 0), ("pinned", COHERENT), ("mapped", 0), ("mapped", NON_COHERENT),
                    ("mapped", WRITE_COMBINED)):
    backend.alloc(64, kind, flags)
print([hex(b) for name, a, b in double.log(start) if name == "hostmalloc"])
"""
    )
    assert said == "['0x3', '0x40000003', '0x40000003', '0x80000003', '0x40000007']"


CLOCKED = """
@cuda.jit
def now(x):
    x[0] = cuda.globaltimer()

loaded = []
load = AMDBackend.load
def keep(self, code):
    loaded.append(load(self, code))
    return loaded[-1]
AMDBackend.load = keep
haulage.use("amd")
x = cuda.device_array(1, np.uint64)
"""


def test_a_kernel_that_tells_nanoseconds_knows_the_clock_of_its_device():
    said = lines(
        CLOCKED
        + """
import ctypes
from haulage.runtime.devices.registry import current_device
double.attribute(10017, 48_000)
now[1, 1](x)
address, nbytes = current_device().backend.symbol(loaded[-1], "haulage_clock_rate")
print(nbytes, ctypes.c_uint32.from_address(address))
"""
    )
    assert said == ["4 c_uint(48000)"]


def test_a_clock_that_the_runtime_does_not_tell_is_not_guessed():
    said = lines(
        CLOCKED
        + """
for rate in (-1, 0):
    double.attribute(10017, rate)
    before = double.alive().get("module", 0)
    told(lambda: now[1, 1](x))
    print(double.alive().get("module", 0) - before)
""",
        "major=5",
    )
    assert said[::2] == 2 * [said[0]]
    assert said[0].startswith("Unsupported 801 the kernel asks for nanoseconds, and the HIP ")
    assert "runtime of ROCm 5.2 does not tell how fast the clock of AMD device 0 is" in said[0]
    assert said[1::2] == ["0", "0"]


def test_ranges_are_left_alone_where_there_are_none():
    said = lines("double.without(ranges=True)\nb = new_backend()\nprint(b.granularity())")
    assert said == ["0"]


def test_a_cooperative_launch_on_an_older_rocm_says_so():
    (said,) = lines(
        """
from haulage.backends.amd_driver.metadata import Places
backend._code.places = lambda function: Places((0,), None)
module = backend.load(libamdhip64.CODE)
function = backend.function(module, "where")
told(backend.launch_cooperative, function, (1, 1, 1), (1, 1, 1), 0, 0, bytes(8))
""",
        "major=5",
    )
    assert said.startswith("Unsupported 801 hipModuleLaunchCooperativeKernel: the HIP runtime of ")
    assert "ROCm 5.2 is too old for it, update ROCm to 5.5" in said


COOPERATIVE = """
from haulage.cuda import cg
from haulage.runtime.devices.registry import current_device

@cuda.jit
def together(x):
    cg.this_grid().sync()
    x[0] = 1

haulage.use("amd")
x = cuda.device_array(1, np.int32)

def counters(*launches):
    # An array is seven arguments of 8 bytes, and behind it comes the counter.
    double.parameters(8)
    start = double.now()
    for launch in launches:
        launch()
    return [b for name, a, b in double.log(start) if name == "argument" and a == 7]
"""


def test_cooperative_launches_in_two_streams_count_apart():
    """They counted in one variable of their module."""
    said = lines(
        COOPERATIVE
        + """
import ctypes
one, other = cuda.stream(), cuda.stream()
first, second, third, again = counters(
    lambda: together[4, 32, one](x),
    lambda: together[4, 32, other](x),
    lambda: together[4, 32](x),
    lambda: together[4, 64, one](x),
)
print(len({first, second, third}), first == again)
print([ctypes.c_uint32.from_address(at).value for at in (first, second, third)])
haulage.use("amd:1")
y = cuda.device_array(1, np.int32)
(elsewhere,) = counters(lambda: together[4, 32](y))
print(elsewhere in (first, second, third))
""",
        "devices=2",
    )
    assert said == ["3 True", "[0, 0, 0]", "False"]


def test_recorded_cooperative_launches_count_for_themselves_as_long_as_there_is_their_graph():
    said = lines(
        COOPERATIVE
        + """
stream = cuda.stream()
def record():
    with cuda.graph(stream) as graph:
        together[4, 32, stream](x)
        together[4, 32, stream](x)
    graphs.append(graph)

graphs = []
together[4, 32, stream](x)
(plain,) = counters(lambda: together[4, 32, stream](x))
first = counters(record)
second = counters(record)
print(len({plain, *first, *second}))
import gc
from haulage.runtime.devices import pending
graphs.clear()
gc.collect()
stream.synchronize()
pending.flush(current_device())
third = counters(record)
print(set(third) <= {*first, *second}, plain in third)
""",
    )
    assert said == ["5", "True False"]


def test_a_forked_child_is_told_so():
    said = lines(
        """
import os
x = backend.alloc(64, "device")
if (child := os.fork()) == 0:
    told(backend.activate, 0)
    backend.free(*x, "device")
    os._exit(0)
os.waitpid(child, 0)
backend.free(*x, "device")
""",
    )
    assert said[0].startswith("DeviceError 3 [3] process ")
    assert "used an AMD device or looked for it, and HIP does not work in such a child" in said[0]


@pytest.mark.parametrize(("rocm", "memory"), [(5, "driver"), (7, "pool")])
def test_a_program_leaves_nothing_behind(rocm, memory):
    said = lines(
        """
import gc
haulage.use("amd")

def once():
    stream, mark = cuda.stream(), cuda.event()
    x = cuda.to_device(np.arange(100_000.0).reshape(100, 1000), stream=stream)
    mark.record(stream)
    y = cuda.mapped_array(1000)
    with cuda.pinned(np.zeros(1 << 16)):
        assert x[::-1, ::3].copy_to_host()[0, 1] == 99_003
    stream.add_callback(lambda *_: None)
    stream.synchronize()

once()
gc.collect()
cuda.synchronize()
haulage.memory.trim()
before = double.alive()
for _ in range(3):
    once()
gc.collect()
cuda.synchronize()
haulage.memory.trim()
print(before == double.alive(), double.misuses(), before.get("stream", 0) < 4)
""",
        f"major={rocm}",
        HAULAGE_MEMORY=memory,
    )
    assert said == ["True (0, '') True"], said
