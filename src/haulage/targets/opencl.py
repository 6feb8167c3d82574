"""Code for OpenCL devices: SPIR-V, as LLVM's code generator for it makes it.

The front end's pointers, and all that LLVM optimises, are plain ones; `compiler/gpu/opencl/` says
in the end which memory each is of. What a kernel tells the host goes through the channel of its
device, whose address is a parameter, see `compiler/gpu/opencl/words.py`.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from haulage.errors import CompileError
from haulage.targets import gpu_lanes, messages, opencl_atomics, opencl_math
from haulage.targets.base import Target
from haulage.targets.gpu_ir import GRID_BARRIER, SHARED_PREFIX, SHARED_SPACE, call, shared_room
from haulage.targets.opencl_ir import ALL_MEMORY, INDEX, hidden, pure, together
from haulage.targets.opencl_lanes import Lanes

TRIPLE = "spirv64-unknown-unknown"
ARCHITECTURE = "spirv64"
# The scopes of fences, by LLVM's names for them.
_FENCES = {"block": "workgroup", "device": "device", "system": ""}

# Of a variable; Intel's compiler refuses more.
_MOST_ALIGN = 128
# What LLVM's code generator may make use of: notes of sums that do not wrap round, which SPIR-V 1.4
# has and LLVM takes for an extension, and the device's clock.
_EXTENSIONS = ("+SPV_KHR_no_integer_wrap_decoration", "+SPV_KHR_shader_clock")

_shared_numbers = itertools.count(1)


@dataclass(frozen=True)
class OpenCLTarget(Target):
    """Any device that takes SPIR-V with addresses of 64 bits."""

    @property
    def has_fused(self) -> bool:
        return True

    @property
    def most_local(self) -> int:
        # As on others; no device says how much it has, and Intel's processors have this.
        return 512 << 10

    @property
    def math_names(self) -> Mapping[str, str]:
        return opencl_math.NAMES

    @property
    def is_made_apart(self) -> bool:
        # The code generator takes blocks of one module for those of an earlier one, and ends the
        # process at what it knows no SPIR-V for.
        return True

    @property
    def llvm_options(self) -> tuple[str, ...]:
        return (f"--spirv-ext={','.join(_EXTENSIONS)}",)

    @property
    def hidden_arguments(self) -> tuple[tuple[str, Any], ...]:
        return ()

    def register(self, builder: Any, name: str) -> Any:
        from llvmlite import ir

        return pure(builder, f"{INDEX}{name}", ir.IntType(32), [])

    def barrier(self, builder: Any, place: int) -> None:
        from llvmlite import ir

        together(builder, "_Z7barrierj", ir.VoidType(), [ir.IntType(32)(ALL_MEMORY)])

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
        if self.warp_size != 64:
            raise CompileError(
                f"wavebarrier: it waits for wavefronts of 64 work-items, and {self.architecture} "
                f"has warps of {self.warp_size} threads in kernels of cuda; write it with "
                "syncwarp, with a barrier of the group, or as a kernel of roc"
            )
        self._lanes(builder).wait()

    def grid_barrier(self, builder: Any, place: int) -> None:
        from llvmlite import ir

        call(builder, GRID_BARRIER, ir.VoidType(), [], convergent=True)

    def _lanes(self, builder: Any) -> Lanes:
        return Lanes(builder, self.warp_size)

    def lane(self, builder: Any) -> Any:
        return self._lanes(builder).own()

    def lanes_here(self, builder: Any, place: int) -> Any:
        return self._lanes(builder).here()

    def warp_barrier(self, builder: Any, mask: Any, place: int) -> None:
        self._lanes(builder).wait()

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
        if align > _MOST_ALIGN:
            raise CompileError(
                f"shared.array with alignment={align}: compilers for OpenCL devices take at most "
                f"{_MOST_ALIGN}"
            )
        return shared_room(builder, f"{SHARED_PREFIX}{next(_shared_numbers)}", nbytes, align)

    def dynamic_shared(self, builder: Any) -> tuple[Any, Any]:
        from llvmlite import ir

        room = hidden(builder, "dynamic_shared")
        generic = builder.addrspacecast(room, ir.PointerType(ir.IntType(8)))
        return generic, hidden(builder, "dynamic_shared_bytes")

    def local_array(self, builder: Any, nbytes: int, align: int) -> Any:
        from llvmlite import ir

        with builder.goto_entry_block():
            more = max(align - _MOST_ALIGN, 0)
            room = builder.alloca(ir.ArrayType(ir.IntType(8), nbytes + more))
            room.align = min(align, _MOST_ALIGN)
            return _aligned(builder, room, align) if more else room

    def atomic(self, builder: Any, operation: str, pointer: Any, operand: Any) -> Any:
        return opencl_atomics.change(builder, operation, pointer, operand)

    def compare_and_swap(self, builder: Any, pointer: Any, old: Any, new: Any) -> tuple[Any, Any]:
        return opencl_atomics.compare_and_swap(builder, pointer, old, new)

    def message(self, builder: Any, number: Any, cells: list[Any]) -> None:
        messages.tell(self, builder, number, cells)

    def fence(self, builder: Any, scope: str) -> None:
        builder.fence("seq_cst", _FENCES[scope] or None)

    def high_product(self, builder: Any, x: Any, y: Any, *, signed: bool) -> Any:
        # SPIR-V has no ints of 128 bits.
        return pure(builder, "_Z6mul_hill" if signed else "_Z6mul_himm", x.type, [x, y])

    def counter(self, builder: Any, which: str) -> Any:
        from llvmlite import ir

        if which != "ticks":
            raise CompileError(
                "globaltimer: OpenCL does not say how long a tick of a device's clock takes; use "
                "clock64, or measure the launch with events of its stream"
            )
        return together(builder, "_Z17clock_read_devicev", ir.IntType(64), [])

    def pause(self, builder: Any, nanoseconds: Any) -> None:
        """Nothing: there is no word for it, and others work meanwhile."""


def _aligned(builder: Any, room: Any, align: int) -> Any:
    """The first multiple of `align` in a room."""
    from llvmlite import ir

    i8, i64 = ir.IntType(8), ir.IntType(64)
    start = builder.bitcast(room, ir.PointerType(i8))
    behind = builder.neg(builder.ptrtoint(start, i64))
    return builder.gep(start, [builder.and_(behind, i64(align - 1))], source_etype=i8)


def check_architecture(architecture: str) -> None:
    """Raise a ValueError unless code can be made for `architecture`."""
    if architecture != ARCHITECTURE:
        raise ValueError(f"target {architecture!r}: expected {ARCHITECTURE!r}")


@cache
def target(architecture: str = ARCHITECTURE, warp_size: int = 32) -> OpenCLTarget:
    """The target, for kernels with `warp_size` lanes a warp.

    Raises:
        ValueError: there is no such architecture.
    """
    import llvmlite.binding as llvm

    check_architecture(architecture)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine()
    return OpenCLTarget(
        kind="opencl",
        architecture=architecture,
        triple=TRIPLE,
        cpu="",
        features="",
        data_layout=str(machine.target_data),
        warp_size=warp_size,
    )
