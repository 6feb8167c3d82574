"""Modules of the HIP runtime, and where the arguments of their kernels are."""

import ctypes
from collections.abc import Callable

from haulage.backends.amd_driver.calls import Calls
from haulage.backends.amd_driver.metadata import Places, places
from haulage.backends.gpu_driver import code
from haulage.backends.gpu_driver.calls import NOT_FOUND
from haulage.backends.gpu_driver.channel import Channels
from haulage.errors import DeviceError, Unsupported

# A variable of modules with kernels that tell nanoseconds: ticks in a millisecond of the clock.
_CLOCK_RATE = "haulage_clock_rate"

# A linked code object is an ELF file for AMD's GPUs; the runtime looks into what it is given
# without asking whether that is one.
_ELF, _MACHINE_AT, _AMDGPU = b"\x7fELF", 18, 224
_HEADER = 64
_INVALID_IMAGE = 200
# What the runtime gives in ROCm 5 where a module has no such variable.
_INVALID_VALUE = 1


class Code(code.Code):
    """The runtime's modules and functions. Safe to use from any thread."""

    no_variable = (NOT_FOUND, _INVALID_VALUE)
    _calls: Calls

    def __init__(
        self, calls: Calls, channels: Channels, write: Callable[[int, int, bytes], None]
    ) -> None:
        super().__init__(calls, channels, write)
        self._function_of: dict[int, tuple[int, str]] = {}
        self._places: dict[int, Places] = {}
        # The runtime need not have copied the code of a module.
        self._images: dict[int, ctypes.Array[ctypes.c_char]] = {}

    def _load(self, code: bytes) -> int:
        machine = int.from_bytes(code[_MACHINE_AT : _MACHINE_AT + 2], "little")
        if len(code) < _HEADER or not code.startswith(_ELF) or machine != _AMDGPU:
            raise DeviceError(
                _INVALID_IMAGE,
                f"{len(code)} bytes that begin with {code[:16]!r} are no code object of an AMD GPU",
            )
        image = ctypes.create_string_buffer(code, len(code))
        handle: int = self._calls("ModuleLoadData", ctypes.addressof(image))
        self._images[handle] = image
        return handle

    def _loaded(self, module: int, device: int) -> None:
        super()._loaded(module, device)
        self._set_clock(module, device)

    def _set_clock(self, module: int, device: int) -> None:
        """Tell a module, if it asks, how fast the clock of its device is."""
        variable = self._variable(module, _CLOCK_RATE)
        if variable is None:
            return
        rate = self._calls.attribute(device, "WALL_CLOCK_RATE")
        if rate <= 0:
            version = ".".join(map(str, self._calls.version))
            raise Unsupported(
                f"the kernel asks for nanoseconds, and the HIP runtime of ROCm {version} does not "
                f"tell how fast the clock of AMD device {device} is: update ROCm (5.3 or later "
                "tells it), or use clock64, which counts ticks"
            )
        self._write(device, variable[0], rate.to_bytes(4, "little"))

    def _forget(self, module: int, device: int) -> Callable[[], None]:
        reconnect = super()._forget(module, device)
        with self._lock:
            image = self._images.pop(module)
            gone = {each: of for each, of in self._function_of.items() if of[0] == module}
            for function in gone:
                del self._function_of[function]
                self._places.pop(function, None)

        def undo() -> None:
            reconnect()
            with self._lock:
                self._images[module] = image
                self._function_of.update(gone)

        return undo

    def function(self, module: int, name: str) -> int:
        """The handle of a kernel."""
        function = super().function(module, name)
        self._function_of[function] = module, name
        return function

    def places(self, function: int) -> Places:
        """Where a kernel's arguments are in the block of them."""
        known = self._places.get(function)
        if known is None:
            module, name = self._function_of[function]
            known = self._places[function] = places(self._images[module].raw)[name]
        return known
