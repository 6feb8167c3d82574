"""Pieces of LLVM IR that the OpenCL target's hooks are written with.

OpenCL's functions are called by the names that its C compilers give them (Itanium's mangling),
which LLVM's code generator for SPIR-V makes instructions of. What a launch tells a kernel besides
its arguments comes by calls of functions that the compiler puts parameters in the place of
(`compiler/gpu/opencl/words.py`).
"""

from typing import Any

from haulage.targets.gpu_ir import call, declare

# What the names of such functions begin with: index registers, and parameters of the kernel.
INDEX = "haulage_index."
HIDDEN = "haulage_hidden."
# Parameters behind the user's, in their order -> LLVM's type. Of the block's sizes there are those
# that a kernel reads whose block is launched as a row of threads.
HIDDEN_KINDS = {
    "channel": "i64",
    "module": "i32",
    "grid_counter": "i64",
    "block_x": "i32",
    "block_y": "i32",
    "dynamic_shared_bytes": "i64",
    "dynamic_shared": "ptr addrspace(3)",
}
# Both kinds of memory that threads of a block share, in OpenCL's flags for barriers.
ALL_MEMORY = 3
SUB_GROUP = "sub_group"
# SPIR-V's own name for a barrier, its scope of sub-groups, and that all writes before it are seen
# behind it, to both kinds of memory.
CONTROL_BARRIER = "_Z22__spirv_ControlBarrieriii"
IN_SUB_GROUP = 3
ACQUIRE_RELEASE_ALL = 0x308

# Letters of the mangling by LLVM's types, for numbers.
_LETTERS = {"i32": "i", "i64": "l", "half": "Dh", "float": "f", "double": "d"}


def mangled(name: str, *kinds: str) -> str:
    """The name of an OpenCL function of parameters with LLVM's types `kinds`; ints are signed."""
    return f"_Z{len(name)}{name}{''.join(_LETTERS[kind] for kind in kinds) or 'v'}"


def hidden(builder: Any, name: str) -> Any:
    """A parameter of the kernel, one of `HIDDEN_KINDS`."""
    from llvmlite import ir

    kinds = {
        "i32": ir.IntType(32),
        "i64": ir.IntType(64),
        "ptr addrspace(3)": ir.PointerType(ir.IntType(8), 3),
    }
    return pure(builder, f"{HIDDEN}{name}", kinds[HIDDEN_KINDS[name]], [])


def pure(builder: Any, name: str, kind: Any, arguments: list[Any]) -> Any:
    """A call of a function that gives the same value each time."""
    from llvmlite import ir

    function = declare(
        builder.module, name, ir.FunctionType(kind, [argument.type for argument in arguments])
    )
    for attribute in ("nounwind", "readnone"):
        function.attributes.add(attribute)
    return builder.call(function, arguments)


def together(builder: Any, name: str, kind: Any, arguments: list[Any]) -> Any:
    """A call of a function that several threads come to together."""
    return call(builder, name, kind, arguments, convergent=True)
