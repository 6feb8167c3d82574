"""Modules and functions of the HIP runtime, and what they tell of themselves."""

import ctypes
import threading
from collections.abc import Callable

from haulage.backends.amd_driver.calls import Calls
from haulage.backends.amd_driver.figures import attribute
from haulage.backends.amd_driver.metadata import Places, places
from haulage.backends.gpu_driver.calls import NOT_FOUND
from haulage.backends.gpu_driver.channel import Channels
from haulage.errors import DeviceError, Unsupported
from haulage.interruption import on_error

# A variable of modules with kernels that tell nanoseconds: ticks in a millisecond of the clock.
_CLOCK_RATE = "haulage_clock_rate"

# Attributes of functions.
_FIGURES = {
    "max_threads": 0,
    "shared_bytes": 1,
    "const_bytes": 2,
    "local_bytes": 3,
    "registers": 4,
    "binary_version": 6,
}

# A linked code object is an ELF file for AMD's GPUs; the runtime looks into what it is given
# without asking whether that is one.
_ELF, _MACHINE_AT, _AMDGPU = b"\x7fELF", 18, 224
_HEADER = 64
_INVALID_IMAGE = 200
# What hipModuleGetGlobal gives where there is no such variable: in ROCm 5 also the first.
_INVALID_VALUE = 1


class Code:
    """The runtime's modules and functions. Safe to use from any thread."""

    def __init__(
        self, calls: Calls, channels: Channels, write: Callable[[int, int, bytes], None]
    ) -> None:
        self._calls = calls
        self._channels = channels
        self._write = write
        self._lock = threading.Lock()
        self._device_of: dict[int, int] = {}
        self._function_of: dict[int, tuple[int, str]] = {}
        self._places: dict[int, Places] = {}
        # The runtime need not have copied the code of a module.
        self._images: dict[int, ctypes.Array[ctypes.c_char]] = {}

    def load(self, code: bytes, device: int) -> int:
        """Load a code object on `device`, which is current; see `Backend.load`."""
        machine = int.from_bytes(code[_MACHINE_AT : _MACHINE_AT + 2], "little")
        if len(code) < _HEADER or not code.startswith(_ELF) or machine != _AMDGPU:
            raise DeviceError(
                _INVALID_IMAGE,
                f"{len(code)} bytes that begin with {code[:16]!r} are no code object of an AMD GPU",
            )
        image = ctypes.create_string_buffer(code, len(code))
        handle = self._calls.handle("hipModuleLoadData", ctypes.addressof(image))
        with self._lock:
            self._device_of[handle] = device
            self._images[handle] = image
        with on_error(self.unload, handle):
            self._channels.connect(handle, device, self._variable)
            self._set_clock(handle, device)
        return handle

    def _set_clock(self, module: int, device: int) -> None:
        """Tell a module, if it asks, how fast the clock of its device is."""
        variable = self._variable(module, _CLOCK_RATE)
        if variable is None:
            return
        rate = attribute(self._calls, device, "WALL_CLOCK_RATE")
        if rate <= 0:
            version = ".".join(map(str, self._calls.version))
            raise Unsupported(
                f"the kernel asks for nanoseconds, and the HIP runtime of ROCm {version} does not "
                f"tell how fast the clock of AMD device {device} is: update ROCm (5.3 or later "
                "tells it), or use clock64, which counts ticks"
            )
        self._write(device, variable[0], rate.to_bytes(4, "little"))

    def unload(self, module: int) -> None:
        """Give a module back."""
        with self._lock:
            device = self._device_of.pop(module)
            gone = {each: of for each, of in self._function_of.items() if of[0] == module}
            for function in gone:
                del self._function_of[function]
                self._places.pop(function, None)
        reconnect = self._channels.disconnect(module, device)
        try:
            self._calls("hipModuleUnload", module)
        except BaseException:
            reconnect()
            with self._lock:
                self._device_of[module] = device
                self._function_of |= gone
            raise
        del self._images[module]

    def function(self, module: int, name: str) -> int:
        """The handle of a kernel."""
        function = self._calls.handle("hipModuleGetFunction", module, name.encode())
        self._calls.names[function] = name
        self._function_of[function] = module, name
        self._channels.note(module, function)
        return function

    def places(self, function: int) -> Places:
        """Where a kernel's arguments are in the block of them."""
        known = self._places.get(function)
        if known is None:
            module, name = self._function_of[function]
            known = self._places[function] = places(self._images[module].raw)[name]
        return known

    def symbol(self, module: int, name: str) -> tuple[int, int]:
        """(device pointer, bytes) of a variable.

        Raises:
            DeviceError: there is none.
        """
        found = self._variable(module, name)
        if found is None:
            raise DeviceError(NOT_FOUND, f"the module has no variable {name!r}")
        return found

    def _variable(self, module: int, name: str) -> tuple[int, int] | None:
        address, nbytes = ctypes.c_void_p(), ctypes.c_size_t()
        both = ctypes.byref(address), ctypes.byref(nbytes)
        status = self._calls.status("hipModuleGetGlobal", *both, module, name.encode())
        if status in (NOT_FOUND, _INVALID_VALUE):
            return None
        if status:
            raise self._calls.failed("hipModuleGetGlobal", (module,), status)
        return address.value or 0, nbytes.value

    def info(self, function: int) -> dict[str, int]:
        """Registers and bytes of memory of a function."""
        asked = self._calls.number
        return {n: asked("hipFuncGetAttribute", k, function) for n, k in _FIGURES.items()}

    def occupancy(self, function: int, threads: int, shared_bytes: int) -> int:
        """Blocks that fit one multiprocessor."""
        ask = "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"
        return self._calls.number(ask, function, threads, shared_bytes)
