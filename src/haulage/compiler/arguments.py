"""What is known of the arrays and integers that a kernel is given."""

from dataclasses import dataclass

from haulage.compiler.access.model import Path


@dataclass(frozen=True)
class ArrayArgument:
    """An array among the flattened arguments of a kernel.

    `data` is the number of its address among them, `ndim` of its axes, `nbytes` of the bytes of an
    element; `contiguous` says that these lie side by side, by rows or by columns.
    """

    path: Path
    data: int
    ndim: int
    nbytes: int
    contiguous: bool

    @property
    def count(self) -> int:
        """The number, among the arguments, of how many elements it has."""
        return self.data - 2

    @property
    def shape(self) -> range:
        """Those of its sizes."""
        return range(self.data + 1, self.data + 1 + self.ndim)

    @property
    def strides(self) -> range:
        """Those of its strides, in bytes."""
        return range(self.data + 1 + self.ndim, self.data + 1 + 2 * self.ndim)


@dataclass(frozen=True)
class IntegerArgument:
    """A signed integer among the flattened arguments: its number there, and its bits."""

    path: Path
    number: int
    bits: int
