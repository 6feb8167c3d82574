"""Code for AMD's GPUs, as LLVM's AMDGPU code generator takes it.

The registers that tell a thread its place are the hardware's, or what the runtime puts among the
hidden arguments of a launch (code object version 5), so functions have no hidden arguments of ours.
Arrays hold generic ("flat") addresses; LLVM finds out which of them are shared, global or private.
What a kernel tells the host goes through the channel of its device, see `compiler/gpu/channel.py`.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from haulage.errors import CompileError
from haulage.targets import amd_atomics, amd_cached, amd_clock, amd_math, gpu_lanes, messages
from haulage.targets.amd_address_spaces import with_private_slots
from haulage.targets.amd_architectures import check_architecture, version, wave_size
from haulage.targets.amd_ir import implicit, of_packet
from haulage.targets.amd_lanes import Lanes
from haulage.targets.base import DYNAMIC_SHARED_ALIGN, REGISTER_RANGES, Target
from haulage.targets.gpu_ir import (
    DYNAMIC_SHARED,
    GRID_BARRIER,
    SHARED_PREFIX,
    SHARED_SPACE,
    call,
    dynamic_room,
    shared_room,
)

TRIPLE = "amdgcn-amd-amdhsa"
# The scopes of fences, by LLVM's names for them.
_FENCES = {"block": "workgroup", "device": "agent", "system": ""}
_REGISTERS = {"threadIdx": "workitem", "blockIdx": "workgroup"}
# Offsets among the hidden arguments ("AMDGPU User Guide", code object V5 metadata).
BLOCKS_AT = {"x": 0, "y": 4, "z": 8}
THREADS_AT = {"x": 12, "y": 14, "z": 16}
# Bytes of shared memory in a launch's packet.
_SHARED_BYTES_AT = 28
# Bytes of a thread's stack for functions that call themselves: LLVM cannot know how deep they go,
# and counts one call, which is all that the runtimes of ROCm 5 go by.
_OF_CALLS = 4096
# Bytes that registers which find no room take at most, of a thread.
_OF_REGISTERS = 4 * 512 + 64

_shared_numbers = itertools.count(1)


@dataclass(frozen=True)
class AMDTarget(Target):
    """One generation of AMD's GPUs; `architecture` is as in `gfx942`.

    `wave_size`: the lanes of a wavefront of the hardware in this code, 32 or 64.
    """

    wave_size: int

    @property
    def has_fused(self) -> bool:
        return True

    @property
    def most_local(self) -> int:
        # What the hardware's field for a wavefront's scratch holds ("AMDGPU User Guide",
        # COMPUTE_TMPRING_SIZE), less what registers may need.
        major = version(self.architecture)[0]
        units, nbytes = {11: (15, 256), 12: (18, 256)}.get(major, (13, 1024))
        return ((1 << units) - 1) * nbytes // self.wave_size - _OF_REGISTERS

    @property
    def math_names(self) -> Mapping[str, str]:
        return amd_math.NAMES

    @property
    def has_halves(self) -> bool:
        return True

    @property
    def hidden_arguments(self) -> tuple[tuple[str, Any], ...]:
        return ()

    def module_text(self, module: Any) -> str:
        return with_private_slots(str(module))

    def register(self, builder: Any, name: str) -> Any:
        from llvmlite import ir

        group, _, axis = name.partition(".")
        i32 = ir.IntType(32)
        if group in _REGISTERS:
            return call(builder, f"llvm.amdgcn.{_REGISTERS[group]}.id.{axis}", i32, [])
        limits = REGISTER_RANGES[name]
        if group == "gridDim":
            return implicit(builder, BLOCKS_AT[axis], 32, limits)
        return builder.zext(implicit(builder, THREADS_AT[axis], 16, limits), i32)

    def barrier(self, builder: Any, place: int) -> None:
        from llvmlite import ir

        builder.fence("release", "workgroup")
        call(builder, "llvm.amdgcn.s.barrier", ir.VoidType(), [])
        builder.fence("acquire", "workgroup")

    def barrier_reduce(self, builder: Any, operation: str, flag: Any, place: int) -> Any:
        from llvmlite import ir

        i32 = ir.IntType(32)
        name = f"{SHARED_PREFIX}{next(_shared_numbers)}"
        room = ir.GlobalVariable(builder.module, i32, name, addrspace=SHARED_SPACE)
        room.linkage = "linkonce_odr"
        room.initializer = ir.Constant(i32, ir.Undefined)
        # The room may still be read for the last time that the threads were here.
        self.barrier(builder, place)
        builder.store(i32(int(operation == "and")), room)
        self.barrier(builder, place)
        ordering = 'syncscope("workgroup") monotonic'
        builder.atomic_rmw(operation, room, builder.zext(flag, i32), ordering)
        self.barrier(builder, place)
        return builder.load(room, typ=i32)

    def wave_barrier(self, builder: Any, place: int) -> None:
        if self.wave_size != 64:
            raise CompileError(
                f"wavebarrier: it waits for wavefronts of 64 work-items, and {self.architecture} "
                f"has warps of {self.wave_size} threads in kernels of cuda; write it with "
                "syncwarp, with a barrier of the group, or as a kernel of roc"
            )
        self._wait_in_wave(builder)

    def _wait_in_wave(self, builder: Any) -> None:
        from llvmlite import ir

        builder.fence("release", "wavefront")
        call(builder, "llvm.amdgcn.wave.barrier", ir.VoidType(), [])
        builder.fence("acquire", "wavefront")

    def grid_barrier(self, builder: Any, place: int) -> None:
        from llvmlite import ir

        call(builder, GRID_BARRIER, ir.VoidType(), [], convergent=True)

    def _lanes(self, builder: Any) -> Lanes:
        return Lanes(builder, self.architecture, self.warp_size, self.wave_size)

    def lane(self, builder: Any) -> Any:
        return self._lanes(builder).own()

    def lanes_here(self, builder: Any, place: int) -> Any:
        return self._lanes(builder).here()

    def warp_barrier(self, builder: Any, mask: Any, place: int) -> None:
        self._wait_in_wave(builder)

    def shuffle(
        self, builder: Any, mask: Any, value: Any, kind: str, number: Any, place: int
    ) -> Any:
        return self._lanes(builder).shuffle(value, kind, number)

    def vote(self, builder: Any, mask: Any, kind: str, truth: Any, place: int) -> Any:
        return self._lanes(builder).vote(mask, kind, truth)

    def match_any(self, builder: Any, mask: Any, value: Any, place: int) -> Any:
        return self._lanes(builder).match_any(mask, value)

    def match_all(self, builder: Any, mask: Any, value: Any, place: int) -> tuple[Any, Any]:
        return self._lanes(builder).match_all(mask, value)

    def givers(self, builder: Any, lane: Any, place: int) -> tuple[Any, Any]:
        return gpu_lanes.givers(self, builder, lane, self.lane(builder), place)

    def shared_array(self, builder: Any, nbytes: int, align: int) -> Any:
        # The linker would make one array of two that have the same name in two functions.
        return shared_room(builder, f"{SHARED_PREFIX}{next(_shared_numbers)}", nbytes, align)

    def dynamic_shared(self, builder: Any) -> tuple[Any, Any]:
        from llvmlite import ir

        # The difference is among the hidden arguments too, but the runtimes of ROCm 5 do not know
        # that one. Both numbers have the same room for the alignment of what is dynamic.
        own = call(builder, "llvm.amdgcn.groupstaticsize", ir.IntType(32), [])
        size = builder.sub(of_packet(builder, _SHARED_BYTES_AT, 32), own)
        room = dynamic_room(builder, DYNAMIC_SHARED, DYNAMIC_SHARED_ALIGN)
        return room, builder.zext(size, ir.IntType(64))

    def local_array(self, builder: Any, nbytes: int, align: int) -> Any:
        from llvmlite import ir

        with builder.goto_entry_block():
            room = builder.alloca(ir.ArrayType(ir.IntType(8), nbytes))
        room.align = align
        return room

    def atomic(self, builder: Any, operation: str, pointer: Any, operand: Any) -> Any:
        return amd_atomics.change(builder, operation, pointer, operand, self.architecture)

    def compare_and_swap(self, builder: Any, pointer: Any, old: Any, new: Any) -> tuple[Any, Any]:
        return amd_atomics.compare_and_swap(builder, pointer, old, new)

    def message(self, builder: Any, number: Any, cells: list[Any]) -> None:
        messages.tell(self, builder, number, cells)

    def fence(self, builder: Any, scope: str) -> None:
        builder.fence("seq_cst", _FENCES[scope] or None)

    def cached_load(
        self, builder: Any, hint: str, pointer: Any, kind: Any, nbytes: int, align: int
    ) -> Any:
        return amd_cached.load(builder, hint, pointer, kind, nbytes, align)

    def cached_store(
        self, builder: Any, hint: str, value: Any, pointer: Any, nbytes: int, align: int
    ) -> None:
        amd_cached.store(builder, hint, value, pointer, align)

    def counter(self, builder: Any, which: str) -> Any:
        return amd_clock.counter(builder, which, self.architecture)

    def pause(self, builder: Any, nanoseconds: Any) -> None:
        amd_clock.pause(builder, nanoseconds)


@cache
def target(architecture: str, warp_size: int = 32) -> AMDTarget:
    """The target of an architecture such as `gfx942`, for kernels with `warp_size` lanes a warp.

    Raises:
        ValueError: LLVM has no code generator for it.
    """
    import llvmlite.binding as llvm

    check_architecture(architecture)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.set_option("haulage", f"-amdgpu-assume-external-call-stack-size={_OF_CALLS}")
    lanes = wave_size(architecture, warp_size)
    features = "" if version(architecture) < (10, 0, 0) else f"+wavefrontsize{lanes}"
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=architecture, features=features
    )
    return AMDTarget(
        kind="amd",
        architecture=architecture,
        triple=TRIPLE,
        cpu=architecture,
        features=features,
        data_layout=str(machine.target_data),
        warp_size=warp_size,
        wave_size=lanes,
    )
