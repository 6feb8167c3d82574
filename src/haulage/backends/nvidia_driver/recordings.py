"""Calls that are no work of a stream, while another library records one.

A recording does not see such a call, and a library that records in CUDA's global mode, as PyTorch
does, does not allow it to any thread: the call fails, and the recording is spoilt. What these do is
none of the recording's business, memory and code that live on, so they are made in the relaxed mode
of the thread, which is for that. A recording of a stream that a call itself is about is not helped
by it: see `streams`.
"""

import ctypes
import functools
from collections.abc import Callable
from typing import Any

APART = (
    *("cuMemAlloc", "cuMemAllocManaged", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost"),
    *("cuMemHostRegister", "cuMemHostUnregister", "cuMemAddressReserve", "cuMemAddressFree"),
    *("cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemAdvise"),
    *("cuMemRetainAllocationHandle", "cuMemExportToShareableHandle"),
    *("cuMemImportFromShareableHandle", "cuIpcGetMemHandle", "cuIpcOpenMemHandle"),
    *("cuIpcCloseMemHandle", "cuCtxEnablePeerAccess", "cuDevicePrimaryCtxRetain"),
    *("cuCtxGetLimit", "cuCtxSetLimit"),
    # The driver may load code when it is first asked for something of it.
    *("cuModuleLoadDataEx", "cuModuleUnload", "cuModuleGetFunction", "cuModuleGetGlobal"),
    *("cuFuncGetAttribute", "cuFuncSetAttribute", "cuOccupancyMaxActiveBlocksPerMultiprocessor"),
    *("cuLinkCreate", "cuLinkAddData", "cuLinkComplete", "cuLinkDestroy"),
    *("cuStreamCreateWithPriority", "cuStreamDestroy", "cuStreamQuery", "cuStreamSynchronize"),
    *("cuEventCreate", "cuEventDestroy", "cuEventQuery", "cuEventSynchronize"),
    *("cuGraphInstantiate", "cuGraphDestroy", "cuGraphExecDestroy"),
)

_NAME, _SINCE = b"cuThreadExchangeStreamCaptureMode", 10010
_RELAXED = 2


def apart_in(module: Any) -> dict[str, Callable[..., Any]]:
    """Those functions of `cuda.bindings.driver`, called in the relaxed mode, by their names."""

    @functools.cache
    def exchanging() -> Callable[[Any], int]:
        # By its address, as it comes twice with each call: quicker than by cuda-bindings.
        _, address, _ = module.cuGetProcAddress(_NAME, _SINCE, 0)
        return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address)

    def apart(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*args: Any) -> Any:
            exchange = exchanging()
            mode = ctypes.c_int(_RELAXED)
            at = ctypes.byref(mode)
            exchange(at)  # now it has the mode that was the thread's
            try:
                return function(*args)
            finally:
                exchange(at)

        return called

    return {name: apart(getattr(module, name)) for name in APART}
