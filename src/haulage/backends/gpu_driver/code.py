"""Modules and functions of a driver, and what they tell of themselves."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from haulage.backends.gpu_driver.calls import NOT_FOUND, Calls
from haulage.backends.gpu_driver.channel import Channels
from haulage.errors import DeviceError
from haulage.interruption import on_error

# Attributes of functions.
SHARED = 1
FIGURES = {
    "max_threads": 0,
    "shared_bytes": SHARED,
    "const_bytes": 2,
    "local_bytes": 3,
    "registers": 4,
    "binary_version": 6,
}


class Code(ABC):
    """The driver's modules and functions. Safe to use from any thread.

    `write` writes to memory of a device, at an address there, waiting for no other work.
    """

    figures: ClassVar[dict[str, int]] = FIGURES
    # What the driver gives where a module has no variable of a name.
    no_variable: ClassVar[tuple[int, ...]] = (NOT_FOUND,)

    def __init__(
        self, calls: Calls, channels: Channels, write: Callable[[int, int, bytes], None]
    ) -> None:
        self._calls = calls
        self._channels = channels
        self._write = write
        self._lock = threading.Lock()
        self._device_of: dict[int, int] = {}

    @abstractmethod
    def _load(self, code: bytes) -> int:
        """The handle of a new module on the current device."""

    def _loaded(self, module: int, device: int) -> None:
        """Tell a new module what it asks for."""
        self._channels.connect(module, device, self._variable)

    def _forget(self, module: int, device: int) -> Callable[[], None]:
        """A module is given back; what is returned undoes that, where the driver refuses."""
        return self._channels.disconnect(module, device)

    def load(self, code: bytes, device: int) -> int:
        """Load code on `device`, which is current; see `Backend.load`."""
        handle = self._load(code)
        with self._lock:
            self._device_of[handle] = device
        with on_error(self.unload, handle):
            self._loaded(handle, device)
        return handle

    def unload(self, module: int) -> None:
        """Give a module back."""
        with self._lock:
            device = self._device_of.pop(module)
        undo = self._forget(module, device)
        try:
            self._calls("ModuleUnload", module)
        except BaseException:
            undo()
            with self._lock:
                self._device_of[module] = device
            raise

    def function(self, module: int, name: str) -> int:
        """The handle of a kernel."""
        function: int = self._calls("ModuleGetFunction", module, name.encode())
        self._calls.names[function] = name
        self._channels.note(module, function)
        return function

    def with_all_shared(self, function: int, most_shared: int) -> None:
        """Let a kernel have all the dynamic shared memory that there is, if it has to be told."""

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
        status, found = self._calls.ask("ModuleGetGlobal", module, name.encode())
        if status in self.no_variable:
            return None
        self._calls.check(status, "ModuleGetGlobal", module)
        address, nbytes = found
        return address, nbytes

    def info(self, function: int) -> dict[str, int]:
        """Registers, bytes of memory and versions of a function."""
        return {name: self._attribute(function, number) for name, number in self.figures.items()}

    def _attribute(self, function: int, number: int) -> int:
        return int(self._calls("FuncGetAttribute", number, function))
