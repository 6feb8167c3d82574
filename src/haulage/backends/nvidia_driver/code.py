"""Modules of CUDA's driver: PTX, which it assembles, or machine code."""

from haulage.backends.gpu_driver import code
from haulage.backends.gpu_driver.code import SHARED
from haulage.backends.nvidia_driver.calls import bindings

# Attributes of functions.
_PTX, _DYNAMIC, _CARVEOUT = 5, 8, 9

# Options of the driver's assembler and linker: where the errors go, and how many bytes there are.
_LOG, _LOG_BYTES = 5, 6
_MOST_OF_LOG = 16 << 10

# Of dynamic shared memory, which functions have without asking.
_USUAL_SHARED = 48 << 10


class Code(code.Code):
    """CUDA's modules and functions."""

    figures = code.FIGURES | {"ptx_version": _PTX}

    def _load(self, code: bytes) -> int:
        log, *options = logging()
        # The driver reads PTX up to a zero byte.
        image = code if code.startswith(b"\x7fELF") else code + b"\0"
        status, module = self._calls.ask("ModuleLoadDataEx", image, *options)
        if status:
            raise self._calls.failed("ModuleLoadDataEx", (len(code),), status, log)
        return int(module)

    def with_all_shared(self, function: int, most_shared: int) -> None:
        """By an attribute of the function."""
        if most_shared > _USUAL_SHARED:
            dynamic = most_shared - self._attribute(function, SHARED)
            self._calls("FuncSetAttribute", function, _DYNAMIC, dynamic)

    def prefer_shared(self, function: int, percent: int) -> None:
        """Say how much of its fast memory is best shared memory."""
        self._calls("FuncSetAttribute", function, _CARVEOUT, percent)


def logging() -> tuple[bytearray, int, list[object], list[object]]:
    """Room for what the driver's assembler or linker writes, and the three arguments by which it is
    told of it."""
    log = bytearray(_MOST_OF_LOG)
    options = [bindings().CUjit_option(number) for number in (_LOG, _LOG_BYTES)]
    return log, len(options), options, [log, len(log)]
