"""Launches of the NVIDIA back end; the driver is `doubles.libcuda`, the kernels are PTX."""

import re

from doubles.nvidia_programs import NVIDIAPrograms
from doubles.ptxas import ARCHITECTURES, assemble
from haulage.backends.nvidia_driver import kernels
from support.nvidia_children import needs_compiler, run

START = """
import struct
import numpy as np
from doubles.libcuda.reading import Reading
from doubles.nvidia_programs import NVIDIAPrograms
from haulage.backends.nvidia import NVIDIABackend
from haulage.backends.base import DEVICE, KernelStopped
from haulage.errors import DeviceError

double.interpret(Reading())
backend = NVIDIABackend()
backend.activate(0)
module = backend.load(NVIDIAPrograms().code())
chain = backend.function(module, "chain")
cell, _ = backend.alloc(8, DEVICE)
backend.fill(cell, bytes(8), 1, 0)

def arguments(a, b):
    return struct.pack("@Pqqq", cell, a, b, 1)

def value():
    backend.synchronize()
    host = np.zeros(1, np.int64)
    backend.copy(host.ctypes.data, cell, 8, 0)
    backend.synchronize()
    return int(host[0])

ONE = (1, 1, 1)
"""


@needs_compiler
def test_a_prepared_launch_makes_its_devices_context_current():
    said = run(
        START
        + """
header, start = backend.prepare_launch(0, chain, ONE, ONE, 0)
start(0, header + arguments(0, 5))
backend.activate(1)
start(0, header + arguments(10, 3))
print(backend._contexts.device(), value())
""",
        "devices=2",
    )
    assert said.split() == ["0", "53"]


@needs_compiler
def test_a_launch_that_is_refused_names_the_kernel_and_what_was_asked():
    said = run(
        START
        + """
double.fail("cuLaunchKernel", 701)
try:
    backend.launch(chain, (7, 1, 1), (64, 1, 1), 128, 0, arguments(0, 1))
except DeviceError as error:
    print(error)
backend.launch(chain, ONE, ONE, 0, 0, arguments(0, 4))
print(value())
"""
    )
    refused, after = said.splitlines()
    assert (
        "cuLaunchKernel of chain with (7, 1, 1) blocks of (64, 1, 1) threads, 128 bytes of dynamic "
        "shared memory and 32 bytes of arguments in the default stream: CUDA_ERROR_LAUNCH_OUT_OF"
    ) in refused
    assert "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" in refused
    assert "max_registers" in refused
    assert after == "4"


@needs_compiler
def test_a_grid_whose_blocks_are_all_there_takes_the_same_arguments():
    said = run(
        START
        + """
backend.launch_cooperative(chain, (4, 1, 1), ONE, 0, 0, arguments(0, 9))
print(value(), backend.max_cooperative_blocks(chain, 64, 0, 0))
try:
    backend.launch_cooperative(chain, (1 << 20, 1, 1), ONE, 0, 0, arguments(0, 9))
except DeviceError as error:
    print(error)
"""
    )
    assert said.split()[:2] == ["9", "128"]
    assert "cuLaunchKernelEx of chain with (1048576, 1, 1) blocks of (1, 1, 1) threads" in said
    assert "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE" in said


@needs_compiler
def test_faults_of_two_modules_are_raised_one_after_the_other():
    said = run(
        START
        + """
room, _ = backend.alloc(64, DEVICE)
stops = [backend.function(backend.load(NVIDIAPrograms().code()), "stop") for _ in range(2)]
for code, stop in enumerate(stops, 41):
    backend.launch(stop, (2, 1, 1), ONE, 0, 0, struct.pack("@Pq", room, code))
backend._streams.synchronize(0)
for _ in range(2):
    try:
        backend.stream_synchronize(0)
    except KernelStopped as stopped:
        print(stops.index(stopped.function), stopped.code)
backend.stream_synchronize(0)
"""
    )
    assert said.splitlines() == ["0 41", "1 42"]


def test_the_back_ends_own_kernels_assemble_for_every_architecture():
    for text in (kernels.text(), NVIDIAPrograms().code().decode()):
        for architecture in ARCHITECTURES:
            assemble(
                re.sub(r"(?m)^\.target \w+", f".target {architecture}", text)
                .replace(".version 6.0", ".version 8.7")
                .replace(".version 6.3", ".version 8.7")
            )
