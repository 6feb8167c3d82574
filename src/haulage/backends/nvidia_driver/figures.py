"""What NVIDIA's devices tell of themselves."""

import re
import uuid

from haulage.backends.base import Properties
from haulage.backends.gpu_driver import figures
from haulage.backends.gpu_driver.calls import Calls
from haulage.backends.nvidia_driver.calls import bindings

_PREFIX = "CU_DEVICE_ATTRIBUTE_"

# Numba spells the limits of textures in another way: MAX_TEXTURE_2D_WIDTH.
_OF_TEXTURES = re.compile("MAXIMUM_(TEXTURE|SURFACE)([123]D|CUBEMAP)")


def properties(calls: Calls, device: int) -> Properties:
    """What `device` is, as `Backend.properties` gives it."""
    handle = calls("DeviceGet", device)
    found = _figures(handle)
    capability = (found["COMPUTE_CAPABILITY_MAJOR"], found["COMPUTE_CAPABILITY_MINOR"])
    version = calls("DriverGetVersion")
    # In cuda-bindings 12.9 the form that tells parts of a device (MIG) apart has a name of its own.
    has_two = hasattr(bindings(), "cuDeviceGetUuid_v2")
    number = calls("DeviceGetUuid_v2" if has_two else "DeviceGetUuid", handle)
    return figures.properties(
        calls,
        device,
        found,
        name=_text(calls("DeviceGetName", 256, handle)),
        architecture=f"sm_{capability[0]}{capability[1]}",
        uuid=f"GPU-{uuid.UUID(bytes=bytes(number.bytes))}",
        runtime=(version // 1000, version % 1000 // 10),
        # Larger blocks of arguments than this came with compute capability 7.0.
        max_argument_bytes=32764 if capability >= (7, 0) else 4096,
        floats=_floats(capability),
        figures=found,
        details={"bus": _text(calls("DeviceGetPCIBusId", 32, handle))},
    )


def _text(told: bytes) -> str:
    return told.split(b"\0")[0].decode()


def _floats(capability: tuple[int, int]) -> tuple[str, ...]:
    since = {"float16": (5, 3), "bfloat16": (8, 0), "fp8": (8, 9)}
    return tuple(name for name, least in since.items() if capability >= least)


def _figures(device: int) -> dict[str, int]:
    """The driver's attributes of a device, by their names without the prefix."""
    driver = bindings()
    found: dict[str, int] = {}
    for name, attribute in driver.CUdevice_attribute.__members__.items():
        status, value = driver.cuDeviceGetAttribute(attribute, device)
        # An older driver does not know the latest ones.
        if not status:
            found[name.removeprefix(_PREFIX)] = value
    spelled = {_OF_TEXTURES.sub(r"MAX_\1_\2", name): value for name, value in found.items()}
    return found | figures.with_other_names(spelled)
