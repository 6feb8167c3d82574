"""Where code comes from, as LLVM's debug metadata says it."""

from typing import Any

from numba.core.debuginfo import DIBuilder

from haulage.compiler.checks.names import NAMES


class LocationBuilder(DIBuilder):
    """Numba's, whose columns say which array is accessed there: Numba itself knows lines only.

    Attributes:
        array: that of what is written next, as the source calls it; nothing: none.
    """

    array = ""

    def _di_location(self, line: int) -> Any:
        at = {"line": line, "column": NAMES.column(self.array), "scope": self.subprograms[-1]}
        return self.module.add_debug_info("DILocation", at)
