"""OpenCL's loader (its "ICD loader", which finds the drivers that are installed), and what of
OpenCL is called.

The loader is the system's `libOpenCL`, or the one that pyopencl's wheels carry. Of pyopencl nothing
else is used: unified shared memory consists of functions of an extension, which pyopencl does not
have, and calls of the loader cost less.
"""

import ctypes
import functools
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from haulage.backends.libraries import Search, search

_NAMES = {"darwin": ("/System/Library/Frameworks/OpenCL.framework/OpenCL",), "win32": ("OpenCL",)}
_LINUX = ("libOpenCL.so.1", "libOpenCL.so")

# Types of parameters: pointers and handles, unsigned numbers of 32 and 64 bits, sizes.
_P, _U, _L, _Z = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t
_WAITS = (_U, _P, _P)

# The parameters of functions that give a status.
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "clGetPlatformIDs": (_U, _P, _P),
    "clGetPlatformInfo": (_P, _U, _Z, _P, _P),
    "clGetDeviceIDs": (_P, _L, _U, _P, _P),
    "clGetDeviceInfo": (_P, _U, _Z, _P, _P),
    "clReleaseCommandQueue": (_P,),
    "clFlush": (_P,),
    "clFinish": (_P,),
    "clRetainEvent": (_P,),
    "clReleaseEvent": (_P,),
    "clWaitForEvents": (_U, _P),
    "clGetEventInfo": (_P, _U, _Z, _P, _P),
    "clGetEventProfilingInfo": (_P, _U, _Z, _P, _P),
    "clSetUserEventStatus": (_P, ctypes.c_int32),
    "clEnqueueMarkerWithWaitList": (_P, *_WAITS),
    "clEnqueueBarrierWithWaitList": (_P, *_WAITS),
    "clBuildProgram": (_P, _U, _P, ctypes.c_char_p, _P, _P),
    "clGetProgramBuildInfo": (_P, _P, _U, _Z, _P, _P),
    "clReleaseProgram": (_P,),
    "clReleaseKernel": (_P,),
    "clSetKernelArg": (_P, _U, _Z, _P),
    "clSetKernelExecInfo": (_P, _U, _Z, _P),
    "clGetKernelWorkGroupInfo": (_P, _P, _U, _Z, _P, _P),
    "clEnqueueNDRangeKernel": (_P, _P, _U, _P, _P, _P, *_WAITS),
    # Of extensions.
    "clMemFreeINTEL": (_P, _P),
    "clGetMemAllocInfoINTEL": (_P, _P, _U, _Z, _P, _P),
    "clEnqueueMemcpyINTEL": (_P, _U, _P, _P, _Z, *_WAITS),
    "clEnqueueMemFillINTEL": (_P, _P, _P, _Z, _Z, *_WAITS),
    "clEnqueueMigrateMemINTEL": (_P, _P, _Z, _L, *_WAITS),
    "clGetKernelMaxConcurrentWorkGroupCountINTEL": (_P, _P, _U, _P, _P, _P),
}

# The parameters, before that for the status, of functions that give a handle or an address.
MAKERS: dict[str, tuple[Any, ...]] = {
    "clCreateContext": (_P, _U, _P, _P, _P),
    "clCreateCommandQueueWithProperties": (_P, _P, _P),
    "clCreateUserEvent": (_P,),
    "clCreateProgramWithIL": (_P, _P, _Z),
    "clCreateProgramWithSource": (_P, _U, _P, _P),
    "clCreateKernel": (_P, ctypes.c_char_p),
    # Of extensions.
    "clHostMemAllocINTEL": (_P, _P, _Z, _U),
    "clDeviceMemAllocINTEL": (_P, _P, _P, _Z, _U),
    "clSharedMemAllocINTEL": (_P, _P, _P, _Z, _U),
}

UNIFIED_SHARED_MEMORY = (
    *("clHostMemAllocINTEL", "clDeviceMemAllocINTEL", "clSharedMemAllocINTEL", "clMemFreeINTEL"),
    *("clGetMemAllocInfoINTEL", "clEnqueueMemcpyINTEL", "clEnqueueMemFillINTEL"),
    "clEnqueueMigrateMemINTEL",
)
CONCURRENT_DISPATCH = ("clGetKernelMaxConcurrentWorkGroupCountINTEL",)


@functools.cache
def find() -> Search:
    """Look for the loader, once."""
    carried = _of_pyopencl()
    before = _NAMES.get(sys.platform, _LINUX)
    found = search((*before, *map(str, carried)), already=True)
    if found.library is not None and found.attempts[-1][0] in map(str, carried):
        # Where that loader finds drivers that are installed beside it; it does not start without.
        os.environ.setdefault("PYOPENCL_HOME", str(carried[0].parents[1]))
    return found


def _of_pyopencl() -> list[Path]:
    """The loader that pyopencl's wheel carries; pyopencl is not imported for that."""
    spec = find_spec("pyopencl")
    if spec is None or not spec.submodule_search_locations:
        return []
    folder = Path(spec.submodule_search_locations[0])
    return sorted(folder.glob(".libs/libOpenCL*")) + sorted(folder.glob(".dylibs/libOpenCL*"))


def signed(library: ctypes.CDLL, name: str) -> Any:
    """A function of the loader, ready for calls.

    Raises:
        AttributeError: the loader does not have it.
    """
    function = library[name]
    function.argtypes, function.restype = _types(name)
    return function


def extension(library: ctypes.CDLL, platform: int, name: str) -> Any | None:
    """A function of a driver's extension; None: it does not have it."""
    ask = library["clGetExtensionFunctionAddressForPlatform"]
    ask.argtypes, ask.restype = (_P, ctypes.c_char_p), _P
    address = ask(platform, name.encode())
    if not address:
        return None
    parameters, result = _types(name)
    return ctypes.CFUNCTYPE(result, *parameters)(address)


def _types(name: str) -> tuple[tuple[Any, ...], Any]:
    if name in MAKERS:
        return (*MAKERS[name], _P), _P
    return SIGNATURES[name], ctypes.c_int32
