"""Functions of `cuda-bindings` in the forms that all drivers have: see `gpu_driver.calls.Calls`."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

Form = Callable[..., Sequence[Any]]

# The driver's numbers: pinned memory of a device; file descriptors to share it by; read and write.
_PINNED, _ON_DEVICE, _ON_HOST, _FILE, _READ_WRITE = 1, 1, 2, 1, 3
_MINIMUM = 0
_IPC_BYTES = 64


def forms(driver: Any, elapsed: int) -> dict[str, Form]:
    """By the names of calls; `elapsed` is the address of cuEventElapsedTime."""
    # In cuda-bindings 12.9 the forms that take a location have names of their own.
    prefetch = getattr(driver, "cuMemPrefetchAsync_v2", driver.cuMemPrefetchAsync)
    advise = getattr(driver, "cuMemAdvise_v2", driver.cuMemAdvise)
    by_file = driver.CUmemAllocationHandleType(_FILE)

    def of_device(function: Form) -> Form:
        def call(device: int) -> Sequence[Any]:
            status, handle = driver.cuDeviceGet(device)
            return (status,) if status else function(handle)

        return call

    def can_access(device: int, peer: int) -> Sequence[Any]:
        return of_device(
            lambda one: of_device(lambda other: driver.cuDeviceCanAccessPeer(one, other))(peer)
        )(device)

    def attribute(number: Any, device: int) -> Sequence[Any]:
        return of_device(lambda handle: driver.cuDeviceGetAttribute(number, handle))(device)

    def place(device: int) -> Any:
        location = driver.CUmemLocation()
        location.type = driver.CUmemLocationType(_ON_HOST if device < 0 else _ON_DEVICE)
        location.id = max(device, 0)
        return location

    def wanted(device: int, is_shared: bool) -> Any:
        properties = driver.CUmemAllocationProp()
        properties.type = driver.CUmemAllocationType(_PINNED)
        properties.location = place(device)
        if is_shared:
            properties.requestedHandleTypes = by_file
        return properties

    def create(nbytes: int, device: int, is_shared: bool) -> Sequence[Any]:
        return driver.cuMemCreate(nbytes, wanted(device, is_shared), 0)

    def granularity(device: int, is_shared: bool) -> Sequence[Any]:
        option = driver.CUmemAllocationGranularity_flags(_MINIMUM)
        return driver.cuMemGetAllocationGranularity(wanted(device, is_shared), option)

    def let(address: int, nbytes: int, devices: Sequence[int]) -> Sequence[Any]:
        allowed = []
        for device in devices:
            access = driver.CUmemAccessDesc()
            access.location = place(device)
            access.flags = driver.CUmemAccess_flags(_READ_WRITE)
            allowed.append(access)
        return driver.cuMemSetAccess(address, nbytes, allowed, len(allowed))

    def linking(*options: Any) -> Sequence[Any]:
        # As it is, in a list: it holds what the options point to, which the driver writes to later.
        status, state = driver.cuLinkCreate(*options)
        return status, [state]

    def name(address: int) -> Sequence[Any]:
        status, made = driver.cuIpcGetMemHandle(address)
        return status, b"" if status else ctypes.string_at(made.getPtr(), _IPC_BYTES)

    def opened(handle: bytes, flags: int) -> Sequence[Any]:
        made = driver.CUipcMemHandle()
        ctypes.memmove(made.getPtr(), handle, _IPC_BYTES)
        return driver.cuIpcOpenMemHandle(made, flags)

    def moved(address: int, nbytes: int, device: int, stream: int) -> Sequence[Any]:
        return prefetch(address, nbytes, place(device), 0, stream)

    def advised(address: int, nbytes: int, advice: int, device: int) -> Sequence[Any]:
        return advise(address, nbytes, driver.CUmem_advise(advice), place(device))

    cell = ctypes.POINTER(ctypes.c_float)
    by_address = ctypes.CFUNCTYPE(ctypes.c_int, cell, ctypes.c_void_p, ctypes.c_void_p)(elapsed)

    def between(start: int, end: int) -> Sequence[Any]:
        milliseconds = ctypes.c_float()
        return by_address(ctypes.byref(milliseconds), start, end), milliseconds.value

    return {
        "DeviceCanAccessPeer": can_access,
        "DeviceGetAttribute": attribute,
        "DevicePrimaryCtxRetain": of_device(driver.cuDevicePrimaryCtxRetain),
        "DeviceTotalMem": of_device(driver.cuDeviceTotalMem),
        "EventElapsedTime": between,
        "GraphInstantiate": lambda graph: driver.cuGraphInstantiate(graph, 0),
        "IpcGetMemHandle": name,
        "IpcOpenMemHandle": opened,
        "LaunchHostFunc": lambda stream, function, number: driver.cuLaunchHostFunc(
            stream, driver.CUhostFn(function), number
        ),
        "LinkCreate": linking,
        "MemAdvise": advised,
        "MemCreate": create,
        "MemExportToShareableHandle": lambda chunk: driver.cuMemExportToShareableHandle(
            chunk, by_file, 0
        ),
        "MemGetAllocationGranularity": granularity,
        "MemImportFromShareableHandle": lambda file: driver.cuMemImportFromShareableHandle(
            file, by_file
        ),
        "MemPrefetchAsync": moved,
        "MemSetAccess": let,
    }
