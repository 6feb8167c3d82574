"""What the NVIDIA back end makes of the driver's failures; the driver is `doubles.libcuda`."""

import pytest

from support.nvidia_children import needs_compiler, run

pytestmark = needs_compiler

START = """
import numpy as np
import haulage
from haulage import cuda
from haulage.backends.nvidia import NVIDIABackend

def told(call, *args):
    try:
        call(*args)
    except BaseException as error:
        print(type(error).__name__, getattr(error, "code", None), error)
    else:
        print("no error")

class Interpreter:
    pass

backend = NVIDIABackend()
backend.activate(0)
"""


def lines(program: str, options: str = "", **environment: str) -> list[str]:
    """What each call of `told` in a program printed."""
    return run(START + program, options, **environment).splitlines()


def test_a_failure_has_the_drivers_name_and_words_and_what_was_asked():
    (said,) = lines("double.fail('cuStreamWaitEvent', 400)\ntold(backend.stream_wait_event, 0, 64)")
    assert said.startswith(
        "DeviceError 400 [400] cuStreamWaitEvent(0, 64, 0): CUDA_ERROR_INVALID_HANDLE: invalid "
        "resource handle; "
    )


def test_a_context_that_others_destroyed_and_devices_out_of_reach_are_told_so():
    said = lines(
        """
address, _ = backend.alloc(4096, "managed")
double.fail("cuMemPrefetchAsync", 101)
told(backend.prefetch, address, 4096, 0, 0)
double.fail("cuStreamCreateWithPriority", 709)
told(backend.stream_create)
double.fail("cuCtxEnablePeerAccess", 217)
told(backend.peer_enable, 0, 1)
""",
        "devices=2",
    )
    assert "does not move managed memory ahead" in said[0]
    assert "another library has destroyed the context" in said[1]
    assert "cannot reach each other's memory" in said[2]


def test_a_failure_without_a_name_gives_its_number():
    (said,) = lines("double.fail('cuEventCreate', 998)\ntold(backend.event_create)")
    assert said.startswith("DeviceError 999 cuEventCreate: the driver's answer is none")
    assert "998" in said


def test_memory_that_is_not_there_is_told_with_what_is_free():
    device, host, later = lines(
        """
told(backend.alloc, 3 << 20, "device")
told(backend.alloc, 1 << 50, "pinned")
backend.free(*backend.alloc(1 << 19, "device"), "device")
double.fail("cuStreamCreateWithPriority", 2)
told(backend.stream_create)
""",
        "memory=2 << 20",
    )
    assert "no room for 3,145,728 bytes of device memory: 2,097,152 of 2,097,152 bytes" in device
    assert device.startswith("OutOfMemory 2 ")
    assert "the host has no room for" in host
    assert later.startswith("OutOfMemory 2 cuStreamCreateWithPriority(0, 0): ")
    assert "2,097,152 of 2,097,152 bytes are free" in later


def test_after_an_illegal_address_all_calls_say_so_and_name_the_kernel():
    first, second, third = lines(
        """
backend._calls.names.update({1: "scale", 2: "shift"})
backend._calls.last[0] = 1
double.lose(700)
told(backend.synchronize)
backend._calls.last[64] = 2  # what came later cannot have been it
told(backend.stream_create)
told(backend.alloc, 8, "device")
"""
    )
    for said in (first, second, third):
        assert "CUDA_ERROR_ILLEGAL_ADDRESS" in said
        assert "Kernel scale was running, or was launched last." in said
        assert "shift" not in said
        assert "compute-sanitizer" in said
        assert "debug=True" in said


def test_of_several_streams_each_ones_last_kernel_is_named():
    (said,) = lines(
        """
backend._calls.names.update({1: "scale", 2: "shift"})
backend._calls.last.update({0: 1, 64: 2})
double.lose(719)
told(backend.synchronize)
"""
    )
    assert "Launched last: scale in the default stream, shift in stream 0x40." in said


PROGRAM = """
from doubles.libcuda.reading import Reading

double.interpret(Reading())
device = haulage.use("nvidia")

@cuda.jit
def scale(x):
    x[cuda.grid(1)] *= 2

@cuda.jit
def shift(x):
    x[cuda.grid(1)] += 1
"""


def test_the_kernel_that_ran_is_named_not_the_one_whose_launch_told_of_it():
    said = lines(
        PROGRAM
        + """
x, other = cuda.to_device(np.ones(4)), cuda.stream()
scale[1, 4](x)
shift[1, 4, other](x)
cuda.synchronize()
del other
scale[1, 4](x)
double.lose(700)
told(shift[1, 4], x)
told(scale[1, 4], x)
told(x.copy_to_host)
told(cuda.to_device, np.ones(3))
told(cuda.stream)
told(cuda.synchronize)
told(cuda.event)
told(haulage.memory.trim)
"""
    )
    assert len(said) == 8
    for each in said:
        assert each.startswith("DeviceError 700 ")
        assert "Launched last: scale in the default stream, shift in stream 0x" in each
        assert "all later calls fail: start it anew" in each


def test_a_coroutine_that_waits_for_a_stream_hears_of_a_lost_device():
    (said,) = lines(
        """
import asyncio, threading
haulage.use("nvidia")

async def waits():
    stream, go_on = cuda.stream(), threading.Event()
    stream.add_callback(lambda *_: go_on.wait(60))
    future = stream.async_done()
    double.lose(700)
    go_on.set()
    await asyncio.wait_for(future, 60)

told(asyncio.run, waits())
"""
    )
    assert said.startswith("DeviceError 700 [700] cuEventQuery(")


def test_rows_whose_pitch_the_driver_refuses_are_copied_by_a_kernel():
    said = lines(
        PROGRAM
        + """
numbers = np.arange(6 * 5 * 100.0).reshape(6, 5, 100)
source = cuda.to_device(numbers)
target = cuda.to_device(np.zeros_like(numbers))
double.fail("cuMemcpy2DAsync", 1, times=99)
double.fail("cuMemcpy3DAsync", 1, times=99)
target[:, 1:4, 3:60].copy_to_device(source[:, 1:4, 3:60])
target[2, :, 70:].copy_to_device(source[2, :, 70:])
expected = np.zeros_like(numbers)
expected[:, 1:4, 3:60] = numbers[:, 1:4, 3:60]
expected[2, :, 70:] = numbers[2, :, 70:]
print(np.array_equal(target.copy_to_host(), expected))
print(double.calls("cuMemcpy2DAsync") > 0, double.calls("cuMemcpy3DAsync") > 0)
double.fail("cuMemcpy2DAsync", 719)
told(target[2, :, 70:].copy_to_device, source[2, :, 70:])
"""
    )
    assert said[:2] == ["True", "True True"]
    assert said[2].startswith("DeviceError 719 [719] cuMemcpy2DAsync(")


def test_streams_that_come_and_go_leave_nothing_but_the_last_kernels():
    count, said = lines(
        PROGRAM
        + """
x = cuda.to_device(np.ones(4))
for _ in range(100):
    shift[1, 4, cuda.stream()](x)
cuda.synchronize()
calls = haulage.devices()[0].backend._calls
# On a busy machine x has more streams that are not seen to be done: each use looks at two of them.
for _ in range(100):
    shift[1, 4, cuda.stream()](x)
    cuda.synchronize()
print(len(calls.last) + len(calls.ended))
double.lose(700)
told(cuda.synchronize)
"""
    )
    assert 1 < int(count) < 30
    assert "shift in a stream that is gone" in said


def test_a_graph_that_was_running_is_named():
    (said,) = lines(
        PROGRAM
        + """
x = cuda.to_device(np.ones(4))
with cuda.graph() as graph:
    shift[1, 4](x)
backend = haulage.devices()[0].backend
backend._calls.last.clear()
backend._calls.ended.clear()
graph.launch()
double.lose(719)
told(cuda.synchronize)
"""
    )
    assert "A graph was running, or was launched last." in said


def test_a_lost_device_is_given_back_quietly_and_haulage_info_still_tells():
    said = lines(
        PROGRAM
        + """
import gc
from haulage.cli import main

x, y, stream, event = cuda.to_device(np.ones(4)), cuda.mapped_array(9), cuda.stream(), cuda.event()
pinned, big = cuda.pinned_array(100), cuda.device_array(10 << 20)
scale[1, 4, stream](x)
event.record(stream)
stream.synchronize()
double.lose(700)
told(cuda.synchronize)
del y, stream, event, big
gc.collect()
print("given back")
sys.argv = ["haulage", "info"]
status = main()
print("info gave", status)
"""
    )
    assert said[0].startswith("DeviceError 700 ")
    assert said[1] == "given back"
    assert said[-1] == "info gave 0"
    told = next(line for line in said if line.startswith("  nvidia:0"))
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in told


@pytest.mark.parametrize("found_by", ["del event", ""])
def test_the_end_of_a_program_tells_of_a_lost_device_that_nothing_told_of(found_by):
    said = run(
        START
        + PROGRAM
        + f"""
@cuda.jit
def may_fail(x):
    if x[0] == 7:
        raise ValueError

x, event = cuda.to_device(np.ones(4)), cuda.event()
may_fail[1, 4](x)
cuda.synchronize()
double.lose(700)
{found_by}
"""
    )
    assert said.startswith("haulage: nothing waited for work that failed: DeviceError: [700] ")
    assert "Kernel may_fail was running" in said


def test_code_that_is_refused_brings_the_assemblers_log():
    said = lines(
        """
from doubles import libcuda

class Refusing(libcuda.Interpreter):
    def load(self, code):
        raise libcuda.Refused(218, "ptxas application ptx input, line 7; error: wrong")

double.interpret(Refusing())
told(backend.load, b".version 99")
"""
    )
    assert "CUDA_ERROR_INVALID_PTX" in said[0]
    assert said[1] == "ptxas application ptx input, line 7; error: wrong"


def test_what_gives_something_back_goes_on_after_a_failure():
    said = lines(
        """
device, host = backend.alloc(100, "pinned")
double.fail("cuMemHostGetDevicePointer", 1)
told(backend.alloc, 100, "pinned")
backend.free(device, host, "pinned")
print(double.calls("cuMemHostAlloc"), double.calls("cuMemFreeHost"))
"""
    )
    assert said[1] == "2 2", "memory without an address for the device is lost"


def test_a_mapping_that_fails_midway_leaves_nothing():
    said = lines(
        """
part = backend.granularity()
start = backend.reserve(8 * part)
free = backend.memory_info()[0]
double.fail("cuMemCreate", 2, after=3)
told(backend.map, start, 8 * part)
print(backend.memory_info()[0] == free)
double.fail("cuMemSetAccess", 1)
told(backend.map, start, 8 * part)
print(backend.memory_info()[0] == free)
backend.map(start, 8 * part)
backend.unmap(start, 8 * part)
backend.release(start, 8 * part)
"""
    )
    assert said[0].startswith("OutOfMemory")
    assert said[1] == said[3] == "True"


def test_functions_that_an_older_driver_lacks_are_unsupported():
    (said,) = lines(
        """
told(backend._calls, "StreamGetDevice", 0)
""",
        "version=12020",
    )
    assert said.startswith("Unsupported 801 cuStreamGetDevice: the NVIDIA driver is too old for it")


def test_an_old_driver_times_events():
    (said,) = lines(
        """
start, end = backend.event_create(), backend.event_create()
backend.event_record(start, 0)
backend.event_record(end, 0)
backend.synchronize()
print(0 <= backend.event_elapsed(start, end) < 1000)
""",
        "version=12020",
    )
    assert said == "True"


def test_a_forked_child_says_that_it_cannot_and_gives_nothing_back():
    said = lines(
        """
import os
haulage.use("nvidia")
array = cuda.to_device(np.ones(3))
sys.stdout.flush()
child = os.fork()
if not child:
    told(array.copy_to_host)
    told(cuda.to_device, np.ones(3))
    del array
    sys.stdout.flush()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(array.copy_to_host())
"""
    )
    assert "forked" in said[0]
    assert "multiprocessing.get_context('spawn')" in said[0]
    assert "forked" in said[1]
    assert said[2:] == ["7", "[1. 1. 1.]"]


def test_a_child_that_was_forked_after_a_look_at_the_devices_is_told_how_to_start_processes():
    # The driver was initialised by the look.
    said = run(
        """
        import os
        import numpy as np
        import haulage
        from haulage import cuda
        assert haulage.devices()
        if not os.fork():
            try:
                cuda.to_device(np.ones(3))
            except Exception as error:
                print(error, flush=True)
            os._exit(0)
        os.wait()
        """,
        HAULAGE_DEVICE="nvidia",
    )
    assert "was forked from one that had used an NVIDIA device or looked for it" in said
    assert "multiprocessing.get_context('spawn')" in said


def test_contexts_of_others_give_way_to_the_primary_one():
    said = lines(
        """
from cuda.bindings import driver
_, other = driver.cuCtxCreate(None, 0, 0)
haulage.use("nvidia")
print(cuda.to_device(np.ones(2)).copy_to_host())
print(int(driver.cuCtxGetCurrent()[1]) == backend._contexts.of(0) != int(other))
"""
    )
    assert said == ["[1. 1.]", "True"]


def test_each_device_has_its_own_memory_and_peers_reach_it():
    said = lines(
        """
zero, one = haulage.devices()[:2]
print(zero, one, zero.uuid != one.uuid)
arrays = []
for device in (one, zero):
    with haulage.use(device):
        arrays.append(cuda.to_device(np.full(3, device.id)))
print([array.copy_to_host().tolist() for array in arrays])
print(one.backend.can_access_peer(0, 1), one.backend.can_access_peer(0, 0))
zero.backend.peer_enable(0, 1)
zero.backend.peer_enable(0, 1)
print(double.calls("cuCtxEnablePeerAccess"))
""",
        "devices=2",
    )
    assert said == ["nvidia:0 nvidia:1 True", "[[1, 1, 1], [0, 0, 0]]", "True False", "2"]


def test_managed_memory_is_moved_and_advised():
    said = lines(
        """
address, _ = backend.alloc(4096, "managed")
backend.prefetch(address, 4096, 0, 0)
backend.prefetch(address, 4096, -1, 0)
backend.advise(address, 4096, "set_preferred_location", -1)
told(backend.prefetch, backend.alloc(8, "device")[0], 8, 0, 0)
""",
        "version=12020",
    )
    assert said[0].startswith("DeviceError 1 ")
    assert len(said) == 1


KEPT = """
import warnings
from doubles import libcuda
from doubles.libcuda.reading import Reading
from haulage.compiler.gpu.nvidia import assembler

class Older(Reading):
    def load(self, code):
        if code.startswith(b"\\x7fELF"):
            raise libcuda.Refused(209, "the cubin is newer")
        if takes_ptx:
            return super().load(code)
        raise libcuda.Refused(222, "ptxas application ptx input, line 7; fatal: too new")

double.attribute(75, 8)
double.attribute(76, 6)
double.interpret(Older())
assembler.is_there = lambda: True
# A header whose table of sections is behind it, and empty.
assembler.machine_code = lambda ptx: b"\\x7fELF" + bytes(36) + b"\\x40" + bytes(23)
device = haulage.use("nvidia")

@cuda.jit(cache=True)
def scale(x):
    x[cuda.grid(1)] *= 2

@cuda.jit(cache=True)
def shift(x):
    x[cuda.grid(1)] += 1
"""


def test_kept_machine_code_that_the_driver_refuses_is_told_of_once(tmp_path):
    # A kernel of a program that is no file is not kept.
    program = tmp_path / "program.py"
    program.write_text(
        KEPT
        + """
x = cuda.to_device(np.ones(4))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    scale[1, 4](x)
    shift[1, 4](x)
print(x.copy_to_host().tolist())
for each in caught:
    print(each.category.__name__, each.message)
"""
    )
    values, *told = lines(
        f"takes_ptx = True\nexec(compile(open({str(program)!r}).read(), {str(program)!r}, 'exec'))",
        HAULAGE_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert values == "[3.0, 3.0, 3.0, 3.0]"
    assert told[0].startswith(
        "CacheWarning kernel scale: the driver does not take the machine code that the cache has"
    )
    assert "[209] " in told[0]
    assert "the cubin is newer" in told[1]
    assert len(told) == 2


def test_ptx_that_is_refused_as_well_brings_the_assemblers_log(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(KEPT + "\ntold(scale[1, 4], cuda.to_device(np.ones(4)))")
    said = "\n".join(
        lines(
            f"takes_ptx = False\n"
            f"exec(compile(open({str(program)!r}).read(), {str(program)!r}, 'exec'))",
            HAULAGE_CACHE_DIR=str(tmp_path / "cache"),
        )
    )
    assert "DeviceError 222 [222] cuModuleLoadDataEx(" in said
    assert "update the driver" in said
    assert "ptxas application ptx input, line 7; fatal: too new" in said
