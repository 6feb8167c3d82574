"""A copy's block as arrays have it that are given to the program, which can give them to others."""

import weakref
from typing import Any, Protocol

from haulage.runtime.memory import Block
from haulage.runtime.stream import Stream


class Lender(Protocol):
    """The storage that a copy is of."""

    def lend(self, block: Block, start: int, stop: int, readonly: bool) -> object:
        """What another library is to hold as long as it has bytes of a copy's block."""
        ...


class Loan(Block):
    """The block `of` a copy, of which `storage` wants to know who else has it.

    It is that block in all else, so what it does not have itself is asked of that.
    """

    __slots__ = ("held", "of", "storage")

    of: Block
    storage: "weakref.ref[Lender]"
    held: list[object]

    def __init__(self, of: Block, storage: Lender) -> None:
        own = object.__setattr__
        for name in ("device", "device_ptr", "generation", "host_ptr", "kind", "nbytes"):
            own(self, name, getattr(of, name))
        own(self, "of", of)
        own(self, "storage", weakref.ref(storage))
        own(self, "held", [])

    def lent(self, start: int, stop: int, readonly: bool, kept: bool = False) -> object:
        """As `Block.lent`."""
        storage = self.storage()
        hold = None if storage is None else storage.lend(self.of, start, stop, readonly)
        if kept and hold is not None:
            self.held.append(hold)
        return hold

    def use(self, stream: Stream | None = None) -> None:
        """As `Block.use`."""
        self.of.use(stream)

    def close(self) -> None:
        """As `Block.close`."""
        self.of.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.of, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.of, name, value)

    def __del__(self, *given: object) -> None:
        pass  # it is the block's own to give the memory back
