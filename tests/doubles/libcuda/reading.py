"""The double's code: PTX, read and run on this machine's processor by `doubles.ptx`."""

import ctypes
import itertools
import traceback

from doubles.libcuda import FAILED, Interpreter, Refused
from doubles.ptx import ARCHITECTURE, runtime
from doubles.ptx.loading import HEADER, Loaded, check
from doubles.ptx.syntax import PTXError
from haulage.errors import DeviceError

Dims = tuple[int, int, int]

_RUN = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)
_MOST_THREADS = 0
_INVALID_PTX, _INVALID_HANDLE, _NOT_FOUND = 218, 400, 500


class Reading(Interpreter):
    """Modules and functions of PTX text."""

    def __init__(self) -> None:
        self._numbers = itertools.count(0x1000, 16)
        self._modules: dict[int, Loaded] = {}
        self._functions: dict[int, tuple[Loaded, str]] = {}
        # What functions tell, by CUDA's numbers; the same of all: most threads in a block,
        # registers, versions of the PTX and of the code.
        version = int(ARCHITECTURE.removeprefix("sm_"))
        self.attributes: dict[int, int] = {0: 1024, 4: 32, 5: version, 6: version}

    def load(self, code: bytes) -> int:
        """Translate and compile a text."""
        try:
            loaded = Loaded(code.decode())
        except (PTXError, DeviceError, ValueError) as error:
            raise Refused(_INVALID_PTX, f"ptxas fatal : {error}") from None
        module = next(self._numbers)
        self._modules[module] = loaded
        return module

    def unload(self, module: int) -> None:
        """Take it out of the process."""
        loaded = self._modules.pop(module, None)
        if loaded is None:
            raise Refused(_INVALID_HANDLE)
        self._functions = {n: known for n, known in self._functions.items() if known[0] != loaded}
        loaded.close()

    def function(self, module: int, name: str) -> int:
        """One of its entries."""
        loaded = self._modules[module]
        if name not in loaded.translated.entries:
            raise Refused(_NOT_FOUND)
        function = next(self._numbers)
        self._functions[function] = loaded, name
        return function

    def symbol(self, module: int, name: str) -> tuple[int, int]:
        """One of its variables."""
        try:
            return self._modules[module].symbol(name)
        except DeviceError:
            raise Refused(_NOT_FOUND) from None

    def launch(
        self, function: int, grid: Dims, block: Dims, shared_bytes: int, args: bytes, together: bool
    ) -> None:
        """Run all blocks, one after the other, or by turns where they wait for one another."""
        loaded, name = self._functions[function]
        try:
            check(loaded.entry(name), block, args)
            launch = HEADER.pack(*grid, *block, shared_bytes, 0) + args
            address = loaded.address(name, together=together)
            if _RUN(address)(launch, 0, grid[0] * grid[1] * grid[2]):
                runtime.raise_error()
        except DeviceError:
            traceback.print_exc()
            raise Refused(FAILED) from None

    def attribute(self, function: int, attribute: int) -> int:
        """As the test has set it. -1, -2, ..., which are none of CUDA's, are its parameters: where
        each is, times 65536, and its bytes; 0 when there are no more.

        Of the most threads of a block, what a code says itself holds.
        """
        if function not in self._functions:
            raise Refused(_INVALID_HANDLE)
        loaded, name = self._functions[function]
        if attribute < 0:
            places = loaded.entry(name).parameters
            number = -1 - attribute
            if number >= len(places):
                return 0
            offset, size = places[number]
            return offset << 16 | size
        if attribute == _MOST_THREADS:
            return loaded.entry(name).most_threads or self.attributes.get(attribute, 1024)
        return self.attributes.get(attribute, 0)
