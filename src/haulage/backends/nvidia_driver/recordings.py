"""Calls that are no work of a stream, while another library records one.

A recording does not see such a call, and a library that records in CUDA's global mode, as PyTorch
does, does not allow it to any thread: the call fails, and the recording is spoilt. What these do is
none of the recording's business, memory and code that live on, so they are made in the relaxed mode
of the thread, which is for that. A recording of a stream that a call itself is about is not helped
by it: see `streams`.
"""

import ctypes
from collections.abc import Callable
from typing import Any

APART = (
    *("MemAlloc", "MemAllocManaged", "MemFree", "MemHostAlloc", "MemFreeHost"),
    *("MemHostRegister", "MemHostUnregister", "MemAddressReserve", "MemAddressFree"),
    *("MemCreate", "MemRelease", "MemMap", "MemUnmap", "MemSetAccess", "MemAdvise"),
    *("MemRetainAllocationHandle", "MemExportToShareableHandle"),
    *("MemImportFromShareableHandle", "IpcGetMemHandle", "IpcOpenMemHandle"),
    *("IpcCloseMemHandle", "CtxEnablePeerAccess", "DevicePrimaryCtxRetain"),
    *("CtxGetLimit", "CtxSetLimit"),
    # The driver may load code when it is first asked for something of it.
    *("ModuleLoadDataEx", "ModuleUnload", "ModuleGetFunction", "ModuleGetGlobal"),
    *("FuncGetAttribute", "FuncSetAttribute", "OccupancyMaxActiveBlocksPerMultiprocessor"),
    *("LinkCreate", "LinkAddData", "LinkComplete", "LinkDestroy"),
    *("StreamCreateWithPriority", "StreamDestroy", "StreamQuery", "StreamSynchronize"),
    *("EventCreate", "EventDestroy", "EventQuery", "EventSynchronize"),
    *("GraphInstantiate", "GraphDestroy", "GraphExecDestroy"),
)

_RELAXED = 2


def apart(function: Callable[..., Any], exchange_mode: int) -> Callable[..., Any]:
    """A function, called in the relaxed mode. `exchange_mode` is the address of
    cuThreadExchangeStreamCaptureMode: it comes twice with each call, and is quicker so than by
    cuda-bindings."""
    exchange = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(exchange_mode)

    def called(*args: Any) -> Any:
        mode = ctypes.c_int(_RELAXED)
        at = ctypes.byref(mode)
        exchange(at)  # now it has the mode that was the thread's
        try:
            return function(*args)
        finally:
            exchange(at)

    return called
