"""What AMD's devices tell of themselves.

The architecture is told by hipDeviceProp_t only, whose layout is another one since ROCm 6, and may
be so again. So the runtime fills more memory than any of its versions writes, and the architecture
is the text of this form in it: one that agrees with the attributes, or the device is refused.
"""

import ctypes
import re
import uuid

from haulage.backends.amd_driver.attributes import ATTRIBUTES
from haulage.backends.amd_driver.calls import UNKNOWN, Calls
from haulage.backends.attributes import NONE
from haulage.backends.base import Properties
from haulage.backends.gpu_driver import figures
from haulage.errors import DeviceError

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


def properties(calls: Calls, device: int) -> Properties:
    """What `device` is, as `Backend.properties` gives it."""
    found = _figures(calls, device)
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        raise DeviceError(f"AMD device {device} does not tell {', '.join(missing)}")
    architecture, features = _architecture(calls, device, found)
    bus = _text(calls, "DeviceGetPCIBusId", device)
    details = {"bus": bus, "ROCm": ".".join(map(str, calls.version))}
    if features:
        details["features"] = features
    return figures.properties(
        calls,
        device,
        found,
        name=_text(calls, "DeviceGetName", device) or architecture,
        architecture=architecture,
        uuid=_uuid(calls, device, bus),
        runtime=_CUDA,
        # What the explicit arguments of a kernel can take.
        max_argument_bytes=4096,
        # A launch's packet counts threads, in 32 bits; not all versions of ROCm refuse more.
        max_axis_threads=(1 << 32) - 1,
        floats=floats(architecture),
        figures=dict.fromkeys(NONE, 0) | figures.with_other_names(found),
        details=details,
    )


def floats(architecture: str) -> tuple[str, ...]:
    """Which of float16, bfloat16 and fp8 an architecture has instructions for."""
    return tuple(name for name, which in _FLOATS.items() if which.fullmatch(architecture))


def _figures(calls: Calls, device: int) -> dict[str, int]:
    known = ((name, calls.known_attribute(device, number)) for name, number in ATTRIBUTES.items())
    return {name: value for name, value in known if value is not None}


def _text(calls: Calls, function: str, device: int) -> str:
    text = ctypes.create_string_buffer(_TEXT)
    calls(function, ctypes.addressof(text), _TEXT, device)
    return text.value.decode(errors="replace").strip()


def _architecture(calls: Calls, device: int, known: dict[str, int]) -> tuple[str, str]:
    """(the architecture, as 'gfx90a'; what it has switched on or off, as 'sramecc+:xnack-')."""
    newer = "hipGetDevicePropertiesR0600"
    told = ctypes.create_string_buffer(_ROOM)
    function = newer if calls.has(newer) else "hipGetDeviceProperties"
    calls(function.removeprefix("hip"), ctypes.addressof(told), device)
    texts = {match.groups() for match in _ARCHITECTURE.finditer(told.raw, _NAME)}
    if len(texts) == 1:
        ((name, major, minor, _, features),) = texts
        # 9.4.2 is gfx942 and 10.3.0 gfx1030; the attributes have the first two numbers.
        agree = (int(major), int(minor, 16)) == (
            known["COMPUTE_CAPABILITY_MAJOR"],
            known["COMPUTE_CAPABILITY_MINOR"],
        )
        if agree:
            return name.decode(), features.decode().lstrip(":")
    found = ", ".join(sorted(match[0].decode() for match in texts)) or "none"
    told_version = "{COMPUTE_CAPABILITY_MAJOR}.{COMPUTE_CAPABILITY_MINOR}".format_map(known)
    raise DeviceError(
        f"the architecture of AMD device {device} cannot be told: {function} names {found}, and "
        f"its attributes {told_version}; this version of ROCm is not known to Haulage"
    )


def _uuid(calls: Calls, device: int, bus: str) -> str:
    """What no other device has, made of its number and its place: parts of one GPU may have the
    same number, and not all GPUs have one."""
    own = ctypes.create_string_buffer(16)
    if calls.has("hipDeviceGetUuid"):
        status, _ = calls.ask("DeviceGetUuid", ctypes.addressof(own), device)
        if status not in UNKNOWN:
            calls.check(status, "DeviceGetUuid", device)
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, own.raw.hex() + bus)}"
