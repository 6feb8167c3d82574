"""The stages from a Python function to PTX, by name; each stage's text is kept.

`lowered` (Numba's LLVM IR), `linked` (one module with the entry and all it needs) and `llvm`
(optimised); then assembly.
"""

from haulage.compiler.argument_block import argument_offsets
from haulage.compiler.code import Code
from haulage.compiler.gpu.body import GPUBody, Made
from haulage.compiler.gpu.channel import with_channel
from haulage.compiler.gpu.entry import with_entry
from haulage.compiler.gpu.grid import with_grid_barrier
from haulage.compiler.gpu.metadata import with_place
from haulage.compiler.gpu.nvidia import limits
from haulage.compiler.gpu.nvidia.build import build
from haulage.compiler.gpu.nvidia.grid import WORDS
from haulage.compiler.gpu.nvidia.notes import with_options
from haulage.compiler.gpu.nvidia.ptx_version import for_arguments
from haulage.compiler.gpu.nvidia.recursion import is_recursive
from haulage.compiler.helpers import with_helpers
from haulage.compiler.limits import check_local
from haulage.compiler.options import Options
from haulage.targets.gpu_ir import DYNAMIC_SHARED


class PTXBody(GPUBody):
    """A kernel typed and lowered for one signature, on its way to PTX."""

    def _made(self, threads: int) -> Made:
        linked = self._linked(self._options.for_threads(threads))
        built = build(linked, self.entry, self.target, self._options, self.lowered)
        asm = for_arguments(built.asm, argument_offsets(self.lowered.arguments)[1])
        # Those of one function; the assembler looks at each alone.
        largest = max(limits.rooms("local", asm), default=0)
        check_local(f"kernel {self.name}", largest, self.lowered.local_arrays, self.target)
        return Made(
            code=asm.encode(),
            stages={"linked": built.linked, "llvm": built.llvm, "asm": asm},
            metadata={
                "recursive": is_recursive(asm),
                "shared_bytes": sum(limits.rooms("shared", asm)),
                "local_bytes": sum(limits.rooms("local", asm)),
                "constant_bytes": built.constant_bytes,
                "uses_dynamic_shared": self.lowered.dynamic_shared and DYNAMIC_SHARED in asm,
            },
        )

    def check_code(self, code: Code) -> None:
        """As of all bodies: the bytes of shared arrays and arguments."""
        limits.check(code)

    def _linked(self, options: Options) -> str:
        lowered = self.lowered
        text = self.settled(lowered.llvm)
        text = with_entry(text, lowered.entry, self.entry, lowered.arguments, self.can_fail)
        text = with_place(text, lowered.entry, self.entry)
        text = with_channel(with_grid_barrier(with_helpers(text), WORDS))
        return with_options(text, self.entry, options)
