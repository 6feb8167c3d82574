"""The stages from a Python function to a code object for AMD's GPUs; each stage's text is kept.

`lowered` (Numba's LLVM IR), `linked` (one module with the entry and all it needs) and `llvm`
(optimised); then object code, which is linked to what a driver loads.
"""

from typing import Any

from haulage.backends.amd_driver.metadata import GRID_COUNTER
from haulage.compiler.argument_block import argument_offsets, size_of
from haulage.compiler.gpu.amd.build import build, with_version
from haulage.compiler.gpu.amd.grid import WORDS
from haulage.compiler.gpu.amd.options import attributes
from haulage.compiler.gpu.body import GPUBody, Made
from haulage.compiler.gpu.channel import with_channel
from haulage.compiler.gpu.entry import Entry, with_entry
from haulage.compiler.gpu.grid import with_grid_barrier
from haulage.compiler.gpu.metadata import free_number, with_place, with_unit
from haulage.compiler.helpers import with_helpers
from haulage.targets.amd_address_spaces import with_address_spaces
from haulage.targets.amd_clock import CLOCK_RATE
from haulage.targets.amd_linker import link
from haulage.targets.amd_metadata import kernels
from haulage.targets.gpu_ir import DYNAMIC_SHARED

# LLVM lists it where there is dynamic shared memory; `targets/amd.py` reads its size elsewhere.
_UNREAD = ("hidden_dynamic_lds_size",)


class AMDBody(GPUBody):
    """A kernel typed and lowered for one signature, on its way to a code object."""

    target: Any

    def _made(self, threads: int) -> Made:
        built = build(self._linked(), self.entry, self.target, self._options, self.lowered)
        code = link(built.code, unread=_UNREAD)
        takes = kernels(code)[self.entry]
        passed = (*self.lowered.arguments, *["ptr"] * self.lowered.cooperative)
        offsets, _ = argument_offsets(passed)
        takes.check_arguments(offsets, [size_of(kind) for kind in passed])
        return Made(
            code=code,
            stages={"linked": built.linked, "llvm": built.llvm},
            metadata={
                "shared_bytes": takes.shared_bytes,
                "local_bytes": takes.local_bytes,
                "resources": takes.resources,
                "constant_bytes": built.constant_bytes,
                "uses_dynamic_shared": self.lowered.dynamic_shared and DYNAMIC_SHARED in built.llvm,
            },
        )

    def _in_its_memory(self, text: str) -> str:
        return with_address_spaces(text)

    def _linked(self) -> str:
        lowered = self.lowered
        text = self.settled(lowered.llvm)
        how = Entry(
            "protected amdgpu_kernel",
            "ptr addrspace(1)",
            attributes(self._options, self.target),
            more=(f"ptr addrspace(1) %{GRID_COUNTER}",) if lowered.cooperative else (),
        )
        text = with_entry(text, lowered.entry, self.entry, lowered.arguments, self.can_fail, how)
        text = with_unit(with_place(text, lowered.entry, self.entry))
        text = with_channel(
            with_grid_barrier(with_helpers(text), WORDS),
            visible="protected",
            inlined="alwaysinline",
        )
        text = with_address_spaces(text).replace(
            f"@{CLOCK_RATE} = weak_odr addrspace(1) global",
            f"@{CLOCK_RATE} = protected addrspace(1) externally_initialized global",
        )
        return with_version(text, free_number(text))
