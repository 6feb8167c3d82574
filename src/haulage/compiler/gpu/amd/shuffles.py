"""Exchanges between lanes become cheaper ones where it is known which lane each one reads."""

import re

from haulage.compiler.gpu.amd.lane_values import LaneValues
from haulage.compiler.gpu.names import declared_once
from haulage.targets.amd import AMDTarget
from haulage.targets.amd_architectures import has_halves, version
from haulage.targets.amd_shuffles import GIVEN, OF_HALVES, Move, moves

_CALLED = re.compile(
    r"(?m)^  (?P<result>%(?:\"[^\"]*\"|[-\w.$]+)) = (?:tail )?call [^@\n]*"
    r"@llvm\.amdgcn\.ds\.bpermute\(i32 (?P<address>[^,\n]+), i32 (?P<value>[^)\n]+)\)[^\n]*$"
)
_DECLARED = {
    "update.dpp.i32": "i32, i32, i32 immarg, i32 immarg, i32 immarg, i1 immarg",
    "permlane16.i32": "i32, i32, i32, i32, i1 immarg, i1 immarg",
    "permlanex16.i32": "i32, i32, i32, i32, i1 immarg, i1 immarg",
    "ds.swizzle": "i32, i32 immarg",
    "readlane.i32": "i32, i32",
    "mbcnt.lo": "i32, i32",
    "mbcnt.hi": "i32, i32",
}
_HALF = 32


def with_known_shuffles(text: str, target: AMDTarget) -> str | None:
    """A module's text in which what `ds_bpermute` would do in a pattern that is known is done by
    moves within the vector unit, or by fewer instructions; None if there is no such thing."""
    if not _CALLED.search(text) or has_halves(target.architecture, target.wave_size):
        return None
    functions = re.split(r"(?m)(?=^define )", text)
    done = [_settled(each, target) for each in functions]
    if done == functions:
        return None
    made = "".join(done)
    declared = [
        f"declare i32 @llvm.amdgcn.{word}({kinds})"
        for word, kinds in _DECLARED.items()
        if f"@llvm.amdgcn.{word}(" in made
    ]
    return declared_once("\n".join([made, *declared, ""]))


def _settled(function: str, target: AMDTarget) -> str:
    if not _CALLED.search(function):
        return function
    lanes = target.wave_size
    values = LaneValues(function, lanes)
    is_new = version(target.architecture) >= (10, 0, 0)

    def one(found: re.Match[str]) -> str:
        addresses = values.of(found["address"])
        if addresses is None:
            return found[0]
        made = moves([address // 4 % lanes for address in addresses], is_new=is_new)
        return found[0] if made is None else _written(found["result"], found["value"], made)

    return _CALLED.sub(one, function)


def _written(result: str, value: str, made: list[Move]) -> str:
    """The lines of moves; they make names that begin with that of the result."""
    if not made:
        return f"  {result} = or i32 {value}, 0"
    stem = result[1:].strip('"')
    names = [f'%"{stem}.move.{number}"' for number in range(len(made) - 1)] + [result]

    def known(source: int) -> str:
        return value if source == GIVEN else names[source]

    lines = []
    for name, move in zip(names, made, strict=True):
        if move == OF_HALVES:
            lane, is_high = f'%"{stem}.lane"', f'%"{stem}.high"'
            lines += [
                f'  %"{stem}.low" = call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 0)',
                f'  {lane} = call i32 @llvm.amdgcn.mbcnt.hi(i32 -1, i32 %"{stem}.low")',
                f"  {is_high} = icmp uge i32 {lane}, {_HALF}",
                f"  {name} = select i1 {is_high}, i32 {names[1]}, i32 {names[0]}",
            ]
            continue
        given = [f"i32 {known(move.source)}", *(f"i32 {number}" for number in move.numbers)]
        if move.word.startswith("permlane"):
            # What is read from a lane that is not there is anything.
            given = ["i32 poison", *given, "i1 false", "i1 true"]
        elif move.word.startswith("update.dpp"):
            kept = "poison" if move.kept is None else known(move.kept)
            given = [f"i32 {kept}", *given, f"i1 {'true' if move.kept is None else 'false'}"]
        lines.append(f"  {name} = call i32 @llvm.amdgcn.{move.word}({', '.join(given)})")
    return "\n".join(lines)
