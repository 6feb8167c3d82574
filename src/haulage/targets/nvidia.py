"""Code for NVIDIA's GPUs, as LLVM's NVPTX code generator takes it.

The registers that tell a thread its place are special registers of the hardware, so functions have
no hidden arguments. Arrays hold generic addresses; LLVM finds out which of them are shared, global
or local. What a kernel tells the host goes through the channel of its device, see
`compiler/gpu/channel.py`.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from haulage.errors import CompileError
from haulage.targets import (
    gpu_lanes,
    messages,
    nvidia_atomics,
    nvidia_cached,
    nvidia_lanes,
    nvidia_math,
)
from haulage.targets.base import DYNAMIC_SHARED_ALIGN, Target
from haulage.targets.gpu_ir import (
    DYNAMIC_SHARED,
    GRID_BARRIER,
    SHARED_PREFIX,
    call,
    dynamic_room,
    shared_room,
)
from haulage.targets.nvidia_architectures import check_architecture, compute_capability
from haulage.targets.nvidia_ir import CONSTANT, assembly_value

TRIPLE = "nvptx64-nvidia-cuda"
# Lanes of a warp, on all of these GPUs.
WARP_SIZE = 32

REGISTERS = {"threadIdx": "tid", "blockIdx": "ctaid", "blockDim": "ntid", "gridDim": "nctaid"}
_BARRIER = "llvm.nvvm.barrier.cta"
_REDUCTIONS = {"add": "popc", "and": "and", "or": "or"}
_FENCES = {"block": "cta", "device": "gl", "system": "sys"}

_shared_numbers = itertools.count(1)


@dataclass(frozen=True)
class NVIDIATarget(Target):
    """One generation of NVIDIA's GPUs; `architecture` is as in `sm_90`."""

    links = True
    divides_without_branches = True

    @property
    def has_fused(self) -> bool:
        return True

    @property
    def most_local(self) -> int:
        return 512 << 10

    @property
    def math_names(self) -> Mapping[str, str]:
        return nvidia_math.NAMES

    @property
    def has_halves(self) -> bool:
        return True

    @property
    def has_libdevice(self) -> bool:
        return True

    @property
    def hidden_arguments(self) -> tuple[tuple[str, Any], ...]:
        return ()

    def register(self, builder: Any, name: str) -> Any:
        group, _, axis = name.partition(".")
        return self._special(builder, f"{REGISTERS[group]}.{axis}")

    def _special(self, builder: Any, name: str, bits: int = 32) -> Any:
        from llvmlite import ir

        return call(builder, f"llvm.nvvm.read.ptx.sreg.{name}", ir.IntType(bits), [])

    def barrier(self, builder: Any, place: int) -> None:
        from llvmlite import ir

        # Not the `aligned` one, for which all threads of a warp have to come to the same place.
        # Where they do, both are the same machine code.
        call(builder, f"{_BARRIER}.sync.all", ir.VoidType(), [ir.IntType(32)(0)])

    def barrier_reduce(self, builder: Any, operation: str, flag: Any, place: int) -> Any:
        from llvmlite import ir

        i32 = ir.IntType(32)
        name = f"{_BARRIER}.red.{_REDUCTIONS[operation]}.all"
        kind = i32 if operation == "add" else ir.IntType(1)
        result = call(builder, name, kind, [i32(0), flag])
        return result if kind == i32 else builder.zext(result, i32)

    def wave_barrier(self, builder: Any, place: int) -> None:
        raise CompileError(
            f"wavebarrier: it waits for wavefronts of 64 work-items, and {self.architecture} has "
            f"warps of {WARP_SIZE} threads; write it with syncwarp, or with a barrier of the group"
        )

    def grid_barrier(self, builder: Any, place: int) -> None:
        from llvmlite import ir

        call(builder, GRID_BARRIER, ir.VoidType(), [], convergent=True)

    def check_lanes(self, word: str) -> None:
        if self.warp_size != WARP_SIZE:
            raise CompileError(
                f"{word}: kernels of roc have wavefronts of {self.warp_size} work-items, and "
                f"{self.architecture} has warps of {WARP_SIZE}; write it with cuda's words for "
                "warps"
            )

    def lane(self, builder: Any) -> Any:
        return self._special(builder, "laneid")

    def lanes_below(self, builder: Any) -> Any:
        return self._special(builder, "lanemask.lt")

    def lanes_here(self, builder: Any, place: int) -> Any:
        return nvidia_lanes.here(builder)

    def warp_barrier(self, builder: Any, mask: Any, place: int) -> None:
        nvidia_lanes.wait(builder, mask)

    def shuffle(
        self, builder: Any, mask: Any, value: Any, kind: str, number: Any, place: int
    ) -> Any:
        return nvidia_lanes.shuffle(builder, mask, value, kind, number)

    def vote(self, builder: Any, mask: Any, kind: str, truth: Any, place: int) -> Any:
        return nvidia_lanes.vote(builder, mask, kind, truth)

    def match_any(self, builder: Any, mask: Any, value: Any, place: int) -> Any:
        return nvidia_lanes.match_any(builder, mask, value)

    def match_all(self, builder: Any, mask: Any, value: Any, place: int) -> tuple[Any, Any]:
        return nvidia_lanes.match_all(builder, mask, value)

    def givers(self, builder: Any, lane: Any, place: int) -> tuple[Any, Any]:
        return gpu_lanes.givers(self, builder, lane, self.lane(builder), place)

    def shared_array(self, builder: Any, nbytes: int, align: int) -> Any:
        # The linker would make one array of two that have the same name in two functions.
        return shared_room(builder, f"{SHARED_PREFIX}{next(_shared_numbers)}", nbytes, align)

    def dynamic_shared(self, builder: Any) -> tuple[Any, Any]:
        from llvmlite import ir

        size = assembly_value(builder, "mov.u32 $0, %dynamic_smem_size;", ir.IntType(32))
        room = dynamic_room(builder, DYNAMIC_SHARED, DYNAMIC_SHARED_ALIGN)
        return room, builder.zext(size, ir.IntType(64))

    def local_array(self, builder: Any, nbytes: int, align: int) -> Any:
        from llvmlite import ir

        with builder.goto_entry_block():
            room = builder.alloca(ir.ArrayType(ir.IntType(8), nbytes))
        room.align = align
        return room

    def atomic(self, builder: Any, operation: str, pointer: Any, operand: Any) -> Any:
        return nvidia_atomics.change(builder, operation, pointer, operand)

    def compare_and_swap(self, builder: Any, pointer: Any, old: Any, new: Any) -> tuple[Any, Any]:
        return nvidia_atomics.compare_and_swap(builder, pointer, old, new)

    def constant_array(self, builder: Any, pointer: Any) -> Any:
        from llvmlite import ir

        generic = builder.bitcast(pointer, ir.PointerType(ir.IntType(8)))
        return call(builder, CONSTANT, generic.type, [generic])

    def message(self, builder: Any, number: Any, cells: list[Any]) -> None:
        messages.tell(self, builder, number, cells)

    def fence(self, builder: Any, scope: str) -> None:
        from llvmlite import ir

        call(builder, f"llvm.nvvm.membar.{_FENCES[scope]}", ir.VoidType(), [])

    def cached_load(
        self, builder: Any, hint: str, pointer: Any, kind: Any, nbytes: int, align: int
    ) -> Any:
        if align < nbytes:
            return super().cached_load(builder, hint, pointer, kind, nbytes, align)
        return nvidia_cached.load(builder, hint, pointer, kind, nbytes)

    def cached_store(
        self, builder: Any, hint: str, value: Any, pointer: Any, nbytes: int, align: int
    ) -> None:
        if align < nbytes:
            super().cached_store(builder, hint, value, pointer, nbytes, align)
        else:
            nvidia_cached.store(builder, hint, value, pointer, nbytes)

    def counter(self, builder: Any, which: str) -> Any:
        from llvmlite import ir

        name = {"ticks": "clock64", "nanoseconds": "globaltimer"}[which]
        # LLVM would move accesses of memory across its own operation for it.
        text = f"mov.u64 $0, %{name};"
        code = ir.InlineAsm(
            ir.FunctionType(ir.IntType(64), []), text, "=l,~{memory}", side_effect=True
        )
        return builder.call(code, [])

    def pause(self, builder: Any, nanoseconds: Any) -> None:
        from llvmlite import ir

        call(builder, "llvm.nvvm.nanosleep", ir.VoidType(), [nanoseconds])


@cache
def target(architecture: str, warp_size: int = WARP_SIZE) -> NVIDIATarget:
    """The target of an architecture such as `sm_90`, for kernels with `warp_size` lanes a warp.

    Raises:
        ValueError: LLVM has no code generator for it.
    """
    import llvmlite.binding as llvm

    check_architecture(architecture)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=architecture)
    return NVIDIATarget(
        kind="nvidia",
        architecture=architecture,
        triple=TRIPLE,
        cpu=architecture,
        # LLVM takes the oldest form of PTX that the architecture has: the most drivers know it. No
        # driver of today knows none newer than the first one with all instructions of sm_75.
        features="+ptx70" if compute_capability(architecture) < (8, 0) else "",
        data_layout=str(machine.target_data),
        warp_size=warp_size,
    )
