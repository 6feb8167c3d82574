"""Compiled code of a kernel, ready to be loaded; knows nothing of how it is made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from haulage.compiler import llvm
from haulage.compiler.faults import Fault
from haulage.compiler.linked import Linked
from haulage.compiler.prints import Items
from haulage.errors import Unsupported
from haulage.forks import cached_property
from haulage.targets import cpu_registers
from haulage.targets.base import Target


@dataclass(frozen=True)
class Code:
    """Compiled code of a kernel.

    `llvm` and `asm` are texts, `code` the bytes that a driver loads (for `host` an object file),
    `metadata` says what it is: entry, target, signature, block, way, bytes of shared and local
    memory. `stages` has the text of every stage by name; `faults` what its threads can stop with,
    `prints` what they print. `captured` are arrays of the device whose addresses the code has; a
    launch has to see that they are there. `machine_code` is what an assembler made of
    `code` beforehand, for the same architecture, if anything. `linked` is
    code of others that it has to be linked with before it is loaded. `texts` gives the target and
    the stages, which code from the disk cache does not have: it is compiled again for them.
    """

    code: bytes
    metadata: dict[str, Any]
    faults: dict[int, Fault]
    prints: dict[int, Items]
    texts: Callable[[], tuple[Target, dict[str, str]]]
    captured: tuple[Any, ...] = ()
    machine_code: bytes | None = None
    linked: tuple[Linked, ...] = ()

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
        if "asm" in self.stages:
            return self.stages["asm"]
        with llvm.LOCK:
            return llvm.assembly(self.llvm, self.target)

    @cached_property
    def resources(self) -> dict[str, int]:
        """What a thread takes: `registers`; for GPUs also `local_bytes`, of its stack, and
        `shared_bytes` of its block. For NVIDIA's it has `spill_store_bytes` and
        `spill_load_bytes` besides, as their assembler says, which is run when this is asked for
        first; for AMD's `scalar_registers` and `lanes` of a wavefront, and how many registers are
        kept in memory.

        Raises:
            Unsupported: the code is PTX, and there is no assembler; or it is SPIR-V, which the
                driver compiles.
        """
        if "resources" in self.metadata:
            known: dict[str, int] = self.metadata["resources"]
            return known
        if self._is_for_host:
            machine = self.target.triple.partition("-")[0]
            return {"registers": cpu_registers.registers(self.asm, machine)}
        if not self.is_ptx:
            raise Unsupported(
                f"kernel {self.metadata['name']}: what a thread takes is decided by the driver, "
                f"which compiles code for {self.metadata['target']} to that of its device; the "
                "code itself says shared_bytes and local_bytes, in metadata"
            )
        from haulage.compiler.gpu.nvidia import assembler

        return assembler.resources(self.code, self.metadata["entry"])

    def sass(self, *, control_flow: bool = False) -> str:
        """SASS, the assembly of NVIDIA's GPUs; with `control_flow`, the graph of its blocks for
        Graphviz.

        Raises:
            Unsupported: the code is for another processor, or there is no assembler or
                disassembler of NVIDIA's.
        """
        if not self.is_ptx:
            raise Unsupported(
                f"kernel {self.metadata['name']}: SASS is the code of NVIDIA's GPUs, and this is "
                f"for {self.metadata['target']}; inspect_asm gives its assembly, and "
                "haulage.compile(kernel, signature, 'sm_90').sass() the SASS of such a GPU"
            )
        from haulage.compiler.gpu.nvidia import assembler

        return assembler.disassembled(self.code, control_flow=control_flow)

    @property
    def is_ptx(self) -> bool:
        """Whether `code` is PTX, which a driver has to assemble."""
        return bool(self.metadata["target"].startswith("sm_"))

    @property
    def _is_for_host(self) -> bool:
        return bool(self.metadata["target"] == "host")

    def __repr__(self) -> str:
        name, target = self.metadata["name"], self.metadata["target"]
        return f"<Code of {name} for {target}: {len(self.code)} bytes>"
