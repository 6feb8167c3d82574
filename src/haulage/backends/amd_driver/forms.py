"""Functions of the HIP runtime in the forms that all drivers have: see `gpu_driver.calls.Calls`."""

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

from haulage.backends.amd_driver.library import IPC_BYTES, IpcHandle
from haulage.backends.gpu_driver.calls import Answering

# The runtime's numbers: pinned memory of a device; file descriptors to share it by; read and write.
_PINNED, _ON_DEVICE, _FILE, _READ_WRITE = 1, 1, 1, 3
_MINIMUM = 0
# With which ROCm a file descriptor is passed itself, and not where one is.
_FILES_THEMSELVES = (7, 1)


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Wanted(ctypes.Structure):
    """hipMemAllocationProp, with room for what may come behind."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_type", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
        ("rest", ctypes.c_ubyte * 64),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


def forms(
    of: Callable[[str], Answering], has: Callable[[str], bool], version: tuple[int, int]
) -> dict[str, Answering]:
    """By the names of calls; `of` gives a function of the runtime by its name, `has` tells whether
    it is there, `version` is that of ROCm."""
    of = functools.cache(of)

    def wanted(device: int, is_shared: bool) -> Any:
        made = _Wanted(type=_PINNED, handle_type=_FILE if is_shared else 0)
        made.location.type, made.location.id = _ON_DEVICE, device
        return ctypes.byref(made)

    def create(nbytes: int, device: int, is_shared: bool) -> tuple[int, Any]:
        return of("hipMemCreate")(nbytes, wanted(device, is_shared), 0)

    def granularity(device: int, is_shared: bool) -> tuple[int, Any]:
        return of("hipMemGetAllocationGranularity")(wanted(device, is_shared), _MINIMUM)

    def let(address: int, nbytes: int, devices: Sequence[int]) -> tuple[int, Any]:
        allowed = (_Access * len(devices))()
        for access, device in zip(allowed, devices, strict=True):
            access.location.type, access.location.id = _ON_DEVICE, device
            access.flags = _READ_WRITE
        return of("hipMemSetAccess")(address, nbytes, allowed, len(devices))

    def from_file(file: int) -> tuple[int, Any]:
        cell = ctypes.c_int(file)
        given = file if version >= _FILES_THEMSELVES else ctypes.addressof(cell)
        return of("hipMemImportFromShareableHandle")(given, _FILE)

    def name(address: int) -> tuple[int, Any]:
        made = IpcHandle()
        status, _ = of("hipIpcGetMemHandle")(ctypes.byref(made), address)
        return status, bytes(made)

    def opened(handle: bytes, flags: int) -> tuple[int, Any]:
        assert len(handle) == IPC_BYTES
        return of("hipIpcOpenMemHandle")(IpcHandle.from_buffer_copy(handle), flags)

    # hipLaunchHostFunc came with ROCm 5.3; before there was hipStreamAddCallback only, whose
    # functions get the stream and its status as well.
    by_stream: dict[int, Any] = {}

    def call(stream: int, function: int, number: int) -> tuple[int, Any]:
        if function not in by_stream:
            called = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)
            by_stream[function] = ctypes.CFUNCTYPE(
                None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p
            )(lambda stream, status, number: called(number))
        address = ctypes.cast(by_stream[function], ctypes.c_void_p)
        return of("hipStreamAddCallback")(stream, address, number, 0)

    return {
        **({} if has("hipLaunchHostFunc") else {"LaunchHostFunc": call}),
        "GraphInstantiate": lambda graph: of("hipGraphInstantiate")(graph, None, None, 0),
        "IpcGetMemHandle": name,
        "IpcOpenMemHandle": opened,
        "MemCreate": create,
        "MemExportToShareableHandle": lambda chunk: of("hipMemExportToShareableHandle")(
            chunk, _FILE, 0
        ),
        "MemGetAllocationGranularity": granularity,
        "MemImportFromShareableHandle": from_file,
        "MemSetAccess": let,
    }
