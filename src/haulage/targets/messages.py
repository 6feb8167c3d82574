"""How code tells the host something: by calling a function.

It is one of the CPU's driver or, on GPUs, of the kernel's own module: `compiler/gpu/channel.py`.
"""

from typing import Any

from haulage.channel import MESSAGE
from haulage.targets.base import Target


def tell(target: Target, builder: Any, number: Any, cells: list[Any]) -> None:
    """Call it with a 32-bit number and 64-bit values."""
    from llvmlite import ir

    i32, i64, pointer = ir.IntType(32), ir.IntType(64), ir.PointerType()
    room = target.local_array(builder, 8 * len(cells), 8)
    first = builder.bitcast(room, ir.PointerType(i64))
    for place, cell in enumerate(cells):
        builder.store(cell, builder.gep(first, [ir.Constant(i32, place)]))
    function = builder.module.globals.get(MESSAGE)
    if function is None:
        kind = ir.FunctionType(ir.VoidType(), [i32, pointer, i32])
        function = ir.Function(builder.module, kind, MESSAGE)
        function.attributes.add("nounwind")
    builder.call(function, [number, builder.bitcast(room, pointer), ir.Constant(i32, len(cells))])
