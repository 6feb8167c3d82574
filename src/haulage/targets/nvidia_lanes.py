"""How the lanes of a warp exchange values on NVIDIA's GPUs: one instruction each.

The instructions wait for the lanes of their mask; lanes that ended count as not being in it.
Source: PTX ISA, `shfl.sync`, `vote.sync`, `match.sync`, `bar.warp.sync`, `activemask`.
"""

from typing import Any

from haulage.targets.gpu_ir import call

_LAST_LANE = 31
# Kind of a shuffle: (LLVM's name for it, which lanes have nobody to read from).
_SHUFFLES = {
    "lane": ("idx", _LAST_LANE),
    "up": ("up", 0),
    "down": ("down", _LAST_LANE),
    "xor": ("bfly", _LAST_LANE),
}
_VOTES = {"all": "all", "any": "any", "equal": "uni", "ballot": "ballot"}


def here(builder: Any) -> Any:
    """The lanes that are at this place now."""
    from llvmlite import ir

    return call(builder, "llvm.nvvm.activemask", ir.IntType(32), [])


def wait(builder: Any, mask: Any) -> None:
    """A barrier of the lanes in `mask`."""
    from llvmlite import ir

    call(builder, "llvm.nvvm.bar.warp.sync", ir.VoidType(), [mask])


def shuffle(builder: Any, mask: Any, value: Any, kind: str, number: Any) -> Any:
    """What another lane has as `value`, of 32 or 64 bits; see `Target.shuffle`."""
    from llvmlite import ir

    i32, i64 = ir.IntType(32), ir.IntType(64)
    name, clamp = _SHUFFLES[kind]

    def one(half: Any) -> Any:
        # Of the number the hardware takes the low five bits.
        arguments = [mask, half, number, i32(clamp)]
        return call(builder, f"llvm.nvvm.shfl.sync.{name}.i32", i32, arguments)

    if value.type == i32:
        return one(value)
    low = one(builder.trunc(value, i32))
    high = one(builder.trunc(builder.lshr(value, i64(32)), i32))
    return builder.or_(builder.zext(low, i64), builder.shl(builder.zext(high, i64), i64(32)))


def vote(builder: Any, mask: Any, kind: str, truth: Any) -> Any:
    """What the lanes of `mask` make of their truths; `kind` is one of the targets' `VOTES`."""
    from llvmlite import ir

    result = ir.IntType(32 if kind == "ballot" else 1)
    return call(builder, f"llvm.nvvm.vote.{_VOTES[kind]}.sync", result, [mask, truth])


def match_any(builder: Any, mask: Any, value: Any) -> Any:
    """The lanes of `mask` with this lane's `value`, of 32 or 64 bits."""
    from llvmlite import ir

    name = f"llvm.nvvm.match.any.sync.i{value.type.width}"
    return call(builder, name, ir.IntType(32), [mask, value])


def match_all(builder: Any, mask: Any, value: Any) -> tuple[Any, Any]:
    """(lanes of `mask`, true) if all of them have one `value`, of 32 or 64 bits, else zeros."""
    from llvmlite import ir

    both = ir.LiteralStructType([ir.IntType(32), ir.IntType(1)])
    found = call(builder, f"llvm.nvvm.match.all.sync.i{value.type.width}p", both, [mask, value])
    return builder.extract_value(found, 0), builder.extract_value(found, 1)
