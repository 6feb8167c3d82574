"""Code for the processor that this program runs on.

A kernel's body is a function of one thread. The registers of the hardware that the CPU does not
have come in as hidden arguments: as plain scalars, because loads from a structure would count as
changed by every store of the kernel. Shared arrays are thread-local globals until the block
function is made (`compiler/simt`): their addresses then are instructions rather than constants,
which keeps constant expressions out of the kernel, and LLVM still sees that no two of them overlap.
"""

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

from haulage.targets import cpu_messages
from haulage.targets.base import INDEX_REGISTERS, Target

DYNAMIC_SHARED = "dynamicShared"
DYNAMIC_SHARED_BYTES = "dynamicSharedBytes"
HIDDEN_NAMES = (*INDEX_REGISTERS, DYNAMIC_SHARED, DYNAMIC_SHARED_BYTES)

BARRIER = "haulage.barrier"
WAVE_BARRIER = "haulage.wavebarrier"
# Threads of a wavefront: AMD's number, as the word that waits for one is numba.roc's.
WAVE_SIZE = 64
SHARED_PREFIX = "haulage.shared."
SHARED_ADDRESS = "llvm.threadlocal.address.p0"

# Numba's names for mathematics -> what the CPU has for it: LLVM's own operations, which can be
# widened, or the C library's functions.
MATH_NAMES: dict[str, str] = {
    **{
        f"{name}{suffix}": f"llvm.{name}.{kind}"
        for name in ("sqrt", "floor", "ceil", "trunc", "fabs", "fma", "rint", "round", "copysign")
        for suffix, kind in (("f", "f32"), ("", "f64"))
    },
    **{
        f"numba_{name}{suffix}": f"{c_name}{suffix}"
        for name, c_name in (("gamma", "tgamma"), ("ldexp", "ldexp"), ("frexp", "frexp"))
        for suffix in ("", "f")
    },
}

_shared_numbers = itertools.count(1)

# Hidden arguments come after the pointer to the return value.
_FIRST_HIDDEN = 1


@dataclass(frozen=True)
class CPUTarget(Target):
    """The host's processor."""

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

    def wave_barrier(self, builder: Any, place: int) -> None:
        _wait(builder, WAVE_BARRIER, place)

    def shared_array(self, builder: Any, nbytes: int, align: int) -> Any:
        from llvmlite import ir

        module = builder.module
        # The linker would make one array of two that have the same name in two functions.
        name = f"{SHARED_PREFIX}{next(_shared_numbers)}"
        room = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(8), nbytes), name)
        room.storage_class = "thread_local"
        room.linkage = "external"
        room.align = align
        pointer = ir.PointerType()
        address = _declare(module, SHARED_ADDRESS, ir.FunctionType(pointer, [pointer]))
        return builder.call(address, [builder.bitcast(room, pointer)])

    def dynamic_shared(self, builder: Any) -> tuple[Any, Any]:
        return self._hidden(builder, DYNAMIC_SHARED), self._hidden(builder, DYNAMIC_SHARED_BYTES)

    def local_array(self, builder: Any, nbytes: int, align: int) -> Any:
        from llvmlite import ir

        with builder.goto_entry_block():
            room = builder.alloca(ir.ArrayType(ir.IntType(8), nbytes))
        room.align = align
        return room

    def message(self, builder: Any, number: Any, cells: list[Any]) -> None:
        cpu_messages.tell(self, builder, number, cells)

    def fence(self, builder: Any, scope: str) -> None:
        builder.fence("seq_cst")

    def pause(self, builder: Any, nanoseconds: Any) -> None:
        # Sleeping would hold up the threads of the block that share this core, one by one.
        from llvmlite import ir

        builder.call(
            _declare(builder.module, "sched_yield", ir.FunctionType(ir.IntType(32), [])), []
        )


def _wait(builder: Any, name: str, place: int) -> None:
    from llvmlite import ir

    i32 = ir.IntType(32)
    function = _declare(builder.module, name, ir.FunctionType(ir.VoidType(), [i32]))
    for attribute in ("convergent", "nounwind"):
        function.attributes.add(attribute)
    builder.call(function, [ir.Constant(i32, place)])


def _declare(module: Any, name: str, function_type: Any) -> Any:
    from llvmlite import ir

    existing = module.globals.get(name)
    return existing if existing is not None else ir.Function(module, function_type, name)


@cache
def host() -> CPUTarget:
    """The target of this process's own processor."""
    import llvmlite.binding as llvm

    machine = target_machine("generic", "")
    return CPUTarget(
        kind="cpu",
        architecture="host",
        triple=llvm.get_default_triple(),
        cpu=llvm.get_host_cpu_name(),
        features=_features(),
        data_layout=str(machine.target_data),
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
