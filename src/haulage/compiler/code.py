"""Compiled code of a kernel, ready to be loaded; knows nothing of how it is made."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from haulage.compiler import llvm
from haulage.compiler.faults import Fault
from haulage.compiler.prints import Items
from haulage.targets.base import Target


@dataclass(frozen=True)
class Code:
    """Compiled code of a kernel.

    `llvm` and `asm` are texts, `code` the bytes that a driver loads (for `host` an object file),
    `metadata` says what it is: entry, target, signature, block, way, bytes of shared and local
    memory. `stages` has the text of every stage by name; `faults` what its threads can stop with,
    `prints` what they print. `captured` are arrays of the device whose addresses the code has; a
    launch has to see that they are there. `texts` gives the target and the stages, which code from
    the disk cache does not have: it is compiled again for them.
    """

    code: bytes
    metadata: dict[str, Any]
    faults: dict[int, Fault]
    prints: dict[int, Items]
    texts: Callable[[], tuple[Target, dict[str, str]]]
    captured: tuple[Any, ...] = ()

    @property
    def target(self) -> Target:
        """What the code is for."""
        return self.texts()[0]

    @property
    def stages(self) -> dict[str, str]:
        """The text of every stage, by name."""
        return self.texts()[1]

    @property
    def llvm(self) -> str:
        """LLVM IR as it went to the code generator."""
        return self.stages["llvm"]

    @cached_property
    def asm(self) -> str:
        """Assembly text of the same code."""
        with llvm.LOCK:
            return llvm.assembly(self.llvm, self.target)

    def __repr__(self) -> str:
        name, target = self.metadata["name"], self.metadata["target"]
        return f"<Code of {name} for {target}: {len(self.code)} bytes>"
