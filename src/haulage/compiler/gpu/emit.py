"""The stages from a Python function to code for a GPU, by name; each stage's text is kept.

`lowered` (Numba's LLVM IR), `linked` (one module with the entry and all it needs) and `llvm`
(optimised); then assembly.
"""

from typing import Any

from haulage.compiler import dynamic_rooms, ends, llvm
from haulage.compiler.argument_block import argument_offsets
from haulage.compiler.body import Body
from haulage.compiler.code import Code
from haulage.compiler.gpu import limits
from haulage.compiler.gpu.build import build
from haulage.compiler.gpu.channel import with_channel
from haulage.compiler.gpu.entry import entry_name, with_entry
from haulage.compiler.gpu.grid import with_grid_barrier
from haulage.compiler.gpu.metadata import of_lines_only, with_options, with_place
from haulage.compiler.gpu.ptx_version import for_arguments
from haulage.compiler.helpers import with_helpers
from haulage.compiler.unrolling import keep_loops
from haulage.targets.nvidia_ir import DYNAMIC_SHARED


class GPUBody(Body):
    """A kernel typed and lowered for one signature; its code is the same for all block sizes."""

    def for_any_block(self) -> Code:
        """The code, which is the same for all blocks."""
        return self.code((0, 0, 0), "threads")

    def _make(self, block: Any, way: str) -> Code:
        with llvm.LOCK:
            built = build(self._linked(), self.entry, self.target, self._options, self.lowered)
        offsets, nbytes = argument_offsets(self.lowered.arguments)
        asm = for_arguments(built.asm, nbytes)
        limits.check_local(self.name, self.target.architecture, asm)
        target = self.target
        stages = {
            "lowered": self.lowered.llvm,
            "linked": built.linked,
            "llvm": built.llvm,
            "asm": asm,
        }
        return Code(
            code=asm.encode(),
            texts=lambda: (target, stages),
            metadata={
                "name": self.name,
                "target": self.target.architecture,
                "signature": self.lowered.signature,
                "entry": self.entry,
                "block": None,
                "way": "threads",
                "pieces": 1,
                "shared_bytes": sum(limits.rooms("shared", asm)),
                "local_bytes": sum(limits.rooms("local", asm)),
                "block_bytes": 0,
                "constant_bytes": built.constant_bytes,
                "cooperative": self.lowered.cooperative,
                "uses_dynamic_shared": self.lowered.dynamic_shared and DYNAMIC_SHARED in asm,
                "argument_offsets": tuple(offsets),
                "argument_bytes": nbytes,
                "debug": self._options.debug,
            },
            faults=self.lowered.faults,
            prints=self.lowered.prints,
            captured=self.lowered.captured,
            linked=tuple(dict.fromkeys((*self._options.linked, *self.lowered.linked))),
        )

    @property
    def entry(self) -> str:
        """The kernel's name in the code."""
        return entry_name(self.name, self.lowered.llvm)

    def _linked(self) -> str:
        lowered = self.lowered
        text = ends.forget(of_lines_only(lowered.llvm), lowered.entry)
        text = keep_loops(dynamic_rooms.settle(text, lowered.entry, self.target))
        can_fail = any(fault.exception is not None for fault in lowered.faults.values())
        text = with_entry(text, lowered.entry, self.entry, lowered.arguments, can_fail)
        text = with_place(text, lowered.entry, self.entry)
        text = with_channel(with_grid_barrier(with_helpers(text)))
        return with_options(text, self.entry, self._options)
