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
    error_functions,
    exponentials,
    far,
    hyperbolic,
    logarithms,
    powers,
    trigonometry,
)
from haulage.compiler.mathematics.ir import SUFFIXES, Value, Writer
from haulage.targets.base import Target

PREFIX = "haulage.math."

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

FUNCTIONS = tuple(_DOUBLE)
_OF_TWO = ("atan2", "hypot", "pow")
# Those that need help with large arguments.
_FAR = ("cos", "sin", "tan")

# Every name that a call may have -> (function, type).
_NAMES: dict[str, tuple[str, str]] = {
    **{name: (name, "double") for name in _DOUBLE},
    **{f"{name}f": (name, "float") for name in _DOUBLE},
    **{f"llvm.{name}.f64": (name, "double") for name in _DOUBLE},
    **{f"llvm.{name}.f32": (name, "float") for name in _DOUBLE},
}

_CALL = re.compile(r"@([\w.]+)(?=\()")
_DECLARED = re.compile(r"(?m)^declare [^@\n]*@([\w.]+)\(.*\n")
_ATTRIBUTES = "nounwind willreturn nosync nofree memory(none)"


def calls(text: str) -> str:
    """A module's text in which calls of such functions go to ours, declared like LLVM's own."""
    used: set[tuple[str, str]] = set()

    def renamed(found: re.Match[str]) -> str:
        known = _NAMES.get(found[1])
        if known is None:
            return found[0]
        used.add(known)
        return f"@{PREFIX}{known[0]}.{SUFFIXES[known[1]]}"

    kept = _DECLARED.sub(lambda found: "" if found[1] in _NAMES else found[0], text)
    called = _CALL.sub(renamed, kept)
    return called + "".join(
        f"declare {kind} @{PREFIX}{name}.{SUFFIXES[kind]}"
        f"({', '.join([kind] * _arguments(name))}) {_ATTRIBUTES} speculatable\n"
        for name, kind in sorted(used)
    )


def _arguments(name: str) -> int:
    return 2 if name in _OF_TWO else 1


def with_definitions(text: str, target: Target) -> str:
    """A module's text in which the functions that it declares are defined."""
    found = [each[1] for each in _DECLARED.finditer(text) if each[1].startswith(PREFIX)]
    if not found:
        return text
    kept = _DECLARED.sub(lambda each: "" if each[1].startswith(PREFIX) else each[0], text)
    declared: dict[str, None] = {}
    bodies = []
    for full in found:
        name, suffix = full[len(PREFIX) :].rsplit(".", 1)
        kind = "float" if suffix == "f32" else "double"
        body, needs = _definition(name, kind, target.has_fused)
        bodies.append(body)
        declared.update(dict.fromkeys(needs))
    beyond = [
        (name, kind)
        for name in _FAR
        for kind, suffix in SUFFIXES.items()
        if f"{PREFIX}{name}.{suffix}" in found
    ]
    if beyond:
        bodies.append(far.definitions(beyond))
    known = {each[0].split("@", 1)[1].split("(", 1)[0] for each in _DECLARED.finditer(kept)}
    new = [line for line in declared if line.split("@", 1)[1].split("(", 1)[0] not in known]
    return "\n".join([kept, *new, *bodies, ""])


@cache
def _definition(name: str, kind: str, fused: bool) -> tuple[str, tuple[str, ...]]:
    """LLVM text of one function, and the declarations that it needs."""
    w = Writer(fused)
    names = ["%x", "%y"][: _arguments(name)]
    given = [Value(w, kind, each) for each in names]
    result = (_FLOAT if kind == "float" else _DOUBLE)[name](w, *given)
    parameters = ", ".join(f"{kind} {each}" for each in names)
    lines = [
        f"define internal {kind} @{PREFIX}{name}.{SUFFIXES[kind]}({parameters}) "
        f"alwaysinline {_ATTRIBUTES} {{",
        "entry:",
        *w.lines,
    ]
    if name in _FAR:
        size = w.magnitude(given[0])
        beyond = size > trigonometry.FAR
        lines += w.lines[-2:]
        own = far.name(name, kind)
        lines += [
            f"  br i1 {beyond.text}, label %far, label %near",
            "far:",
            f"  %from.far = call {kind} @{own}({kind} %x) {far.variants(name, kind)}",
            "  br label %near",
            "near:",
            f"  %result = phi {kind} [ {result.text}, %entry ], [ %from.far, %far ]",
            f"  ret {kind} %result",
        ]
    else:
        lines.append(f"  ret {kind} {result.text}")
    return "\n".join([*lines, "}"]), tuple(sorted(w.needs))
