"""What OpenCL's devices tell of themselves."""

import contextlib
import uuid

from haulage.backends.attributes import NONE
from haulage.backends.base import Properties
from haulage.backends.opencl_driver import devices
from haulage.backends.opencl_driver.calls import Calls
from haulage.backends.opencl_driver.devices import PROCESSOR, Device, sub_group_sizes
from haulage.errors import DeviceError

# The level of the kernel words, and the version of CUDA whose words programs can use: those of the
# CPU device.
_CAPABILITY, _CUDA = (9, 0), (12, 0)
_LANES = 32
_STATIC_SHARED = 48 << 10
# What CUDA's devices have, at the most: programs that are portable keep to it, and their sizes are
# refused alike everywhere.
_BLOCK, _GRID = (devices.MOST_THREADS, 1024, 64), (2**31 - 1, 65535, 65535)
# Bytes of a launch's arguments that the code and the driver add.
_ADDED = 64


def properties(calls: Calls, device: Device) -> Properties:
    """What `device` is, as `Backend.properties` gives it."""

    def number(which: int) -> int:
        return int.from_bytes(calls.asked("clGetDeviceInfo", device.handle, which), "little")

    def text(which: int) -> str:
        return calls.text("clGetDeviceInfo", device.handle, which)

    sizes = calls.asked("clGetDeviceInfo", device.handle, devices.MAX_WORK_ITEM_SIZES)
    x, y, z = (int.from_bytes(sizes[at : at + 8], "little") for at in (0, 8, 16))
    threads = min(number(devices.MAX_WORK_GROUP_SIZE), devices.MOST_THREADS)
    shared = number(devices.LOCAL_MEM_SIZE)
    units = number(devices.MAX_COMPUTE_UNITS)
    on_processor = device.kind == PROCESSOR
    figures = {
        "INTEGRATED": 0,
        "CAN_MAP_HOST_MEMORY": 1,
        "UNIFIED_ADDRESSING": 1,
        "MANAGED_MEMORY": 1,
        "CONCURRENT_MANAGED_ACCESS": int(on_processor),
        "PAGEABLE_MEMORY_ACCESS": int(device.reaches_all),
        "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES": int(device.reaches_all),
        "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM": int(device.reaches_all),
        "HOST_NATIVE_ATOMIC_SUPPORTED": int(on_processor),
        "CONCURRENT_KERNELS": 1,
        "COOPERATIVE_LAUNCH": int(can_dispatch_together(device)),
        "GPU_OVERLAP": 1,
        "ASYNC_ENGINE_COUNT": 1,
        "STREAM_PRIORITIES_SUPPORTED": 0,
        "COMPUTE_PREEMPTION_SUPPORTED": 0,
        "KERNEL_EXEC_TIMEOUT": 0,
        "COMPUTE_MODE": 0,
        "IS_MULTI_GPU_BOARD": 0,
        "MULTI_GPU_BOARD": 0,
        # OpenCL does not tell how many blocks a compute unit runs at once: one, at the least.
        "MAX_THREADS_PER_MULTI_PROCESSOR": threads,
        "MAX_THREADS_PER_MULTIPROCESSOR": threads,
        "MAX_BLOCKS_PER_MULTIPROCESSOR": 1,
        "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": shared,
        "MAX_SHARED_MEMORY_PER_BLOCK": min(shared, _STATIC_SHARED),
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": shared,
        "TOTAL_CONSTANT_MEMORY": number(devices.MAX_CONSTANT_BUFFER_SIZE),
        # Nor how many registers there are.
        "MAX_REGISTERS_PER_BLOCK": 64 << 10,
        "MAX_REGISTERS_PER_MULTIPROCESSOR": 64 << 10,
        "MAX_PITCH": 2**31 - 1,
        "GLOBAL_L1_CACHE_SUPPORTED": 1,
        "LOCAL_L1_CACHE_SUPPORTED": 1,
        "CLOCK_RATE": 1000 * number(devices.MAX_CLOCK_FREQUENCY),
        "L2_CACHE_SIZE": number(devices.GLOBAL_MEM_CACHE_SIZE),
    }
    lanes = ", ".join(map(str, sub_group_sizes(calls, device)))
    return Properties(
        name=text(devices.NAME),
        compute_capability=_CAPABILITY,
        multiprocessors=units,
        warp_size=_LANES,
        max_threads_per_block=threads,
        max_block=(min(x, _BLOCK[0]), min(y, _BLOCK[1]), min(z, _BLOCK[2])),
        max_grid=_GRID,
        max_static_shared=min(shared, _STATIC_SHARED),
        max_dynamic_shared=shared,
        total_memory=number(devices.GLOBAL_MEM_SIZE),
        architecture="spirv64",
        on_processor=on_processor,
        uuid=_uuid(calls, device),
        runtime=_CUDA,
        max_argument_bytes=number(devices.MAX_PARAMETER_SIZE) - _ADDED,
        floats=("float16",) if "cl_khr_fp16" in device.extensions else (),
        figures=dict.fromkeys(NONE, 0) | figures,
        details={
            "platform": device.platform_name,
            "OpenCL": text(devices.VERSION),
            "driver": text(devices.DRIVER_VERSION),
            "sub-groups": lanes,
        },
    )


def can_dispatch_together(device: Device) -> bool:
    """Whether the driver can run all blocks of a grid at one time."""
    return "clGetKernelMaxConcurrentWorkGroupCountINTEL" in device.functions


def _uuid(calls: Calls, device: Device) -> str:
    """That of the device, of its driver if that tells it; else made of its name and its place among
    those of that name."""
    if "cl_khr_device_uuid" in device.extensions:
        with contextlib.suppress(DeviceError):
            told = calls.asked("clGetDeviceInfo", device.handle, devices.UUID)
            return f"GPU-{uuid.UUID(bytes=told)}"
    what = f"{device.platform_name} {device.name} {device.number}"
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, what)}"
