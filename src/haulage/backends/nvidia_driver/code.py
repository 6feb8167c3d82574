"""Modules and functions of the driver, and what they tell of themselves."""

import threading

from haulage.backends.gpu_driver.calls import NOT_FOUND
from haulage.backends.gpu_driver.channel import Channels
from haulage.backends.nvidia_driver.calls import Calls, bindings
from haulage.errors import DeviceError
from haulage.interruption import on_error

# Attributes of functions.
_THREADS, _SHARED, _CONST, _LOCAL, _REGISTERS, _PTX, _BINARY, _DYNAMIC = 0, 1, 2, 3, 4, 5, 6, 8
_CARVEOUT = 9
_FIGURES = {
    "max_threads": _THREADS,
    "shared_bytes": _SHARED,
    "const_bytes": _CONST,
    "local_bytes": _LOCAL,
    "registers": _REGISTERS,
    "ptx_version": _PTX,
    "binary_version": _BINARY,
}

# Options of the driver's assembler.
_LOG, _LOG_BYTES = 5, 6
_MOST_OF_LOG = 16 << 10

# Of dynamic shared memory, which functions have without asking.
_USUAL_SHARED = 48 << 10


class Code:
    """The driver's modules and functions. Safe to use from any thread."""

    def __init__(self, calls: Calls, channels: Channels) -> None:
        self._calls = calls
        self._driver = bindings()
        self._channels = channels
        self._lock = threading.Lock()
        self._device_of: dict[int, int] = {}

    def load(self, code: bytes, device: int) -> int:
        """Load PTX or a cubin on `device`, whose context is current; see `Backend.load`."""
        driver = self._driver
        log = bytearray(_MOST_OF_LOG)
        options = [driver.CUjit_option(number) for number in (_LOG, _LOG_BYTES)]
        # The driver reads PTX up to a zero byte.
        image = code if code.startswith(b"\x7fELF") else code + b"\0"
        status, module = driver.cuModuleLoadDataEx(image, len(options), options, [log, len(log)])
        if status:
            raise self._calls.failed("cuModuleLoadDataEx", (len(code),), int(status), log)
        handle = int(module)
        with self._lock:
            self._device_of[handle] = device
        with on_error(self.unload, handle):
            self._channels.connect(handle, device, self._variable)
        return handle

    def unload(self, module: int) -> None:
        """Give a module back."""
        with self._lock:
            device = self._device_of.pop(module)
        reconnect = self._channels.disconnect(module, device)
        try:
            self._calls(self._driver.cuModuleUnload, module)
        except BaseException:
            reconnect()
            with self._lock:
                self._device_of[module] = device
            raise

    def function(self, module: int, name: str, most_shared: int) -> int:
        """The handle of a kernel, which can have all the dynamic shared memory that there is."""
        driver = self._driver
        function = int(self._calls(driver.cuModuleGetFunction, module, name.encode()))
        self._calls.names[function] = name
        self._channels.note(module, function)
        if most_shared > _USUAL_SHARED:
            dynamic = most_shared - self._attribute(function, _SHARED)
            number = driver.CUfunction_attribute(_DYNAMIC)
            self._calls(driver.cuFuncSetAttribute, function, number, dynamic)
        return function

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
        driver = self._driver
        status, address, nbytes = driver.cuModuleGetGlobal(module, name.encode())
        if int(status) == NOT_FOUND:
            return None
        if status:
            raise self._calls.failed("cuModuleGetGlobal", (module,), int(status))
        return int(address), nbytes

    def info(self, function: int) -> dict[str, int]:
        """Registers, bytes of memory and versions of a function."""
        return {name: self._attribute(function, number) for name, number in _FIGURES.items()}

    def prefer_shared(self, function: int, percent: int) -> None:
        """Say how much of its fast memory is best shared memory."""
        number = self._driver.CUfunction_attribute(_CARVEOUT)
        self._calls(self._driver.cuFuncSetAttribute, function, number, percent)

    def occupancy(self, function: int, threads: int, shared_bytes: int) -> int:
        """Blocks that fit one multiprocessor."""
        ask = self._driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        blocks: int = self._calls(ask, function, threads, shared_bytes)
        return blocks

    def _attribute(self, function: int, number: int) -> int:
        attribute = self._driver.CUfunction_attribute(number)
        value: int = self._calls(self._driver.cuFuncGetAttribute, attribute, function)
        return value
