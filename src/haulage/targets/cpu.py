"""Code for the processor that this program runs on.

A kernel's body is a function of one thread. The registers of the hardware that the CPU does not
have come in as hidden arguments: as plain scalars, because loads from a structure would count as
changed by every store of the kernel. Shared arrays are thread-local globals until the block
function is made (`compiler/simt`): their addresses then are instructions rather than constants,
which keeps constant expressions out of the kernel, and LLVM still sees that no two of them overlap.
"""

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from haulage import config
from haulage.errors import Unsupported
from haulage.targets import cpu_clock, cpu_lanes, cpu_levels, messages
from haulage.targets.base import INDEX_REGISTERS, Target
from haulage.targets.cpu_ir import SHARED_PREFIX, declare, shared_room

DYNAMIC_SHARED = "dynamicShared"
DYNAMIC_SHARED_BYTES = "dynamicSharedBytes"
HIDDEN_NAMES = (*INDEX_REGISTERS, DYNAMIC_SHARED, DYNAMIC_SHARED_BYTES)

BARRIER = "haulage.barrier"
WAVE_BARRIER = "haulage.wavebarrier"
GRID_BARRIER = "haulage.gridbarrier"
# The scope of a fence for threads of the block only.
BLOCK_FENCE = "block"
# Where a thread that waits for another lets others of its block go on (`coroutines/spin_loops.py`).
YIELD = "haulage.yield"
# The C library's function that lets other threads of the system go first.
PAUSE = "sched_yield"
# Threads of a wavefront: AMD's number, as the word that waits for one is numba.roc's.
WAVE_SIZE = 64

# Numba's names for mathematics -> what the CPU has for it: LLVM's own operations, which can be
# widened, or the C library's functions.
_MATH_NAMES: dict[str, str] = {
    **{
        f"{name}{suffix}": f"llvm.{name}.{kind}"
        for name in ("sqrt", "floor", "ceil", "trunc", "fabs", "fma", "rint", "round", "copysign")
        for suffix, kind in (("f", "f32"), ("", "f64"))
    },
    **{
        f"numba_{name}{suffix}": f"{c_name}{suffix}"
        for name, c_name in (
            ("gamma", "tgamma"),
            ("ldexp", "ldexp"),
            ("frexp", "frexp"),
            ("nextafter", "nextafter"),
        )
        for suffix in ("", "f")
    },
}

_shared_numbers = itertools.count(1)

# Hidden arguments come after the pointer to the return value.
_FIRST_HIDDEN = 1


@dataclass(frozen=True)
class CPUTarget(Target):
    """The host's processor. `passes` is what `HAULAGE_CPU_PASSES` said, which nothing before the
    passes of the CPU compiler depends on."""

    passes: str = field(default="", compare=False)

    checks_accesses = True
    has_line_tables = False
    has_breakpoints = True

    @property
    def called(self) -> str:
        return "the CPU device"

    @property
    def has_fused(self) -> bool:
        arm = self.triple.startswith(("aarch64", "arm64"))
        return arm or "+fma" in self.features.split(",")

    @property
    def most_local(self) -> int:
        # CUDA's, so that what runs here fits a GPU of NVIDIA's.
        return 512 << 10

    @property
    def math_names(self) -> Mapping[str, str]:
        return _MATH_NAMES

    @property
    def hidden_arguments(self) -> tuple[tuple[str, Any], ...]:
        from llvmlite import ir

        registers = tuple((name, ir.IntType(32)) for name in INDEX_REGISTERS)
        return (
            *registers,
            (DYNAMIC_SHARED, ir.PointerType(ir.IntType(8))),
            (DYNAMIC_SHARED_BYTES, ir.IntType(64)),
        )

    def _hidden(self, builder: Any, name: str) -> Any:
        return builder.function.args[_FIRST_HIDDEN + HIDDEN_NAMES.index(name)]

    def register(self, builder: Any, name: str) -> Any:
        return self._hidden(builder, name)

    def barrier(self, builder: Any, place: int) -> None:
        _wait(builder, BARRIER, place)

    def barrier_reduce(self, builder: Any, operation: str, flag: Any, place: int) -> Any:
        from llvmlite import ir

        i32 = ir.IntType(32)
        room = self.shared_array(builder, 4, 16)
        # The room may still be read for the last time that the threads were here.
        self.barrier(builder, place)
        with _of_no_line(builder):
            builder.store(ir.Constant(i32, int(operation == "and")), room)
        self.barrier(builder, place)
        # One thread of the system runs all of the block, so this needs no lock. The fence keeps
        # LLVM from widening it, as the loop over the threads would allow.
        combine = {"add": builder.add, "and": builder.and_, "or": builder.or_}[operation]
        with _of_no_line(builder):
            builder.store(combine(builder.load(room, typ=i32), builder.zext(flag, i32)), room)
        builder.fence("seq_cst", "singlethread")
        self.barrier(builder, place)
        with _of_no_line(builder):
            return builder.load(room, typ=i32)

    def wave_barrier(self, builder: Any, place: int) -> None:
        _wait(builder, WAVE_BARRIER, place)

    def grid_barrier(self, builder: Any, place: int) -> None:
        _wait(builder, GRID_BARRIER, place)

    def lane(self, builder: Any) -> Any:
        return cpu_lanes.place_in_warp(self, builder)[1]

    def warp_barrier(self, builder: Any, mask: Any, place: int) -> None:
        cpu_lanes.wait(self, builder, mask, place)

    def lanes_here(self, builder: Any, place: int) -> Any:
        return cpu_lanes.here(self, builder, place)

    def shuffle(
        self, builder: Any, mask: Any, value: Any, kind: str, number: Any, place: int
    ) -> Any:
        number = builder.and_(number, number.type(self.warp_size - 1))
        return cpu_lanes.shuffle(self, builder, mask, value, kind, number, place)

    def vote(self, builder: Any, mask: Any, kind: str, truth: Any, place: int) -> Any:
        return cpu_lanes.vote(self, builder, mask, kind, truth, place)

    def match_any(self, builder: Any, mask: Any, value: Any, place: int) -> Any:
        return cpu_lanes.match(self, builder, mask, value, value, place)[0]

    def match_all(self, builder: Any, mask: Any, value: Any, place: int) -> tuple[Any, Any]:
        equal, here = cpu_lanes.match(self, builder, mask, value, value, place)
        same = builder.icmp_unsigned("==", equal, here)
        return builder.select(same, here, here.type(0)), same

    def givers(self, builder: Any, lane: Any, place: int) -> tuple[Any, Any]:
        return cpu_lanes.match(self, builder, None, lane, self.lane(builder), place)

    def shared_array(self, builder: Any, nbytes: int, align: int) -> Any:
        # The linker would make one array of two that have the same name in two functions.
        name = f"{SHARED_PREFIX}{next(_shared_numbers)}"
        return shared_room(builder, name, nbytes, align)

    def dynamic_shared(self, builder: Any) -> tuple[Any, Any]:
        return self._hidden(builder, DYNAMIC_SHARED), self._hidden(builder, DYNAMIC_SHARED_BYTES)

    def local_array(self, builder: Any, nbytes: int, align: int) -> Any:
        from llvmlite import ir

        with builder.goto_entry_block():
            room = builder.alloca(ir.ArrayType(ir.IntType(8), nbytes))
        room.align = align
        return room

    def message(self, builder: Any, number: Any, cells: list[Any]) -> None:
        messages.tell(self, builder, number, cells)

    def fence(self, builder: Any, scope: str) -> None:
        # LLVM makes one instruction of both.
        builder.fence("seq_cst", BLOCK_FENCE if scope == "block" else None)

    def counter(self, builder: Any, which: str) -> Any:
        return cpu_clock.counter(builder, which)

    def pause(self, builder: Any, nanoseconds: Any) -> None:
        # Sleeping would hold up the threads of the block that share this core, one by one.
        from llvmlite import ir

        builder.call(declare(builder.module, PAUSE, ir.FunctionType(ir.IntType(32), [])), [])


@contextmanager
def _of_no_line(builder: Any) -> Iterator[None]:
    """What is generated inside is of no line of the source, and so is no access of the kernel."""
    line, builder.debug_metadata = builder.debug_metadata, None
    try:
        yield
    finally:
        builder.debug_metadata = line


def _wait(builder: Any, name: str, place: int) -> None:
    from llvmlite import ir

    i32 = ir.IntType(32)
    function = declare(builder.module, name, ir.FunctionType(ir.VoidType(), [i32]))
    for attribute in ("convergent", "nounwind"):
        function.attributes.add(attribute)
    builder.call(function, [ir.Constant(i32, place)])


def target(architecture: str, warp_size: int) -> CPUTarget:
    """The target of the one architecture that there is, `host`; see there."""
    return host(warp_size)


def host(warp_size: int = 32) -> CPUTarget:
    """The target of this process's own processor, for kernels with `warp_size` lanes a warp; with
    `HAULAGE_CPU`, of a level of x86-64.

    Raises:
        ValueError: `HAULAGE_CPU` is no such level.
        Unsupported: the processor is not of that level.
    """
    return _host(warp_size, config.processor_level(), config.passes_switched_off())


@cache
def _host(warp_size: int, level: str | None, passes: str) -> CPUTarget:
    import llvmlite.binding as llvm

    triple = llvm.get_default_triple()
    cpu, features = llvm.get_host_cpu_name(), _features()
    if level is not None:
        _check_level(level, triple)
        cpu, features = level, cpu_levels.features(level)
    machine = target_machine("generic", "")
    return CPUTarget(
        kind="cpu",
        architecture="host",
        triple=triple,
        cpu=cpu,
        features=features,
        data_layout=str(machine.target_data),
        warp_size=warp_size,
        passes=passes,
    )


def _check_level(level: str, triple: str) -> None:
    import llvmlite.binding as llvm

    if level not in cpu_levels.LEVELS:
        raise ValueError(
            f"HAULAGE_CPU={level!r}: expected one of {', '.join(cpu_levels.LEVELS)}; unset it to "
            "use all that the processor has"
        )
    lacking = cpu_levels.missing(level, llvm.get_host_cpu_features())
    if not triple.startswith("x86_64"):
        lacking = ["x86-64"]
    if lacking:
        raise Unsupported(
            f"HAULAGE_CPU={level}: this processor has no {', '.join(lacking)}; choose a lower "
            "level, or unset it to use all that the processor has"
        )


def _features() -> str:
    import llvmlite.binding as llvm

    flags = llvm.get_host_cpu_features()
    # LLVM keeps to 256-bit vectors on AVX-512 processors unless told otherwise.
    wide = ",-prefer-256-bit" if flags.get("avx512f") else ""
    return flags.flatten() + wide


def target_machine(cpu: str, features: str) -> Any:
    """An LLVM target machine for the host's triple."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="pic", codemodel="jitdefault"
    )
