"""What AMD's devices tell of themselves.

The numbers of hipDeviceAttribute_t are the same from ROCm 5 to 7: since 6 those that are gone are
kept as unused ones, and new ones come at the end of their group. The architecture is told by
hipDeviceProp_t only, whose layout is another one since ROCm 6, and may be so again. So the runtime
fills more memory than any of its versions writes, and the architecture is the text of this form in
it: one that agrees with the attributes, or the device is refused.
"""

import ctypes
import re
import uuid

from haulage.backends.amd_driver.calls import Calls
from haulage.backends.attributes import NONE
from haulage.backends.base import Properties
from haulage.errors import DeviceError

# Attributes, in the order of their numbers, by CUDA's names for them where it has any.
_FIRST_ATTRIBUTES = """
ECC_ENABLED _ ASYNC_ENGINE_COUNT CAN_MAP_HOST_MEMORY CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
CLOCK_RATE COMPUTE_MODE COMPUTE_PREEMPTION_SUPPORTED CONCURRENT_KERNELS CONCURRENT_MANAGED_ACCESS
COOPERATIVE_LAUNCH COOPERATIVE_MULTI_DEVICE_LAUNCH GPU_OVERLAP
DIRECT_MANAGED_MEM_ACCESS_FROM_HOST GLOBAL_L1_CACHE_SUPPORTED HOST_NATIVE_ATOMIC_SUPPORTED
INTEGRATED MULTI_GPU_BOARD KERNEL_EXEC_TIMEOUT L2_CACHE_SIZE LOCAL_L1_CACHE_SUPPORTED _ _
COMPUTE_CAPABILITY_MAJOR MANAGED_MEMORY MAX_BLOCKS_PER_MULTIPROCESSOR
MAX_BLOCK_DIM_X MAX_BLOCK_DIM_Y MAX_BLOCK_DIM_Z MAX_GRID_DIM_X MAX_GRID_DIM_Y MAX_GRID_DIM_Z
_ _ _ _ _ _ _
MAX_TEXTURE_1D_WIDTH _ MAX_TEXTURE_1D_LINEAR_WIDTH _
MAX_TEXTURE_2D_WIDTH MAX_TEXTURE_2D_HEIGHT _ _ _ _
MAX_TEXTURE_3D_WIDTH MAX_TEXTURE_3D_HEIGHT MAX_TEXTURE_3D_DEPTH _ _ _
_ MAX_THREADS_PER_BLOCK MAX_THREADS_PER_MULTIPROCESSOR MAX_PITCH
GLOBAL_MEMORY_BUS_WIDTH MEMORY_CLOCK_RATE COMPUTE_CAPABILITY_MINOR MULTI_GPU_BOARD_GROUP_ID
MULTIPROCESSOR_COUNT _ PAGEABLE_MEMORY_ACCESS PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES
PCI_BUS_ID PCI_DEVICE_ID PCI_DOMAIN_ID _ MAX_REGISTERS_PER_BLOCK
MAX_REGISTERS_PER_MULTIPROCESSOR _ MAX_SHARED_MEMORY_PER_BLOCK _ _ _
STREAM_PRIORITIES_SUPPORTED SURFACE_ALIGNMENT _ TEXTURE_ALIGNMENT TEXTURE_PITCH_ALIGNMENT
TOTAL_CONSTANT_MEMORY _ UNIFIED_ADDRESSING _ WARP_SIZE MEMORY_POOLS_SUPPORTED
VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED HOST_REGISTER_SUPPORTED
"""
_AMD_ATTRIBUTES = {
    "CLOCK_INSTRUCTION_RATE": 10000,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 10002,
    "IS_LARGE_BAR": 10011,
    "ASIC_REVISION": 10012,
    "IMAGE_SUPPORT": 10014,
    "PHYSICAL_MULTIPROCESSOR_COUNT": 10015,
    "FINE_GRAIN_SUPPORT": 10016,
    # Since ROCm 5.3: kilohertz of the clock that all processors have.
    "WALL_CLOCK_RATE": 10017,
}
ATTRIBUTES = {
    name: number for number, name in enumerate(_FIRST_ATTRIBUTES.split()) if name != "_"
} | _AMD_ATTRIBUTES

# Numba's second names for some.
_OTHERWISE = {
    "MAX_THREADS_PER_MULTI_PROCESSOR": "MAX_THREADS_PER_MULTIPROCESSOR",
    "IS_MULTI_GPU_BOARD": "MULTI_GPU_BOARD",
}

# Whose instructions take small floats: the MI100 and what came after it, RDNA 3 and later.
_FLOATS = {
    "float16": re.compile("gfx.*"),
    "bfloat16": re.compile("gfx(908|90a|9[4-9].|1[1-9]..)"),
    "fp8": re.compile("gfx(9[4-9].|1[2-9]..)"),
}

# The version of CUDA whose words kernels and programs can use.
_CUDA = (12, 0)

# Without these there is no telling what the device is.
_NEEDED = (
    *("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "MULTIPROCESSOR_COUNT", "WARP_SIZE"),
    *(f"MAX_{what}_DIM_{axis}" for what in ("BLOCK", "GRID") for axis in "XYZ"),
    *("MAX_THREADS_PER_BLOCK", "MAX_SHARED_MEMORY_PER_BLOCK"),
)

# hipDeviceProp_t has 792 bytes in ROCm 5, 1472 in 6 and 7. It begins with the device's name.
_ROOM = 64 << 10
_NAME = 256
_ARCHITECTURE = re.compile(rb"\0(gfx([0-9]{1,2})([0-9a-f])([0-9a-f]))((?::[a-z]+[+-])*)\0")

_TEXT = 256
# What the runtime gives for what it, or a device, does not have.
_UNKNOWN = (1, 801)


def properties(calls: Calls, device: int) -> Properties:
    """What `device` is, as `Backend.properties` gives it."""
    figures = _figures(calls, device)
    missing = [name for name in _NEEDED if name not in figures]
    if missing:
        raise DeviceError(f"AMD device {device} does not tell {', '.join(missing)}")
    architecture, features = _architecture(calls, device, figures)
    bus = _text(calls, "hipDeviceGetPCIBusId", device)
    details = {"bus": bus, "ROCm": ".".join(map(str, calls.version))}
    if features:
        details["features"] = features
    return Properties(
        name=_text(calls, "hipDeviceGetName", device) or architecture,
        compute_capability=(
            figures["COMPUTE_CAPABILITY_MAJOR"],
            figures["COMPUTE_CAPABILITY_MINOR"],
        ),
        multiprocessors=figures["MULTIPROCESSOR_COUNT"],
        warp_size=figures["WARP_SIZE"],
        max_threads_per_block=figures["MAX_THREADS_PER_BLOCK"],
        max_block=_extents(figures, "BLOCK"),
        max_grid=_extents(figures, "GRID"),
        max_static_shared=figures["MAX_SHARED_MEMORY_PER_BLOCK"],
        max_dynamic_shared=figures["MAX_SHARED_MEMORY_PER_BLOCK"],
        total_memory=calls.size("hipDeviceTotalMem", device),
        architecture=architecture,
        uuid=_uuid(calls, device, bus),
        runtime=_CUDA,
        # What the explicit arguments of a kernel can take.
        max_argument_bytes=4096,
        # A launch's packet counts threads, in 32 bits; not all versions of ROCm refuse more.
        max_axis_threads=(1 << 32) - 1,
        stages_copies=True,
        pins_for_all=True,
        floats=floats(architecture),
        figures=dict.fromkeys(NONE, 0)
        | figures
        | {name: figures[other] for name, other in _OTHERWISE.items() if other in figures},
        details=details,
    )


def floats(architecture: str) -> tuple[str, ...]:
    """Which of float16, bfloat16 and fp8 an architecture has instructions for."""
    return tuple(name for name, which in _FLOATS.items() if which.fullmatch(architecture))


def _figures(calls: Calls, device: int) -> dict[str, int]:
    known = ((name, _attribute(calls, device, number)) for name, number in ATTRIBUTES.items())
    return {name: value for name, value in known if value is not None}


def attribute(calls: Calls, device: int, name: str) -> int:
    """One of the figures; 0 where the runtime does not know it."""
    return _attribute(calls, device, ATTRIBUTES[name]) or 0


def _attribute(calls: Calls, device: int, number: int) -> int | None:
    """None: the runtime does not know it, as an older one the latest."""
    value = ctypes.c_int()
    status = calls.status("hipDeviceGetAttribute", ctypes.byref(value), number, device)
    if status and status not in _UNKNOWN:
        raise calls.failed("hipDeviceGetAttribute", (number, device), status)
    return None if status else value.value


def _extents(figures: dict[str, int], what: str) -> tuple[int, int, int]:
    x, y, z = (figures[f"MAX_{what}_DIM_{axis}"] for axis in "XYZ")
    return x, y, z


def _text(calls: Calls, function: str, device: int) -> str:
    text = ctypes.create_string_buffer(_TEXT)
    calls(function, ctypes.addressof(text), _TEXT, device)
    return text.value.decode(errors="replace").strip()


def _architecture(calls: Calls, device: int, figures: dict[str, int]) -> tuple[str, str]:
    """(the architecture, as 'gfx90a'; what it has switched on or off, as 'sramecc+:xnack-')."""
    newer = "hipGetDevicePropertiesR0600"
    told = ctypes.create_string_buffer(_ROOM)
    function = newer if calls.has(newer) else "hipGetDeviceProperties"
    calls(function, ctypes.addressof(told), device)
    texts = {match.groups() for match in _ARCHITECTURE.finditer(told.raw, _NAME)}
    if len(texts) == 1:
        ((name, major, minor, _, features),) = texts
        # 9.4.2 is gfx942 and 10.3.0 gfx1030; the attributes have the first two numbers.
        agree = (int(major), int(minor, 16)) == (
            figures["COMPUTE_CAPABILITY_MAJOR"],
            figures["COMPUTE_CAPABILITY_MINOR"],
        )
        if agree:
            return name.decode(), features.decode().lstrip(":")
    found = ", ".join(sorted(match[0].decode() for match in texts)) or "none"
    told_version = "{COMPUTE_CAPABILITY_MAJOR}.{COMPUTE_CAPABILITY_MINOR}".format_map(figures)
    raise DeviceError(
        f"the architecture of AMD device {device} cannot be told: {function} names {found}, and "
        f"its attributes {told_version}; this version of ROCm is not known to Haulage"
    )


def _uuid(calls: Calls, device: int, bus: str) -> str:
    """What no other device has, made of its number and its place: parts of one GPU may have the
    same number, and not all GPUs have one."""
    own = ctypes.create_string_buffer(16)
    if calls.has("hipDeviceGetUuid"):
        status = calls.status("hipDeviceGetUuid", ctypes.addressof(own), device)
        if status and status not in _UNKNOWN:
            raise calls.failed("hipDeviceGetUuid", (device,), status)
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, own.raw.hex() + bus)}"
