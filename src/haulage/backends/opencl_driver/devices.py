"""Platforms of OpenCL and their devices: which there are, and why one cannot be used."""

import contextlib
import ctypes
import functools
from dataclasses import dataclass, field
from typing import Any

from haulage.backends.opencl_driver import library
from haulage.backends.opencl_driver.calls import NO_PLATFORM, Calls
from haulage.errors import DeviceError

_ALL = 0xFFFFFFFF
# Figures of platforms, and those of devices.
_PLATFORM_VERSION, _PLATFORM_NAME = 0x0901, 0x0902
TYPE, MAX_COMPUTE_UNITS, MAX_WORK_GROUP_SIZE, MAX_WORK_ITEM_SIZES = 0x1000, 0x1002, 0x1004, 0x1005
MAX_CLOCK_FREQUENCY, ADDRESS_BITS, MAX_MEM_ALLOC_SIZE = 0x100C, 0x100D, 0x1010
MAX_PARAMETER_SIZE, GLOBAL_MEM_CACHE_SIZE, GLOBAL_MEM_SIZE = 0x1017, 0x101E, 0x101F
MAX_CONSTANT_BUFFER_SIZE, LOCAL_MEM_SIZE, AVAILABLE, COMPILER_AVAILABLE = (
    *(0x1020, 0x1023),
    *(0x1027, 0x1028),
)
NAME, VENDOR, DRIVER_VERSION, VERSION, EXTENSIONS = 0x102B, 0x102C, 0x102D, 0x102F, 0x1030
DOUBLE_FP_CONFIG, IL_VERSION, UUID, SUB_GROUP_SIZES = 0x1032, 0x105B, 0x106A, 0x4108
PCI_BUS_INFO = 0x410F
_DEVICE_MEMORY, _HOST_MEMORY, _SHARED_MEMORY, SYSTEM_MEMORY = 0x4191, 0x4190, 0x4192, 0x4194

GPU, PROCESSOR = 4, 2
_ACCESS = 1

_USM = "cl_intel_unified_shared_memory"
# Of a block, on all kinds of devices.
MOST_THREADS = 1024
# The lanes of warps of `cuda`, which kernels ask for.
_LANES = 32


@dataclass
class Device:
    """One device, `platform` and `handle` by OpenCL's numbers; `why_not` says what it lacks.

    `functions` are those of its driver's extensions, `context` is OpenCL's for it
    alone, `number` that of Haulage's device.
    """

    platform: int
    handle: int
    platform_name: str
    name: str
    kind: int
    extensions: frozenset[str]
    why_not: str = ""
    reaches_all: bool = False
    functions: dict[str, Any] = field(default_factory=dict)
    context: int = 0
    number: int = 0

    @property
    def kind_name(self) -> str:
        """'GPU', 'CPU' or 'accelerator'."""
        return {GPU: "GPU", PROCESSOR: "CPU"}.get(self.kind, "accelerator")


def handles(calls: Calls, name: str, *args: Any) -> list[int]:
    """What a function writes that gives several handles and how many there are."""
    count = ctypes.c_uint32()
    calls(name, *args, 0, None, ctypes.addressof(count))
    room = (ctypes.c_void_p * count.value)()
    calls(name, *args, count.value, ctypes.addressof(room), None)
    return [handle or 0 for handle in room]


@functools.cache
def all_devices(calls: Calls) -> tuple[list[str], list[Device]]:
    """(the platforms, in words; their devices, of which those without `why_not` can be used)."""
    try:
        platforms = handles(calls, "clGetPlatformIDs")
    except DeviceError as error:
        if error.code == NO_PLATFORM:
            return [], []
        raise
    words, found = [], []
    for platform in platforms:
        name = calls.text("clGetPlatformInfo", platform, _PLATFORM_NAME)
        version = calls.text("clGetPlatformInfo", platform, _PLATFORM_VERSION)
        words.append(f"{name} ({version})")
        try:
            of_platform = handles(calls, "clGetDeviceIDs", platform, _ALL)
        except DeviceError:
            continue  # a platform without devices says so by a failure
        found += [_device(calls, platform, name, handle) for handle in of_platform]
    return words, found


def _device(calls: Calls, platform: int, platform_name: str, handle: int) -> Device:
    def number(which: int) -> int:
        return calls.number("clGetDeviceInfo", handle, which)

    device = Device(
        platform,
        handle,
        platform_name,
        calls.text("clGetDeviceInfo", handle, NAME),
        number(TYPE) & (GPU | PROCESSOR),
        frozenset(calls.text("clGetDeviceInfo", handle, EXTENSIONS).split()),
    )
    device.why_not = _missing(calls, device)
    if not device.why_not:
        device.reaches_all = bool(number(SYSTEM_MEMORY) & _ACCESS)
        _add_functions(calls, device)
    return device


def _missing(calls: Calls, device: Device) -> str:
    """Why a device cannot be used, or nothing."""
    if not calls.number("clGetDeviceInfo", device.handle, AVAILABLE):
        return "its driver says that it is not available"
    if calls.number("clGetDeviceInfo", device.handle, ADDRESS_BITS) != 64:
        return "it has addresses of 32 bits"
    languages = ""
    # Drivers before OpenCL 2.1 do not know the question.
    with contextlib.suppress(DeviceError):
        languages = calls.text("clGetDeviceInfo", device.handle, IL_VERSION)
    if "SPIR-V" not in languages:
        return "its driver takes no SPIR-V (OpenCL 2.1, or cl_khr_il_program)"
    if _USM not in device.extensions:
        return f"its driver has no unified shared memory ({_USM})"
    kinds = {"device": _DEVICE_MEMORY, "host": _HOST_MEMORY, "shared": _SHARED_MEMORY}
    for kind, which in kinds.items():
        if not calls.number("clGetDeviceInfo", device.handle, which) & _ACCESS:
            return f"its driver has no {kind} memory of {_USM}"
    if _LANES not in sub_group_sizes(calls, device):
        return f"it has no sub-groups of {_LANES} (cl_intel_required_subgroup_size)"
    return ""


def sub_group_sizes(calls: Calls, device: Device) -> tuple[int, ...]:
    """Those that a kernel can ask for."""
    if "cl_intel_required_subgroup_size" not in device.extensions:
        return ()
    told = calls.asked("clGetDeviceInfo", device.handle, SUB_GROUP_SIZES)
    return tuple(int.from_bytes(told[at : at + 8], "little") for at in range(0, len(told), 8))


def _add_functions(calls: Calls, device: Device) -> None:
    for name in (*library.UNIFIED_SHARED_MEMORY, *library.CONCURRENT_DISPATCH):
        function = library.extension(calls.library, device.platform, name)
        if function is not None:
            device.functions[name] = function
    lacking = [name for name in library.UNIFIED_SHARED_MEMORY if name not in device.functions]
    if lacking:
        device.why_not = f"its driver names {_USM} and has no {', '.join(lacking)}"


def usable(calls: Calls) -> list[Device]:
    """The devices that can be used, GPUs first."""
    found = [device for device in all_devices(calls)[1] if not device.why_not]
    found.sort(key=lambda device: device.kind == PROCESSOR)
    for number, device in enumerate(found):
        device.number = number
    return found
