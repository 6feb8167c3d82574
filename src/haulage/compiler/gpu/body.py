"""A kernel that is compiled for a GPU: what is the same for those of all makers."""

from abc import abstractmethod
from math import prod
from typing import Any, NamedTuple

from haulage.compiler import dynamic_rooms, ends, llvm
from haulage.compiler.argument_block import argument_offsets
from haulage.compiler.body import Body
from haulage.compiler.code import Code
from haulage.compiler.gpu.entry import entry_name
from haulage.compiler.gpu.metadata import of_lines_only
from haulage.compiler.gpu.modules import internalise
from haulage.compiler.helpers import with_helpers
from haulage.compiler.unrolling import keep_loops
from haulage.compiler.versions import GENERAL
from haulage.forks import cached_property


class Made(NamedTuple):
    """What became of a kernel: its code, the text of each stage by name, and the metadata that its
    maker's code generator knows."""

    code: bytes
    stages: dict[str, str]
    metadata: dict[str, Any]


class GPUBody(Body):
    """A kernel typed and lowered for one signature; its code is the same for all block sizes, where
    it does not take so many registers that a large block of threads has not enough of them."""

    def for_any_block(self) -> Code:
        """The code, which is the same for all blocks."""
        return self.code((0, 0, 0), "threads")

    @cached_property
    def entry(self) -> str:
        """The kernel's name in the code."""
        return entry_name(self.name, self.lowered.llvm)

    @abstractmethod
    def _made(self, threads: int) -> Made:
        """The code, made now, by the one thread that uses LLVM; for blocks of at most so many
        threads, 0 for what takes as many registers as it likes."""

    def _inlined(self) -> tuple[str, str]:
        name = self.lowered.entry
        with llvm.LOCK:
            module = llvm.parse(self._in_its_memory(with_helpers(self.settled(self.lowered.llvm))))
            internalise(module, name)
            llvm.optimise(module, self.target, 2, widen=False)
            return str(module), name

    def _in_its_memory(self, text: str) -> str:
        """A module's text with the address spaces that the target has."""
        return text

    def _make(self, block: Any, way: str, version: str) -> Code:
        assert version == GENERAL
        with llvm.LOCK:
            made = self._made(prod(block))
        offsets, nbytes = argument_offsets(self.lowered.arguments)
        # Loaded code stays as long as the process: it must not keep the function.
        target, stages = self.target, {"lowered": self.lowered.llvm, **made.stages}
        return Code(
            code=made.code,
            texts=lambda: (target, stages),
            metadata={
                "name": self.name,
                "target": self.target.architecture,
                "signature": self.lowered.signature,
                "entry": self.entry,
                "block": None,
                "strategy": "threads",
                "regions": 1,
                "block_bytes": 0,
                "cooperative": self.lowered.cooperative,
                "argument_offsets": tuple(offsets),
                "argument_bytes": nbytes,
                "names_threads": self._options.names_threads,
                **made.metadata,
            },
            faults=self.lowered.faults,
            prints=self.lowered.prints,
            captured=self.lowered.captured,
            linked=tuple(dict.fromkeys((*self._options.linked, *self.lowered.linked))),
        )

    @property
    def can_fail(self) -> bool:
        """Whether a thread can stop with a fault."""
        return any(fault.exception is not None for fault in self.lowered.faults.values())

    def settled(self, text: str) -> str:
        """A text of the kernel's function, as the front end makes it, in which shared arrays have
        their offsets and its ends no codes."""
        text = ends.forget(of_lines_only(text), self.lowered.entry)
        return keep_loops(dynamic_rooms.settle(text, self.lowered.entry, self.target))
