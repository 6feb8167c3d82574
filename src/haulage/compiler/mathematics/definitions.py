"""Which functions kernels have as LLVM code, and how it gets into a module.

A call of one, under whatever name Numba, LLVM or the C library has for it, becomes a call of
`haulage.math.<name>.f64` (`calls`) as soon as LLVM has done what it knows about such functions. Its
definition comes in just before loops are widened (`with_definitions`): straight code without a call
and without a branch, so that it is widened with the loop around it, and the same for one lane as
for sixteen.
"""

import re
from collections.abc import Callable
from functools import cache

from haulage.compiler.mathematics import (
    divisions,
    error_functions,
    exponentials,
    far,
    hyperbolic,
    logarithms,
    powers,
    remainders,
    trigonometry,
)
from haulage.compiler.mathematics.ir import SUFFIXES, Value, Writer
from haulage.targets.base import Target

PREFIX = "haulage.math."
# Divisions that cannot fail (`simt/loops/integer_divisions.py`).
SPECULATED = "haulage.speculated."
# What the names of functions begin with that only give a value, but for LLVM's that write memory.
PURE = ("llvm.", PREFIX, SPECULATED)

DIVISIONS = frozenset(("udiv", "sdiv", "urem", "srem"))
# What the names of the functions begin with that divisions become calls of.
DIVIDING = tuple(PREFIX + name for name in (*DIVISIONS, *(f"near_{word}" for word in DIVISIONS)))


Function = Callable[..., Value]

_DOUBLE: dict[str, Function] = {
    "acos": trigonometry.acos,
    "acosh": logarithms.acosh,
    "asin": trigonometry.asin,
    "asinh": logarithms.asinh,
    "atan": trigonometry.atan,
    "atan2": trigonometry.atan2,
    "atanh": logarithms.atanh,
    "cbrt": powers.cbrt,
    "cos": trigonometry.cos,
    "cosh": hyperbolic.cosh,
    "erf": error_functions.erf,
    "erfc": error_functions.erfc,
    "exp": exponentials.exp,
    "exp2": exponentials.exp2,
    "exp10": exponentials.exp10,
    "expm1": exponentials.expm1,
    "hypot": powers.hypot,
    "log": logarithms.log,
    "log10": logarithms.log10,
    "log1p": logarithms.log1p,
    "log2": logarithms.log2,
    "pow": powers.pow_,
    "sin": trigonometry.sin,
    "sinh": hyperbolic.sinh,
    "tan": trigonometry.tan,
    "tanh": hyperbolic.tanh,
}


def is_division(callee: str | None) -> bool:
    """Whether a call's `callee` is what a division became."""
    return callee is not None and callee.startswith(DIVIDING)


def _rounded(function: Function) -> Function:
    """A function of floats, worked out in doubles."""

    def made(w: Writer, *arguments: Value) -> Value:
        return function(w, *(value.to("double") for value in arguments)).to("float")

    return made


_FLOAT: dict[str, Function] = {
    **{name: _rounded(function) for name, function in _DOUBLE.items()},
    "cos": trigonometry.cos_single,
    "erf": error_functions.erf_single,
    "exp": exponentials.exp_single,
    "exp2": exponentials.exp2_single,
    "exp10": exponentials.exp10_single,
    "hypot": powers.hypot_single,
    "log": logarithms.log_single,
    "pow": powers.pow_single,
    "sin": trigonometry.sin_single,
    "tan": trigonometry.tan_single,
}

_WHOLE: dict[str, Function] = {
    "near_sdiv": divisions.near_sdiv,
    "near_srem": divisions.near_srem,
    "near_udiv": divisions.near_udiv,
    "near_urem": divisions.near_urem,
    "sdiv": divisions.sdiv,
    "srem": divisions.srem,
}
_EXACT: dict[str, Function] = {"fmod": remainders.fmod}
_TABLES = {
    "float": {**_FLOAT, **_EXACT},
    "double": {**_DOUBLE, **_EXACT},
    "i32": _WHOLE,
    "i64": _WHOLE,
}

FUNCTIONS = tuple(_DOUBLE)
_OF_TWO = ("atan2", "fmod", "hypot", "pow", *_WHOLE)
# Those that need help with some arguments -> whether these are such.
_BEYOND: dict[str, Function] = {
    **dict.fromkeys(("cos", "sin", "tan"), trigonometry.is_far),
    "fmod": remainders.is_far,
}

# Every name that a call may have -> (function, type).
_NAMES: dict[str, tuple[str, str]] = {
    **{name: (name, "double") for name in _DOUBLE},
    **{f"{name}f": (name, "float") for name in _DOUBLE},
    **{f"llvm.{name}.f64": (name, "double") for name in _DOUBLE},
    **{f"llvm.{name}.f32": (name, "float") for name in _DOUBLE},
}

_PARAMETERS = ("%x", "%y")
_REMAINDER = re.compile(r"(?m)= frem (?:[a-z]+ )*(float|double) ([^\s,]+), ([^\s,]+)")
_CALL = re.compile(r"@([\w.]+)(?=\()")
_DECLARED = re.compile(r"(?m)^declare [^@\n]*@([\w.]+)\(.*\n")
_OWN = re.compile(re.escape(PREFIX) + r"(?P<name>\w+)\.(?:v(?P<lanes>\d+))?(?P<suffix>[fi]\d\d)")
_KINDS = {suffix: kind for kind, suffix in SUFFIXES.items()}
_ATTRIBUTES = "nounwind willreturn nosync nofree memory(none)"


def calls(text: str, target: Target) -> str:
    """A module's text in which calls of such functions go to ours, declared like LLVM's own."""
    used: set[tuple[str, str]] = set()

    def remainder(found: re.Match[str]) -> str:
        kind = found[1]
        used.add(("fmod", kind))
        return f"= call {kind} @{PREFIX}fmod.{SUFFIXES[kind]}({kind} {found[2]}, {kind} {found[3]})"

    def renamed(found: re.Match[str]) -> str:
        known = _NAMES.get(found[1])
        if known is None:
            return found[0]
        used.add(known)
        return f"@{PREFIX}{known[0]}.{SUFFIXES[known[1]]}"

    kept = _DECLARED.sub(lambda found: "" if found[1] in _NAMES else found[0], text)
    called = _CALL.sub(renamed, kept)
    if target.has_fused:
        called = _REMAINDER.sub(remainder, called)
    return called + "".join(f"{declaration(name, kind)}\n" for name, kind in sorted(used))


def declaration(name: str, kind: str) -> str:
    """The declaration of one of our functions, of numbers of an LLVM type."""
    parameters = ", ".join([kind] * _arguments(name))
    called = f"{PREFIX}{name}.{SUFFIXES[kind]}"
    return f"declare {kind} @{called}({parameters}) {_ATTRIBUTES} speculatable"


def is_known(callee: str) -> bool:
    """Whether `calls` makes a call of ours of one of `callee`."""
    return callee in _NAMES


def _arguments(name: str) -> int:
    return 2 if name in _OF_TWO else 1


def has_branch(callee: str) -> bool:
    """Whether a function of ours, a call's `callee`, asks about the size of its argument."""
    return callee.removeprefix(PREFIX).split(".", 1)[0] in _BEYOND


def is_mathematics(callee: str | None) -> bool:
    """Whether a call's `callee` is a function of ours."""
    return callee is not None and callee.startswith(PREFIX)


def with_definitions(text: str, target: Target) -> str:
    """A module's text in which the functions that it declares are defined: those of one number
    (`haulage.math.exp.f32`) and those of vectors (`haulage.math.exp.v16f32`)."""
    found = [each[1] for each in _DECLARED.finditer(text) if each[1].startswith(PREFIX)]
    if not found:
        return text
    kept = _DECLARED.sub(lambda each: "" if each[1].startswith(PREFIX) else each[0], text)
    declared: dict[str, None] = {}
    bodies = []
    beyond: dict[tuple[str, str, int], None] = {}
    for full in found:
        parts = _OWN.fullmatch(full)
        assert parts is not None, full
        name, kind = parts["name"], _KINDS[parts["suffix"]]
        lanes = int(parts["lanes"]) if parts["lanes"] else None
        body, needs = _definition(name, kind, lanes, target.has_fused)
        bodies.append(body)
        declared.update(dict.fromkeys(needs))
        if name in _BEYOND:
            beyond[name, kind, _arguments(name)] = None
    if beyond:
        bodies.append(far.definitions(beyond))
        declared.update(dict.fromkeys(far.declarations(beyond)))
    known = {each[0].split("@", 1)[1].split("(", 1)[0] for each in _DECLARED.finditer(kept)}
    new = [line for line in declared if line.split("@", 1)[1].split("(", 1)[0] not in known]
    return "\n".join([kept, *new, *bodies, ""])


@cache
def _definition(
    name: str, kind: str, lanes: int | None, fused: bool
) -> tuple[str, tuple[str, ...]]:
    """LLVM text of one function, and the declarations that it needs."""
    w = Writer(fused, lanes)
    names = _PARAMETERS[: _arguments(name)]
    given = [Value(w, kind, each) for each in names]
    result = _TABLES[kind][name](w, *given)
    if name in _BEYOND:
        beyond = _BEYOND[name](w, *given)
        ending = _behind_branch(w, name, beyond, result)
    else:
        ending = [f"  ret {w.type(kind)} {result.text}"]
    parameters = ", ".join(f"{w.type(kind)} {each}" for each in names)
    vector = "" if lanes is None else f"v{lanes}"
    lines = [
        f"define internal {w.type(kind)} @{PREFIX}{name}.{vector}{SUFFIXES[kind]}({parameters}) "
        f"alwaysinline {_ATTRIBUTES} {{",
        "entry:",
        *w.lines,
        *ending,
        "}",
    ]
    return "\n".join(lines), tuple(sorted(w.needs))


def _behind_branch(w: Writer, name: str, beyond: Value, result: Value) -> list[str]:
    """The end of a function that asks the C library where `beyond` is set."""
    kind = result.kind
    given = ", ".join(f"{w.type(kind)} {each}" for each in _PARAMETERS[: _arguments(name)])
    own = far.name(name, kind)
    if w.lanes is not None:
        whole = w.type(kind)
        call = f"call {whole} @{own}.{w.lanes}({given}, {w.type('i1')} {beyond.text})"
        chosen = f"select {w.type('i1')} {beyond.text}, {whole} %from.far, {whole} {result.text}"
        return [f"  %from.far = {call}", f"  %result = {chosen}", f"  ret {whole} %result"]
    return [
        f"  br i1 {beyond.text}, label %far, label %near",
        "far:",
        f"  %from.far = call {kind} @{own}({given}) {far.variants(name, kind, _arguments(name))}",
        "  br label %near",
        "near:",
        f"  %result = phi {kind} [ {result.text}, %entry ], [ %from.far, %far ]",
        f"  ret {kind} %result",
    ]
