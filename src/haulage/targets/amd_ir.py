"""Pieces of LLVM IR that the AMD target's hooks are written with."""

from typing import Any

from haulage.targets.gpu_ir import call

CONSTANT_SPACE = 4


def implicit(builder: Any, offset: int, bits: int, limits: tuple[int, int] | None = None) -> Any:
    """What the runtime has put among the hidden arguments of a launch (code object version 5), as
    an int of so many bits."""
    return _given(builder, "llvm.amdgcn.implicitarg.ptr", offset, bits, limits)


def of_packet(builder: Any, offset: int, bits: int) -> Any:
    """What is in the packet by which the queue was told of the launch (the HSA runtime's
    `hsa_kernel_dispatch_packet_t`), as an int of so many bits."""
    return _given(builder, "llvm.amdgcn.dispatch.ptr", offset, bits)


def _given(
    builder: Any, where: str, offset: int, bits: int, limits: tuple[int, int] | None = None
) -> Any:
    from llvmlite import ir

    i8, kind = ir.IntType(8), ir.IntType(bits)
    base = call(builder, where, ir.PointerType(i8, CONSTANT_SPACE), [])
    place = builder.gep(base, [ir.IntType(64)(offset)], source_etype=i8)
    place = builder.bitcast(place, ir.PointerType(kind, CONSTANT_SPACE))
    value = builder.load(place, align=bits // 8, typ=kind)
    note(builder, value, "invariant.load", [])
    if limits is not None:
        note(builder, value, "range", [kind(limit) for limit in limits])
    return value


def note(builder: Any, instruction: Any, name: str, values: list[Any]) -> None:
    """Add a note of LLVM's to an instruction."""
    instruction.set_metadata(name, builder.module.add_metadata(values))
