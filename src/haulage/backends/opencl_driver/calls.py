"""Calls of OpenCL, and what is raised where one fails."""

import ctypes
import functools
import threading
from typing import TYPE_CHECKING, Any

from haulage._core.driver import NOT_PERMITTED
from haulage.backends.gpu_driver import calls
from haulage.backends.gpu_driver.calls import Answering
from haulage.backends.libraries import failures
from haulage.backends.opencl_driver.library import find, signed
from haulage.errors import DeviceError

if TYPE_CHECKING:
    from haulage.backends.opencl_driver.devices import Device

_NAMES = {
    -1: "CL_DEVICE_NOT_FOUND",
    -2: "CL_DEVICE_NOT_AVAILABLE",
    -3: "CL_COMPILER_NOT_AVAILABLE",
    -4: "CL_MEM_OBJECT_ALLOCATION_FAILURE",
    -5: "CL_OUT_OF_RESOURCES",
    -6: "CL_OUT_OF_HOST_MEMORY",
    -7: "CL_PROFILING_INFO_NOT_AVAILABLE",
    -11: "CL_BUILD_PROGRAM_FAILURE",
    -13: "CL_MISALIGNED_SUB_BUFFER_OFFSET",
    -14: "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
    -15: "CL_COMPILE_PROGRAM_FAILURE",
    -17: "CL_LINK_PROGRAM_FAILURE",
    -30: "CL_INVALID_VALUE",
    -31: "CL_INVALID_DEVICE_TYPE",
    -32: "CL_INVALID_PLATFORM",
    -33: "CL_INVALID_DEVICE",
    -34: "CL_INVALID_CONTEXT",
    -35: "CL_INVALID_QUEUE_PROPERTIES",
    -36: "CL_INVALID_COMMAND_QUEUE",
    -38: "CL_INVALID_MEM_OBJECT",
    -42: "CL_INVALID_BINARY",
    -43: "CL_INVALID_BUILD_OPTIONS",
    -44: "CL_INVALID_PROGRAM",
    -45: "CL_INVALID_PROGRAM_EXECUTABLE",
    -46: "CL_INVALID_KERNEL_NAME",
    -47: "CL_INVALID_KERNEL_DEFINITION",
    -48: "CL_INVALID_KERNEL",
    -49: "CL_INVALID_ARG_INDEX",
    -50: "CL_INVALID_ARG_VALUE",
    -51: "CL_INVALID_ARG_SIZE",
    -52: "CL_INVALID_KERNEL_ARGS",
    -53: "CL_INVALID_WORK_DIMENSION",
    -54: "CL_INVALID_WORK_GROUP_SIZE",
    -55: "CL_INVALID_WORK_ITEM_SIZE",
    -56: "CL_INVALID_GLOBAL_OFFSET",
    -57: "CL_INVALID_EVENT_WAIT_LIST",
    -58: "CL_INVALID_EVENT",
    -59: "CL_INVALID_OPERATION",
    -61: "CL_INVALID_BUFFER_SIZE",
    -63: "CL_INVALID_GLOBAL_WORK_SIZE",
    -64: "CL_INVALID_PROPERTY",
    -1001: "CL_PLATFORM_NOT_FOUND_KHR",
    NOT_PERMITTED: "not permitted",
}

OUT_OF_RESOURCES, INVALID_VALUE, NO_PLATFORM = -5, -30, -1001
# Of allocations: the device, or the host, has no room, or never has so much in one piece.
NO_ROOM = (-4, OUT_OF_RESOURCES, -6, -61)

_CONTEXT_PLATFORM = 0x1084

_ADVICE = {
    NOT_PERMITTED: "a callback of a stream cannot use an OpenCL device: else it is easily one that "
    "waits for work that begins only when it has returned",
    -5: "the device has no room for it: for a kernel, take smaller blocks or less shared memory",
    -11: "the driver does not take the code",
    -14: "work before it has failed",
    -54: "the device, or the kernel's registers and shared memory, do not allow so many threads a "
    "block",
}


class Calls(calls.Calls):
    """Makes OpenCL's calls, by the names of its functions. Safe to use from any thread.

    `devices` are those that can be used; it is asked for when the first one is needed.

    Raises:
        DeviceError: there is no loader.
    """

    kind = "opencl"
    prefix = ""
    by_address = ()
    launch_end = 0
    has_ranges = False
    advice = _ADVICE
    debugger = "the driver's debugger"
    device_words = "an OpenCL device"
    driver_words = fork_words = "OpenCL"
    handle_type = "handle of OpenCL"

    def __init__(self) -> None:
        super().__init__()
        found = find()
        if found.library is None:
            raise DeviceError(f"no OpenCL loader: {failures(found)}")
        self.library = found.library
        self._functions: dict[str, Any] = {}
        self._current = _Current()

    @functools.cached_property
    def devices(self) -> "list[Device]":
        """The devices that can be used, in the order of their numbers."""
        from haulage.backends.opencl_driver.devices import usable

        return usable(self)

    # ---- the driver's ---------------------------------------------------------------------------

    def _made(self, name: str) -> Answering:
        function = self.function(name)
        return lambda *args: (function(*args), None)

    def function(self, name: str) -> Any:
        """A function of the loader, which gives its status."""
        made = self._functions.get(name)
        if made is None:
            made = self._functions[name] = signed(self.library, name)
        return made

    def address(self, name: str) -> int:
        """None: no function of OpenCL is that of CUDA's driver."""
        return 0

    def told(self, status: int) -> str:
        """OpenCL's name for a status."""
        return named(status)

    def hold(self, device: int) -> int:
        """A context of OpenCL's for the device."""
        known = self.devices[device]
        properties = (ctypes.c_ssize_t * 3)(_CONTEXT_PLATFORM, known.platform, 0)
        handle = ctypes.c_void_p(known.handle)
        asked = ctypes.addressof(properties), 1, ctypes.addressof(handle), None, None
        known.context = self.make("clCreateContext", *asked)
        return known.context

    def make_current(self, handle: int) -> None:
        """OpenCL has no current device: it is kept here."""
        self._current.handle = handle

    def current(self) -> int:
        """The context that is current in this thread, or 0."""
        return self._current.handle

    def attribute(self, device: int, name: str) -> int:
        """None: see `figures`."""
        return 0

    def names_chunks_by_files(self, device: int) -> bool:
        """No: there is no memory without addresses."""
        return False

    def nodes(self, graph: int) -> int:
        """None: graphs are Haulage's own."""
        return 0

    def room(self) -> str:
        """OpenCL does not tell."""
        return "no more is known"

    # ---- calls ----------------------------------------------------------------------------------

    def make(self, name: str, *args: Any) -> int:
        """Call a function that gives a handle."""
        status = ctypes.c_int32()
        made = self.function(name)(*args, ctypes.byref(status))
        self.check(status.value, name, *args)
        return made or 0

    def asked(self, name: str, *args: Any) -> bytes:
        """What a function writes whose last parameters are a size, a room and the size needed."""
        size = ctypes.c_size_t()
        self(name, *args, 0, None, ctypes.addressof(size))
        room = ctypes.create_string_buffer(size.value or 1)
        self(name, *args, size.value, ctypes.addressof(room), None)
        return room.raw[: size.value]

    def number(self, name: str, *args: Any) -> int:
        """The same, as a signed number."""
        return int.from_bytes(self.asked(name, *args), "little", signed=True)

    def text(self, name: str, *args: Any) -> str:
        """The same, as a text."""
        return self.asked(name, *args).partition(b"\0")[0].decode(errors="replace").strip()

    def _refused(self, asked: str, status: int) -> DeviceError:
        what = f"{asked}: {self.told(status)}"
        advice = self.advice.get(status)
        return DeviceError(status, f"{what}; {advice}" if advice else what)


class _Current(threading.local):
    handle = 0


def named(status: int) -> str:
    """OpenCL's name for a status."""
    return _NAMES.get(status, f"status {status}")
