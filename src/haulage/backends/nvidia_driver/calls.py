"""Calls of CUDA's driver, and what is raised where one fails."""

import functools
import importlib
from collections.abc import Sequence
from typing import Any

from haulage.backends.gpu_driver import calls
from haulage.backends.gpu_driver.calls import NOT_FOUND
from haulage.backends.nvidia_driver import forms, looking
from haulage.backends.nvidia_driver.recordings import APART, apart
from haulage.errors import DeviceError, Unsupported

_DESTROYED = "another library has destroyed the context of the device, or reset the device"
_ADVICE = calls.ADVICE | {
    3: "the driver has ended, as the process ends; or this is a forked child, and CUDA initialized "
    "before forking does not live on there: start processes with "
    "multiprocessing.get_context('spawn') or 'forkserver'",
    101: "there is no such device, or it does not move managed memory ahead, as on Windows",
    201: _DESTROYED,
    217: "these two devices cannot reach each other's memory",
    709: _DESTROYED,
    711: "the device reaches the memory of as many others as it can",
    218: "the driver could not assemble the code",
    222: "the code is newer than the driver: update the driver",
}

# Functions that are called by their addresses, with the CUDA versions that they came with.
BY_ADDRESS = {
    "cuCtxSynchronize": 2000,
    "cuMemcpyAsync": 4000,
    "cuStreamSynchronize": 2000,
    "cuStreamQuery": 2000,
    "cuStreamWaitEvent": 3020,
    "cuStreamIsCapturing": 10000,
    "cuThreadExchangeStreamCaptureMode": 10010,
    "cuEventRecord": 2000,
    "cuEventSynchronize": 2000,
    "cuEventQuery": 2000,
    "cuLaunchKernel": 4000,
    "cuCtxGetCurrent": 4000,
    # In the form that all drivers have; that of cuda-bindings 13 came with CUDA 12.8.
    "cuEventElapsedTime": 2000,
}

# What cuda-bindings takes as members of its enumerations: the place among the arguments, and which.
_ENUMERATED = {
    "StreamBeginCapture": (1, "CUstreamCaptureMode"),
    "FuncGetAttribute": (0, "CUfunction_attribute"),
    "FuncSetAttribute": (1, "CUfunction_attribute"),
    "PointerGetAttribute": (0, "CUpointer_attribute"),
    "CtxGetLimit": (0, "CUlimit"),
    "CtxSetLimit": (0, "CUlimit"),
}

# What the nodes of a graph do.
_WORK = (0, 1, 2)


@functools.cache
def bindings() -> Any:
    """`cuda.bindings.driver`."""
    return importlib.import_module(looking.BINDINGS)


class Calls(calls.Calls):
    """Makes the driver's calls, by way of `cuda-bindings`."""

    kind = "nvidia"
    prefix = "cu"
    by_address = (
        *calls.Calls.by_address,
        *("StreamIsCapturing", "ThreadExchangeStreamCaptureMode"),
    )
    launch_end = 0
    advice = _ADVICE
    debugger = "run the program under NVIDIA's compute-sanitizer"
    device_words = "an NVIDIA device"
    driver_words = "the NVIDIA driver"
    fork_words = "CUDA"
    handle_type = "CUipcMemHandle"

    def __init__(self) -> None:
        super().__init__()
        self._driver = bindings()
        self._exchange_mode = self.address("ThreadExchangeStreamCaptureMode")
        self._forms = forms.forms(self._driver, self.address("EventElapsedTime"))

    def _made(self, name: str) -> calls.Answering:
        function = self._forms.get(name) or self._plain(name)
        if name in APART:
            function = apart(function, self._exchange_mode)

        def made(*args: Any) -> tuple[int, Any]:
            try:
                answer = function(*args)
            except RuntimeError as error:
                # What cuda-bindings raises where the driver has no such function.
                raise Unsupported(
                    f"{self.named(name)}: the NVIDIA driver is too old for it, update it: {error}"
                ) from error
            except (KeyError, ValueError) as error:
                raise DeviceError(
                    f"{self.named(name)}: the driver's answer is none that this version of "
                    f"cuda-bindings knows: {error}"
                ) from error
            if answer[0]:
                return int(answer[0]), None
            if len(answer) < 3:
                return 0, _as_number(answer[1]) if len(answer) == 2 else None
            return 0, tuple(map(_as_number, answer[1:]))

        return made

    def _plain(self, name: str) -> forms.Form:
        function: forms.Form = getattr(self._driver, self.named(name))
        if name not in _ENUMERATED:
            return function
        place, enumeration = _ENUMERATED[name]
        kind = getattr(self._driver, enumeration)

        def enumerated(*args: Any) -> Sequence[Any]:
            return function(*args[:place], kind(args[place]), *args[place + 1 :])

        return enumerated

    def address(self, name: str) -> int:
        """Where the driver's function is, of the kind that it had in the version of CUDA that it
        came with.

        Raises:
            DeviceError: the driver has none.
        """
        full = self.named(name)
        status, address, _ = self._driver.cuGetProcAddress(full.encode(), BY_ADDRESS[full], 0)
        if status or not address:
            raise DeviceError(int(status) or NOT_FOUND, f"the NVIDIA driver has no function {full}")
        return int(address)

    def told(self, status: int) -> str:
        """The driver's name for a status, and its words for it."""
        driver = self._driver
        try:
            asked = driver.CUresult(status)
        except ValueError:
            asked = driver.CUresult.CUDA_ERROR_UNKNOWN
        parts = []
        for ask in (driver.cuGetErrorName, driver.cuGetErrorString):
            answered, text = ask(asked)
            if not answered and text:
                parts.append(text.decode())
        return ": ".join(parts) or f"status {status}, which the driver has no name for"

    def hold(self, device: int) -> int:
        """The primary context of a device, which all libraries in a process share."""
        return int(self("DevicePrimaryCtxRetain", device))

    def make_current(self, handle: int) -> None:
        """Make such a context current in this thread."""
        self("CtxSetCurrent", handle)

    def attribute(self, device: int, name: str) -> int:
        """One of the device's figures, by its name."""
        number = getattr(self._driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self("DeviceGetAttribute", number, device))

    def names_chunks_by_files(self, device: int) -> bool:
        """As the device says."""
        return bool(self.attribute(device, "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED"))

    def nodes(self, graph: int) -> int:
        """How many copies, fills and launches a recorded graph has."""
        _, count = self("GraphGetNodes", graph, 0)
        nodes, _ = self("GraphGetNodes", graph, count) if count else ((), 0)
        return sum(self("GraphNodeGetType", node) in _WORK for node in nodes)


def _as_number(value: Any) -> Any:
    """A handle or an address as an int; others as they are."""
    if isinstance(value, (int, float, bytes)) or not hasattr(value, "__int__"):
        return value
    return int(value)
