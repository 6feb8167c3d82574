"""The HIP runtime's library: where it is looked for, and the functions of it that are called here.

Only what all versions from ROCm 5 on have in one form is used: no structure whose layout changed
(hipDeviceProp_t, HIP_MEMCPY3D), and functions that came later only where what they are for is asked
for. What differs between versions is said at the place.
"""

import ctypes
import os
import sys
from ctypes import c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from haulage.backends.libraries import Search, search

# Newest first; a library that the process has already (PyTorch's, say) is taken before all others.
MAJORS = (10, 9, 8, 7, 6, 5)

IPC_BYTES = 64


class IpcHandle(ctypes.Structure):
    """hipIpcMemHandle_t, which is passed by value."""

    _fields_ = (("reserved", ctypes.c_char * IPC_BYTES),)


_p, _i, _u, _z, _q, _s = c_void_p, c_int, c_uint, c_size_t, c_uint64, c_char_p
# Where a function writes what it gives.
_to_p, _to_i, _to_z, _to_f = map(ctypes.POINTER, (c_void_p, c_int, c_size_t, c_float))

# The types of parameters; each function gives a status.
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "hipInit": (_u,),
    "hipRuntimeGetVersion": (_to_i,),
    "hipGetLastError": (),
    # devices
    "hipGetDeviceCount": (_to_i,),
    "hipSetDevice": (_i,),
    "hipGetDevice": (_p,),
    "hipDeviceGetName": (_p, _i, _i),
    "hipDeviceGetUuid": (_p, _i),
    "hipDeviceTotalMem": (_to_z, _i),
    "hipDeviceGetPCIBusId": (_p, _i, _i),
    "hipDeviceGetAttribute": (_to_i, _i, _i),
    "hipGetDeviceProperties": (_p, _i),
    "hipGetDevicePropertiesR0600": (_p, _i),
    "hipDeviceSynchronize": (),
    "hipDeviceGetStreamPriorityRange": (_to_i, _to_i),
    "hipDeviceCanAccessPeer": (_to_i, _i, _i),
    "hipDeviceEnablePeerAccess": (_i, _u),
    # memory
    "hipMemGetInfo": (_to_z, _to_z),
    "hipMalloc": (_to_p, _z),
    "hipFree": (_p,),
    "hipMallocManaged": (_to_p, _z, _u),
    "hipHostMalloc": (_to_p, _z, _u),
    "hipHostFree": (_p,),
    "hipHostRegister": (_p, _z, _u),
    "hipHostUnregister": (_p,),
    "hipHostGetDevicePointer": (_to_p, _p, _u),
    "hipPointerGetAttributes": (_p, _p),
    "hipMemGetAddressRange": (_to_p, _to_z, _p),
    "hipMemPrefetchAsync": (_p, _z, _i, _p),
    "hipMemAdvise": (_p, _z, _i, _i),
    "hipMemcpyAsync": (_p, _p, _z, _i, _p),
    "hipMemcpy2DAsync": (_p, _z, _p, _z, _z, _z, _i, _p),
    "hipMemcpy3DAsync": (_p, _p),
    "hipMemsetD8Async": (_p, ctypes.c_ubyte, _z, _p),
    "hipMemsetD16Async": (_p, ctypes.c_ushort, _z, _p),
    "hipMemsetD32Async": (_p, _i, _z, _p),
    # addresses without memory, and memory without addresses
    "hipMemGetAllocationGranularity": (_to_z, _p, _i),
    "hipMemAddressReserve": (_to_p, _z, _z, _p, _q),
    "hipMemAddressFree": (_p, _z),
    "hipMemCreate": (_to_p, _z, _p, _q),
    "hipMemRelease": (_p,),
    "hipMemMap": (_p, _z, _z, _p, _q),
    "hipMemUnmap": (_p, _z),
    "hipMemSetAccess": (_p, _z, _p, _z),
    "hipMemRetainAllocationHandle": (_to_p, _p),
    "hipMemExportToShareableHandle": (_to_i, _p, _i, _q),
    "hipMemImportFromShareableHandle": (_to_p, _p, _i),
    # other processes
    "hipIpcGetMemHandle": (_p, _p),
    "hipIpcOpenMemHandle": (_to_p, IpcHandle, _u),
    "hipIpcCloseMemHandle": (_p,),
    # streams and events
    "hipStreamCreateWithPriority": (_to_p, _u, _i),
    "hipStreamDestroy": (_p,),
    "hipStreamSynchronize": (_p,),
    "hipStreamQuery": (_p,),
    "hipStreamWaitEvent": (_p, _p, _u),
    "hipLaunchHostFunc": (_p, _p, _p),
    "hipStreamAddCallback": (_p, _p, _p, _u),
    "hipEventCreateWithFlags": (_to_p, _u),
    "hipEventDestroy": (_p,),
    "hipEventRecord": (_p, _p),
    "hipEventSynchronize": (_p,),
    "hipEventQuery": (_p,),
    "hipEventElapsedTime": (_to_f, _p, _p),
    # code
    "hipModuleLoadData": (_to_p, _p),
    "hipModuleUnload": (_p,),
    "hipModuleGetFunction": (_to_p, _p, _s),
    "hipModuleGetGlobal": (_to_p, _to_z, _p, _s),
    "hipModuleLaunchKernel": (_p, *[_u] * 7, _p, _p, _p),
    "hipModuleLaunchCooperativeKernel": (_p, *[_u] * 7, _p, _p),
    "hipFuncGetAttribute": (_to_i, _i, _p),
    "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor": (_to_i, _p, _i, _z),
    # graphs
    "hipStreamBeginCapture": (_p, _i),
    "hipStreamEndCapture": (_p, _to_p),
    "hipStreamIsCapturing": (_p, _to_i),
    "hipGraphInstantiate": (_to_p, _p, _p, _p, _z),
    "hipGraphGetNodes": (_p, _p, _p),
    "hipGraphNodeGetType": (_p, _to_i),
    "hipGraphLaunch": (_p, _p),
    "hipGraphDestroy": (_p,),
    "hipGraphExecDestroy": (_p,),
}


# The functions for calls whose names here are not CUDA's.
OTHERWISE = {
    "CtxEnablePeerAccess": "hipDeviceEnablePeerAccess",
    "CtxGetCurrent": "hipGetDevice",
    "CtxGetStreamPriorityRange": "hipDeviceGetStreamPriorityRange",
    "CtxSynchronize": "hipDeviceSynchronize",
    "DeviceGetCount": "hipGetDeviceCount",
    "EventCreate": "hipEventCreateWithFlags",
    "LaunchKernel": "hipModuleLaunchKernel",
    "MemAlloc": "hipMalloc",
    "MemAllocManaged": "hipMallocManaged",
    "MemFree": "hipFree",
    "MemFreeHost": "hipHostFree",
    "MemHostAlloc": "hipHostMalloc",
    "MemHostGetDevicePointer": "hipHostGetDevicePointer",
    "MemHostRegister": "hipHostRegister",
    "MemHostUnregister": "hipHostUnregister",
    "OccupancyMaxActiveBlocksPerMultiprocessor": (
        "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"
    ),
}

# Which ROCm the functions came with that 5.0 does not have. Each has another one in its place
# there, or is only called for something that `Unsupported` names then.
SINCE: dict[str, tuple[int, int]] = {
    "hipDeviceGetUuid": (5, 2),
    **dict.fromkeys(
        (
            *("hipMemAddressReserve", "hipMemAddressFree", "hipMemCreate", "hipMemRelease"),
            *("hipMemMap", "hipMemUnmap", "hipMemSetAccess", "hipMemGetAllocationGranularity"),
            *("hipMemRetainAllocationHandle", "hipMemExportToShareableHandle"),
            "hipMemImportFromShareableHandle",
        ),
        (5, 2),
    ),
    "hipLaunchHostFunc": (5, 3),
    "hipModuleLaunchCooperativeKernel": (5, 5),
    "hipGetDevicePropertiesR0600": (6, 0),
}


def find() -> Search:
    """The library and what was tried: one that the process has already; in the folders of ROCM_PATH
    and HIP_PATH; by the system's loader; in /opt/rocm. Never raises."""
    if sys.platform == "win32":
        names = [f"amdhip64_{major}.dll" for major in MAJORS if major > 5] + ["amdhip64.dll"]
        below, last = "bin", None
    else:
        names = [f"libamdhip64.so.{major}" for major in MAJORS] + ["libamdhip64.so"]
        below, last = "lib", "/opt/rocm/lib"
    roots = (os.environ.get("ROCM_PATH"), os.environ.get("HIP_PATH"))
    folders = [os.path.join(root, below) for root in roots if root]
    return search(names, [last], before=folders, already=True)


def version(number: int) -> tuple[int, int]:
    """(major, minor) of ROCm, from what hipRuntimeGetVersion tells."""
    return number // 10_000_000, number // 100_000 % 100
