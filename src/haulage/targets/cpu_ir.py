"""Pieces of LLVM IR that the CPU target's hooks are written with."""

from typing import Any

SHARED_PREFIX = "haulage.shared."
SHARED_ADDRESS = "llvm.threadlocal.address.p0"
# A call of such a function, whose name ends in a number of axes, says that an array of the kernel's
# own begins at an address: the number of its name, the bytes of an element, and the sizes. It is
# there for checks.
ARRAY_NOTE = "haulage.array."


def declare(module: Any, name: str, function_type: Any) -> Any:
    """The function `name` of an `llvmlite.ir` module, declared if it is not there yet."""
    from llvmlite import ir

    existing = module.globals.get(name)
    return existing if existing is not None else ir.Function(module, function_type, name)


def shared_room(builder: Any, name: str, nbytes: int, align: int) -> Any:
    """A pointer to the block's room `name`; one room per name in all that becomes a kernel."""
    from llvmlite import ir

    module = builder.module
    room = module.globals.get(name)
    if room is None:
        room = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(8), nbytes), name)
        room.storage_class = "thread_local"
        room.linkage = "external"
        room.align = align
    pointer = ir.PointerType()
    address = declare(module, SHARED_ADDRESS, ir.FunctionType(pointer, [pointer]))
    return builder.call(address, [builder.bitcast(room, pointer)])
