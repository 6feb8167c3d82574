"""The stages from a Python function to SPIR-V for OpenCL devices; each stage's text is kept.

`lowered` (Numba's LLVM IR), `linked` (one module with the entry and all it needs) and `llvm`
(optimised, with all address spaces); then SPIR-V.
"""

from haulage.compiler.argument_block import size_of
from haulage.compiler.gpu.body import GPUBody, Made
from haulage.compiler.gpu.channel import with_channel
from haulage.compiler.gpu.entry import Entry, with_entry
from haulage.compiler.gpu.grid import with_grid_barrier
from haulage.compiler.gpu.metadata import with_place
from haulage.compiler.gpu.opencl import limits
from haulage.compiler.gpu.opencl.build import build
from haulage.compiler.gpu.opencl.grid import WORDS
from haulage.compiler.gpu.opencl.words import with_channel_as_parameter
from haulage.compiler.helpers import with_helpers

KERNEL = Entry("spir_kernel", "ptr addrspace(1)")


class OpenCLBody(GPUBody):
    """A kernel typed and lowered for one signature, on its way to SPIR-V."""

    def _made(self, threads: int) -> Made:
        built = build(self._linked(), self.entry, self.target, self._options, self.lowered)
        return Made(
            code=built.code,
            stages={"linked": built.linked, "llvm": built.llvm},
            metadata={
                "shared_bytes": limits.shared_bytes(built.llvm),
                "local_bytes": limits.local_bytes(built.llvm),
                "constant_bytes": built.constant_bytes,
                "uses_dynamic_shared": "dynamic_shared" in built.hidden,
                "argument_sizes": tuple(size_of(kind) for kind in self.lowered.arguments),
                "hidden": built.hidden,
                "lanes": built.lanes,
            },
        )

    def _linked(self) -> str:
        lowered = self.lowered
        text = self.settled(lowered.llvm)
        text = with_entry(text, lowered.entry, self.entry, lowered.arguments, self.can_fail, KERNEL)
        text = with_place(text, lowered.entry, self.entry)
        text = with_channel(with_grid_barrier(with_helpers(text), WORDS), inlined="alwaysinline")
        text = with_channel_as_parameter(text)
        return text.replace(" noinline norecurse nounwind {", " alwaysinline nounwind {")
