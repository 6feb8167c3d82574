"""Who is told what happens to memory, in streams and to kernels: `haulage trace`, when it runs.

Nobody is, mostly: then each place that would tell looks at one name of this module and goes on.
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from haulage.runtime.memory.block import Block


class Observer(Protocol):
    """Is told of each event at once, in the thread that it happens in."""

    def allocated(self, block: "Block") -> None:
        """A block was given out; `block.mark` says to whom."""
        ...

    def freed(self, block: "Block") -> None:
        """The last reference to a block is gone, or it was closed."""
        ...


# The one that is told, or None.
observer: Observer | None = None
