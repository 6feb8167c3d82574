"""What NVIDIA's devices tell of themselves."""

import re
import uuid
from typing import Any

from haulage.backends.base import Properties
from haulage.backends.nvidia_driver.calls import Calls, bindings

_PREFIX = "CU_DEVICE_ATTRIBUTE_"

# Numba spells the limits of textures in another way: MAX_TEXTURE_2D_WIDTH.
_OF_TEXTURES = re.compile("MAXIMUM_(TEXTURE|SURFACE)([123]D|CUBEMAP)")
# And some more: its name -> the driver's, as above.
_OTHERWISE = {
    "MAX_THREADS_PER_MULTI_PROCESSOR": "MAX_THREADS_PER_MULTIPROCESSOR",
    "IS_MULTI_GPU_BOARD": "MULTI_GPU_BOARD",
    "MAX_MAX_TEXTURE_2D_MIPMAPPED_HEIGHT": "MAX_TEXTURE_2D_MIPMAPPED_HEIGHT",
    "MAX_TEXTURE_3D_WIDTH_ALT": "MAX_TEXTURE_3D_WIDTH_ALTERNATE",
    "MAX_TEXTURE_3D_HEIGHT_ALT": "MAX_TEXTURE_3D_HEIGHT_ALTERNATE",
    "MAX_TEXTURE_3D_DEPTH_ALT": "MAX_TEXTURE_3D_DEPTH_ALTERNATE",
}


def properties(calls: Calls, device: int) -> Properties:
    """What `device` is, as `Backend.properties` gives it."""
    driver = bindings()
    handle = calls(driver.cuDeviceGet, device)
    figures = _figures(calls, driver, handle)
    capability = (figures["COMPUTE_CAPABILITY_MAJOR"], figures["COMPUTE_CAPABILITY_MINOR"])
    name = calls(driver.cuDeviceGetName, 256, handle).split(b"\0")[0].decode()
    version = calls(driver.cuDriverGetVersion)
    # In cuda-bindings 12.9 the form that tells parts of a device (MIG) apart has a name of its own.
    ask_uuid = getattr(driver, "cuDeviceGetUuid_v2", driver.cuDeviceGetUuid)
    bus = calls(driver.cuDeviceGetPCIBusId, 32, handle).split(b"\0")[0].decode()
    return Properties(
        name=name,
        compute_capability=capability,
        multiprocessors=figures["MULTIPROCESSOR_COUNT"],
        warp_size=figures["WARP_SIZE"],
        max_threads_per_block=figures["MAX_THREADS_PER_BLOCK"],
        max_block=_extents(figures, "BLOCK"),
        max_grid=_extents(figures, "GRID"),
        max_static_shared=figures["MAX_SHARED_MEMORY_PER_BLOCK"],
        max_dynamic_shared=max(
            figures["MAX_SHARED_MEMORY_PER_BLOCK"],
            figures.get("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", 0),
        ),
        total_memory=calls(driver.cuDeviceTotalMem, handle),
        architecture=f"sm_{capability[0]}{capability[1]}",
        uuid=f"GPU-{uuid.UUID(bytes=bytes(calls(ask_uuid, handle).bytes))}",
        runtime=(version // 1000, version % 1000 // 10),
        # Larger blocks of arguments than this came with compute capability 7.0.
        max_argument_bytes=32764 if capability >= (7, 0) else 4096,
        stages_copies=True,
        pins_for_all=True,
        floats=_floats(capability),
        figures=figures,
        details={"bus": bus},
    )


def _floats(capability: tuple[int, int]) -> tuple[str, ...]:
    since = {"float16": (5, 3), "bfloat16": (8, 0), "fp8": (8, 9)}
    return tuple(name for name, least in since.items() if capability >= least)


def _extents(figures: dict[str, int], what: str) -> tuple[int, int, int]:
    x, y, z = (figures[f"MAX_{what}_DIM_{axis}"] for axis in "XYZ")
    return x, y, z


def _figures(calls: Calls, driver: Any, handle: Any) -> dict[str, int]:
    """The driver's attributes of a device, by their names without the prefix."""
    found: dict[str, int] = {}
    for name, attribute in driver.CUdevice_attribute.__members__.items():
        status, value = driver.cuDeviceGetAttribute(attribute, handle)
        # An older driver does not know the latest ones.
        if not status:
            found[name.removeprefix(_PREFIX)] = value
    spelled = {_OF_TEXTURES.sub(r"MAX_\1_\2", name): value for name, value in found.items()}
    for name, other in _OTHERWISE.items():
        if other in spelled:
            spelled[name] = spelled[other]
    return found | spelled
