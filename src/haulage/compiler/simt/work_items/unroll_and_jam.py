"""Runs a region for a few threads at once, instruction by instruction, where all of them take the
same way through loops of their own.

A thread that sums its row of a matrix waits in each turn for the sum of the turn before. The rows
of its neighbours do not depend on that: `COPIES` of them, side by side, take hardly longer than
one. This is unrolling of the loop over the threads with the copies jammed into one body (Allen and
Kennedy, "Optimizing Compilers for Modern Architectures", 2001, chapter 8), which needs no analysis
here, as threads may run in any order between two cuts.
"""

import re

from haulage.compiler.simt.analysis import control_flow, induction
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.ir.model import Function, RegionEnd, value_name
from haulage.compiler.simt.regions.parallel_regions import Region, Regions
from haulage.compiler.simt.vectorize.operations import elementwise

COPIES = 4

# Instructions of a region beyond which its copies would not find registers, nor LLVM the time.
_MOST = 80

NAME = r'%(?:"[^"]*"|[-a-zA-Z$._0-9]+)'
_SUFFIX = ".jam"
_NAMES = re.compile(NAME)
_RESULT = re.compile(rf"  ({NAME}) = ")
_END = re.compile(r"  (?:br|switch|ret|unreachable)\b")


def is_worth_it(body: Body, regions: Regions, region: Region) -> bool:
    """Whether each turn of a region's inner loops has to wait for a sum of the turn before, and
    nothing in it is done one thread after the other."""
    if body.may_fail or body.private or regions.masked:
        return False
    blocks = [regions.function.blocks[label] for label in region.labels]
    items = [item for block in blocks for item in block.instructions()]
    if len(items) > _MOST or any(item.stays or item.opcode == "fence" for item in items):
        return False
    if any(item.opcode == "call" and elementwise(item.callee) is None for item in items):
        return False
    loops = _loops(regions.function, region)
    return bool(loops) and all(_carries(regions.function, loop) for loop in loops)


def _loops(function: Function, region: Region) -> list[control_flow.Loop]:
    """The innermost of a region's loops that LLVM does not unroll."""
    successors = {
        label: ()
        if isinstance(function.blocks[label].terminator, RegionEnd)
        else function.blocks[label].successors
        for label in region.labels
    }
    found: list[control_flow.Loop] = []
    for loop in control_flow.natural_loops(successors, region.entry):
        inner = any(each.labels < loop.labels for each in found)
        if not inner and induction.constant_turns(function, loop) is None:
            found.append(loop)
    return found


def _carries(function: Function, loop: control_flow.Loop) -> bool:
    """Whether a loop has a number of its own from turn to turn, other than by steps."""
    stepping = induction.steps(function, loop)
    return any(phi.result not in stepping for phi in function.blocks[loop.header].phis)


def function_name(region: Region) -> str:
    """The name of a region's function for a few threads."""
    return f"haulage.region.{region.number}{_SUFFIX}"


def is_in(module: str) -> bool:
    """Whether the text of a module has such a function."""
    return f"{_SUFFIX}(" in module


def jammed(text: str, name: str, axis: str) -> str | None:
    """The function `text` of a region as one of `COPIES` threads that are neighbours along an axis,
    under another name; None if they need not take the same way."""
    lines = text.splitlines()
    own = (("i32", f"%threadIdx.{axis}"), ("i64", "%thread"))
    rooms = {found[1] for line in lines if (found := _RESULT.match(line)) and " = alloca " in line}
    varying = _varying(lines, {parameter for _, parameter in own} | rooms)
    copies = [{each: value_name(each, f"jam.{k}") for each in varying} for k in range(1, COPIES)]
    head, start, *body, last = lines
    written = [re.sub(r"@[-\w$.]+\(", f"@{name}(", head, count=1), start]
    written += [
        f"  {names[parameter]} = add {kind} {parameter}, {k}"
        for k, names in enumerate(copies, 1)
        for kind, parameter in own
    ]
    for line in body:
        used = set(_NAMES.findall(line)) & varying
        if not used:
            written.append(line)
        elif _END.match(line):
            return None
        else:
            written.append(line)
            written += [_renamed(line, names) for names in copies]
    return "\n".join([*written, last])


def _varying(lines: list[str], own: set[str]) -> set[str]:
    """The names whose values can differ between threads that go the same way."""
    uses = {
        found[1]: set(_NAMES.findall(line[found.end() :]))
        for line in lines
        if (found := _RESULT.match(line))
    }
    users: dict[str, list[str]] = {}
    for result, used in uses.items():
        for each in used:
            users.setdefault(each, []).append(result)
    return control_flow.reachable_until(_Users(users), own, control_flow.EXIT)


class _Users(dict[str, list[str]]):
    """Who uses a name; nobody, if it is not there."""

    def __missing__(self, name: str) -> list[str]:
        return []


def _renamed(line: str, names: dict[str, str]) -> str:
    return _NAMES.sub(lambda found: names.get(found[0], found[0]), line)
