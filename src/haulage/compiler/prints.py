"""The calls of `print` in kernels, each with a number that compiled code can tell the host.

A call is a tuple of items, which make a line one after the other: a text, or the NumPy dtype of a
value.
Values travel in 8-byte cells: integers as int64 or uint64, floats as float64, complex numbers as
two of them.
"""

from typing import Any

import numpy as np

from haulage.compiler.numbers import Numbers

Item = str | np.dtype[Any]
Items = tuple[Item, ...]


class PrintTable:
    """Numbers for calls of `print`, given out as code is lowered; equal calls share one."""

    def __init__(self) -> None:
        self._numbers = Numbers[Items]()

    def number(self, module: Any, items: Items) -> int:
        """The number of a call, noted on the `llvmlite.ir` module whose code makes it."""
        number = self._numbers.of(items)
        if not hasattr(module, "haulage_prints"):
            module.haulage_prints = set()
        module.haulage_prints.add(number)
        return number

    def select(self, numbers: set[int]) -> dict[int, Items]:
        """The calls behind some numbers, in order."""
        return self._numbers.select(numbers)

    def claim(self, calls: dict[int, Items]) -> bool:
        """Take the numbers that code of another process has; False if another call has one."""
        return self._numbers.claim(calls)


TABLE = PrintTable()
