"""What a launch tells a kernel: where a thread is, and parameters behind the user's.

The hooks of `targets/opencl.py` call functions for both. Those of the first kind are defined here,
in one of two ways. Without words of warps a block is what OpenCL calls a work-group, with all its
axes. With such words the threads of a warp follow one another in the block, x first, but OpenCL
leaves it open which work-items of a work-group with several axes make a sub-group. So the
work-group then has one axis, and a thread works its place out from the block's sizes, which come as
parameters. Calls of the second kind become parameters of the kernel (`memory.py`).
"""

import re
from collections.abc import Iterable

from haulage.channel import CHANNEL, MODULE
from haulage.compiler.simt.ir import reader
from haulage.compiler.simt.ir.types import first_type, matching
from haulage.targets.base import REGISTER_RANGES
from haulage.targets.opencl_ir import CONTROL_BARRIER, HIDDEN, INDEX, SUB_GROUP

_REGISTERS = {
    "threadIdx": "_Z12get_local_idj",
    "blockIdx": "_Z12get_group_idj",
    "blockDim": "_Z14get_local_sizej",
    "gridDim": "_Z14get_num_groupsj",
}
_PURE = "nounwind willreturn memory(none)"
_READ = f"""
define internal i32 @"{INDEX}NAME"() alwaysinline {_PURE} {{
  %wide = call range(i64 LOW, HIGH) i64 @CALLED(i32 AXIS)
  %value = trunc nuw nsw i64 %wide to i32
  ret i32 %value
}}
"""
# Of threads in a row: {axis: lines}. A block has at least one thread along each axis.
_IN_ROW = {
    "threadIdx.x": "  %value = urem i32 %thread, %x",
    "threadIdx.y": "  %rows = udiv i32 %thread, %x\n  %value = urem i32 %rows, %y",
    "threadIdx.z": "  %layer = mul i32 %x, %y\n  %value = udiv i32 %thread, %layer",
    "blockDim.x": "  %value = or i32 %x, 0",
    "blockDim.y": "  %value = or i32 %y, 0",
    "blockDim.z": "  %layer = mul i32 %x, %y\n  %value = udiv i32 %threads, %layer",
}
_FLAT = {
    "threadIdx.x": "  %value = or i32 %thread, 0",
    "blockDim.x": "  %value = or i32 %threads, 0",
    **{f"threadIdx.{axis}": "  %value = or i32 0, 0" for axis in "yz"},
    **{f"blockDim.{axis}": "  %value = or i32 1, 0" for axis in "yz"},
}
# Those of the grid, the same in any way.
_AS_EVER = frozenset(f"{group}.{axis}" for group in ("blockIdx", "gridDim") for axis in "xyz")
_ROW = f"""
define internal i32 @"{INDEX}NAME"() alwaysinline {_PURE} {{
  %x = call range(i32 1, 1025) i32 @"{HIDDEN}block_x"()
  %y = call range(i32 1, 1025) i32 @"{HIDDEN}block_y"()
  %thread.wide = call range(i64 0, 1024) i64 @_Z12get_local_idj(i32 0)
  %thread = trunc nuw nsw i64 %thread.wide to i32
  %threads.wide = call range(i64 1, 1025) i64 @_Z14get_local_sizej(i32 0)
  %threads = trunc nuw nsw i64 %threads.wide to i32
LINES
  ret i32 %value
}}
"""
_CALLED = re.compile(rf"call (?P<called>i32 @\"?{re.escape(INDEX)}(?P<name>\w+\.[xyz])\"?\()")
_CALLS_INDEX = re.compile(rf"@\"?{re.escape(INDEX)}(\w+\.[xyz])\"?\(")
_DECLARED = re.compile(rf"(?m)^declare [^\n]*@\"?{re.escape(INDEX)}(\w+\.[xyz])\"?\([^\n]*\n?")


def has_lanes(text: str) -> bool:
    """Whether a module's text has words of warps."""
    return SUB_GROUP in text or CONTROL_BARRIER in text


def with_indices(text: str) -> str:
    """A module's text in which the functions that tell a thread's place in a work-group with all
    its axes are defined."""
    names = sorted(set(_DECLARED.findall(text)))
    return _with_definitions(_DECLARED.sub("", text), map(_of_axis, names)) if names else text


def with_known_limits(text: str) -> str:
    """A module's text in which calls of these functions say what they give at most; they are
    defined by `in_a_row`, when all else is optimised."""
    return _CALLED.sub(_with_range, text)


def in_a_row(text: str, name: str) -> str:
    """A module's text in which the kernel `name`, one function by now, has its threads in a row:
    twice, as in blocks with one axis nothing has to be worked out."""
    names = sorted(set(_DECLARED.findall(text)) - _AS_EVER)
    if not names:
        return with_indices(text)
    text = with_indices(_DECLARED.sub(lambda found: found[0] if found[1] in _AS_EVER else "", text))
    lines = reader.definition(text, name)
    opening = lines[0].index("(", lines[0].index("@"))
    listed = lines[0][opening + 1 : matching(lines[0], opening)]
    passed = ", ".join(
        f"{first_type(each.type)} {each.name}" for each in reader.read(text, name).parameters
    )
    made = []
    for way in ("row", "flat"):
        body = _of_this_way("\n".join(lines[1:]), way)
        made.append(
            f"define internal void @{name}.{way}({listed}) alwaysinline convergent nounwind "
            f"{{\n{body}"
        )
        made += [_of_way(each, way) for each in names]
    entry = [
        lines[0],
        "  %haulage.threads = call range(i64 1, 1025) i64 @_Z14get_local_sizej(i32 0)",
        f'  %haulage.x = call range(i32 1, 1025) i32 @"{HIDDEN}block_x"()',
        "  %haulage.x.wide = zext i32 %haulage.x to i64",
        "  %haulage.is.flat = icmp eq i64 %haulage.threads, %haulage.x.wide",
        "  br i1 %haulage.is.flat, label %haulage.flat, label %haulage.row",
        "haulage.flat:",
        f"  call void @{name}.flat({passed})",
        "  ret void",
        "haulage.row:",
        f"  call void @{name}.row({passed})",
        "  ret void",
        "}",
    ]
    text = text.replace("\n".join(lines), "\n".join(entry))
    return _with_definitions(text, made)


def _of_this_way(text: str, way: str) -> str:
    """The text with calls of the functions of a way."""

    def called(found: re.Match[str]) -> str:
        return found[0] if found[1] in _AS_EVER else f'@"{way}.{INDEX}{found[1]}"('

    return _CALLS_INDEX.sub(called, text)


def _with_definitions(text: str, made: Iterable[str]) -> str:
    """The text with definitions, and declarations of what these need of OpenCL's."""
    added = "".join(made)
    whole = text + added
    wanted = {each: f"declare i64 @{each}(i32) {_PURE}" for each in _REGISTERS.values()}
    wanted |= {
        f"{HIDDEN}{each}": f'declare i32 @"{HIDDEN}{each}"() {_PURE}'
        for each in ("block_x", "block_y")
    }
    declared = [
        line
        for each, line in wanted.items()
        if re.search(rf'@"?{re.escape(each)}"?\(', whole)
        and not re.search(rf'(?m)^declare [^\n]*@"?{re.escape(each)}"?\(', whole)
    ]
    return "\n".join([text, added, *declared, ""])


def _of_axis(name: str) -> str:
    group, _, axis = name.partition(".")
    low, high = REGISTER_RANGES[name]
    made = _READ.replace("NAME", name).replace("CALLED", _REGISTERS[group])
    return (
        made.replace("LOW", str(low))
        .replace("HIGH", str(high))
        .replace("AXIS", str("xyz".index(axis)))
    )


def _of_way(name: str, way: str) -> str:
    lines = (_IN_ROW if way == "row" else _FLAT)[name]
    made = _ROW.replace("NAME", name).replace("LINES", lines)
    return made.replace(f'@"{INDEX}', f'@"{way}.{INDEX}')


def _with_range(found: re.Match[str]) -> str:
    low, high = REGISTER_RANGES[found["name"]]
    return f"call range(i32 {low}, {high}) {found['called']}"


# The channel's address and the module's number are variables on other GPUs.
_VARIABLE = re.compile(
    rf"load (?P<kind>i64|i32), ptr addrspace\(1\) @(?P<name>{CHANNEL}|{MODULE}), align \d"
)
_HIDDEN = {CHANNEL: "channel", MODULE: "module"}


def with_channel_as_parameter(text: str) -> str:
    """A module's text, with the channel's functions, whose variables are parameters."""
    if not _VARIABLE.search(text):
        return text

    def called(found: re.Match[str]) -> str:
        return f'call {found["kind"]} @"{HIDDEN}{_HIDDEN[found["name"]]}"()'

    kept = _VARIABLE.sub(called, text)
    start = kept.find("@llvm.compiler.used")
    if start >= 0:
        end = kept.index('section "llvm.metadata"', start)
        kept = kept[:start] + kept[kept.index("\n", end) :]
    kept = re.sub(rf"(?m)^@(?:{CHANNEL}|{MODULE}) = .*\n", "", kept)
    return kept + "".join(
        f'\ndeclare {kind} @"{HIDDEN}{name}"() {_PURE}\n'
        for name, kind in (("channel", "i64"), ("module", "i32"))
        if f'@"{HIDDEN}{name}"()' in kept
    )
