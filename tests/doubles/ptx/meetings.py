"""Barriers and the words of warps. Source: NVIDIA, PTX ISA, 9.7.13 and 9.7.9.6 (shfl.sync).

What they mean is in `scheduler.c`.
"""

from doubles.ptx.code import Code
from doubles.ptx.elementwise import operation
from doubles.ptx.layout import BARRIER_RESULTS, REDUX, WARP_KINDS
from doubles.ptx.syntax import Instruction, Operand, Pair, Sink


@operation("bar", "barrier")
def barrier(code: Code, item: Instruction) -> None:
    if item.has("warp"):
        _warp(code, "sync", item.operands[0], "0")
        return
    aligned = int(item.parts[0] == "bar" or item.has("aligned"))
    operands = list(item.operands)
    target: Operand | None = None
    predicate = "0"
    if item.has("red"):
        target = operands.pop(0)
        predicate = code.new(f"zext i1 {code.get(operands.pop(), 1)} to i32")
    number, *count = (code.get(operand, 32) for operand in operands)
    given = [f"i32 {number}", f"i32 {count[0] if count else 0}", f"i32 {aligned}"]
    given += [f"i32 {code.line}"]
    if item.has("arrive"):
        code.call("ptx_barrier_arrive", "void", "ptr %thread", *given)
        return
    which = next((each for part, each in BARRIER_RESULTS.items() if item.has(part)), 0)
    given += [f"i32 {predicate}", f"i32 {which}"]
    result = code.call("ptx_barrier", "i32", "ptr %thread", *given)
    if target is None:
        return
    if item.has("popc"):
        code.put(target, 32, result)
    else:
        code.put(target, 1, code.new(f"trunc i32 {result} to i1"))


def _warp(
    code: Code, word: str, mask: Operand, value: str, b: str = "0", c: str = "0"
) -> tuple[str, str]:
    """(32-bit result, predicate) of a word of the lanes in a mask."""
    room = code.room(32)
    result = code.call(
        "ptx_warp",
        "i32",
        "ptr %thread",
        f"i32 {WARP_KINDS[word]}",
        f"i64 {value}",
        f"i32 {b}",
        f"i32 {c}",
        f"i32 {code.get(mask, 32)}",
        f"i32 {code.line}",
        f"ptr {room}",
    )
    holds = code.new(f"load i32, ptr {room}")
    return result, code.new(f"trunc i32 {holds} to i1")


def _both(code: Code, target: Operand, result: str, holds: str) -> None:
    if isinstance(target, Pair):
        code.put(target.first, 32, result)
        code.put(target.second, 1, holds)
    else:
        code.put(target, 32, result)


def _wide(code: Code, value: str, bits: int) -> str:
    return value if bits == 64 else code.new(f"zext i{bits} {value} to i64")


def _need_sync(code: Code, item: Instruction) -> None:
    if not item.has("sync"):
        raise code.error("without `sync` there is none since sm_70")


@operation("shfl")
def shuffle(code: Code, item: Instruction) -> None:
    _need_sync(code, item)
    target, a, b, c, mask = item.operands
    word = next(part for part in item.parts if part in ("up", "down", "bfly", "idx"))
    value = _wide(code, code.get(a, 32), 32)
    given = (code.get(b, 32), code.get(c, 32))
    _both(code, target, *_warp(code, f"shfl.{word}", mask, value, *given))


@operation("vote")
def vote(code: Code, item: Instruction) -> None:
    _need_sync(code, item)
    target, a, mask = item.operands
    word = next(part for part in item.parts if part in ("all", "any", "uni", "ballot"))
    result, _ = _warp(code, f"vote.{word}", mask, _wide(code, code.get(a, 1), 1))
    if word == "ballot":
        code.put(target, 32, result)
    else:
        code.put(target, 1, code.new(f"trunc i32 {result} to i1"))


@operation("match")
def match(code: Code, item: Instruction) -> None:
    _need_sync(code, item)
    target, a, mask = item.operands
    bits = item.types[-1].bits
    word = "match.all" if item.has("all") else "match.any"
    _both(code, target, *_warp(code, word, mask, _wide(code, code.get(a, bits), bits)))


@operation("redux")
def reduce(code: Code, item: Instruction) -> None:
    kind = item.types[-1]
    target, a, mask = item.operands
    word = next(
        part for part in item.parts[1:] if part in ("add", "min", "max", "and", "or", "xor")
    )
    if word in ("min", "max"):
        word += ".s" if kind.kind == "s" else ".u"
    if kind.is_float:
        raise code.error("this form is not known here")
    value = _wide(code, code.get(a, 32), 32)
    result, _ = _warp(code, "redux", mask, value, str(REDUX[word]))
    code.put(target, 32, result)


@operation("elect")
def elect(code: Code, item: Instruction) -> None:
    target, mask = item.operands
    assert isinstance(target, Pair)
    result, holds = _warp(code, "elect", mask, "0")
    if not isinstance(target.first, Sink):
        code.put(target.first, 32, result)
    code.put(target.second, 1, holds)


@operation("activemask")
def active_mask(code: Code, item: Instruction) -> None:
    result = code.call("ptx_activemask", "i32", "ptr %thread", f"i32 {code.line}")
    code.put(item.operands[0], 32, result)


@operation("nanosleep")
def sleep(code: Code, item: Instruction) -> None:
    code.call("ptx_pause", "void", "ptr %thread")
