"""What a launch tells a kernel: where a thread is, and parameters behind the user's.

The hooks of `targets/opencl.py` call functions for both. Those of the first kind are defined here,
in one of two ways. Without words of warps a block is what OpenCL calls a work-group, with all its
axes. With such words the threads of a warp follow one another in the block, x first, but OpenCL
leaves it open which work-items of a work-group with several axes make a sub-group. So the
work-group then has one axis, and a thread works its place out from the block's sizes, which come as
parameters. Calls of the second kind become parameters of the kernel (`memory.py`).
"""

import re

from haulage.channel import CHANNEL, MODULE
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
_DECLARED = re.compile(rf"(?m)^declare [^\n]*@\"?{re.escape(INDEX)}(\w+\.[xyz])\"?\([^\n]*\n?")


def has_lanes(text: str) -> bool:
    """Whether a module's text has words of warps."""
    return SUB_GROUP in text or CONTROL_BARRIER in text


def with_indices(text: str) -> str:
    """A module's text in which the functions that tell a thread's place are defined."""
    names = sorted(set(_DECLARED.findall(text)))
    if not names:
        return text
    in_row = has_lanes(text)
    made = [_of_row(name) if in_row and name in _IN_ROW else _of_axis(name) for name in names]
    added = "".join(made)
    called = [
        each
        for each in _REGISTERS.values()
        if f"@{each}(" in added and not re.search(rf'(?m)^declare [^\n]*@"?{each}"?\(', text)
    ]
    declared = [f"declare i64 @{each}(i32) {_PURE}" for each in called]
    if f'@"{HIDDEN}block_' in added:
        declared += [f'declare i32 @"{HIDDEN}{each}"() {_PURE}' for each in ("block_x", "block_y")]
    return "\n".join([_DECLARED.sub("", text), added, *declared, ""])


def _of_axis(name: str) -> str:
    group, _, axis = name.partition(".")
    low, high = REGISTER_RANGES[name]
    made = _READ.replace("NAME", name).replace("CALLED", _REGISTERS[group])
    return (
        made.replace("LOW", str(low))
        .replace("HIGH", str(high))
        .replace("AXIS", str("xyz".index(axis)))
    )


def _of_row(name: str) -> str:
    return _ROW.replace("NAME", name).replace("LINES", _IN_ROW[name])


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
