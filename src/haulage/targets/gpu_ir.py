"""Pieces of LLVM IR that the hooks of targets for GPUs are written with."""

from typing import Any

# Names of PTX have no dots.
SHARED_PREFIX = "haulage_shared_"
DYNAMIC_SHARED = "haulage_dynamic_shared"
SHARED_SPACE = 3
# Waits for all blocks of the grid; see `compiler/gpu/grid.py`.
GRID_BARRIER = "haulage_grid_barrier"


def declare(module: Any, name: str, function_type: Any) -> Any:
    """The function `name` of an `llvmlite.ir` module, declared if it is not there yet."""
    from llvmlite import ir

    existing = module.globals.get(name)
    return existing if existing is not None else ir.Function(module, function_type, name)


def call(
    builder: Any, name: str, kind: Any, arguments: list[Any], *, convergent: bool = False
) -> Any:
    """The value, of an LLVM type, of a call of an intrinsic or of a function of ours."""
    from llvmlite import ir

    function_type = ir.FunctionType(kind, [argument.type for argument in arguments])
    function = declare(builder.module, name, function_type)
    if convergent:
        for attribute in ("convergent", "nounwind"):
            function.attributes.add(attribute)
    return builder.call(function, arguments)


def shared_room(builder: Any, name: str, nbytes: int, align: int) -> Any:
    """A generic pointer to `nbytes` of the block's own."""
    from llvmlite import ir

    room = ir.GlobalVariable(
        builder.module, ir.ArrayType(ir.IntType(8), nbytes), name, addrspace=SHARED_SPACE
    )
    room.linkage = "linkonce_odr"
    room.initializer = ir.Constant(room.value_type, ir.Undefined)
    room.align = align
    return _generic(builder, room)


def dynamic_room(builder: Any, name: str, align: int) -> Any:
    """A generic pointer to the launch's dynamic shared memory."""
    from llvmlite import ir

    room = builder.module.globals.get(name)
    if room is None:
        kind = ir.ArrayType(ir.IntType(8), 0)
        room = ir.GlobalVariable(builder.module, kind, name, addrspace=SHARED_SPACE)
        room.linkage = "external"
        room.align = align
    return _generic(builder, room)


def _generic(builder: Any, room: Any) -> Any:
    from llvmlite import ir

    inside = builder.bitcast(room, ir.PointerType(ir.IntType(8), SHARED_SPACE))
    return builder.addrspacecast(inside, ir.PointerType(ir.IntType(8)))
