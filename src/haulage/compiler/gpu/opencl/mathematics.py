"""Functions of mathematics under OpenCL's names for them."""

import re

from haulage.compiler.gpu.names import declared_once, renamed
from haulage.targets import opencl_math

# OpenCL's function takes an address in any memory.
_FREXP = """
define internal {kind} @{name}({kind} %x, ptr %exponent) alwaysinline nounwind {{
  %fraction = call {kind} @_Z5frexp{letter}PU3AS4i({kind} %x, ptr %exponent)
  ret {kind} %fraction
}}
declare {kind} @_Z5frexp{letter}PU3AS4i({kind}, ptr)
"""
_FAST_CALL = re.compile(
    r"(?P<before>\bcall (?:\w+ )*?(?:fast|afn) (?:\w+ )*float )@(?P<name>[\w.]+)(?=\()"
)
_REMAINDER = re.compile(
    r"(?m)^(?P<before> .*= )frem (?:[a-z]+ )*(?P<type>float|double) (?P<x>[^\s,]+), (?P<y>[^\s,]+)"
)


def with_functions(text: str) -> str:
    """A module's text in which functions of mathematics are called by OpenCL's names, and
    remainders of floats are calls too."""
    text = _with_fast_calls(text)
    text = renamed(text, {**opencl_math.NAMES, **opencl_math.INTRINSICS})
    added = []
    for kind, suffix in (("float", "f32"), ("double", "f64")):
        name = f"{opencl_math.FREXP}_{suffix}"
        if f"@{name}(" in text:
            text = re.sub(rf"(?m)^declare [^\n]*@{name}\([^\n]*\n", "", text)
            added.append(_FREXP.format(kind=kind, name=name, letter=kind[0]))
    if "frem " in text:
        text = _REMAINDER.sub(_remainder, text)
        added += [
            f"\ndeclare {kind} @{name}({kind}, {kind})\n"
            for kind, name in opencl_math.REMAINDERS.items()
            if f"@{name}(" in text
        ]
    return declared_once("\n".join([text, *added, ""])) if added else text


def _remainder(found: re.Match[str]) -> str:
    kind, x, y = found["type"], found["x"], found["y"]
    name = opencl_math.REMAINDERS[kind]
    return f"{found['before']}call {kind} @{name}({kind} {x}, {kind} {y})"


def _with_fast_calls(text: str) -> str:
    used: set[str] = set()

    def faster(found: re.Match[str]) -> str:
        name = opencl_math.FAST.get(found["name"])
        if name is None:
            return found[0]
        used.add(name)
        return f"{found['before']}@{name}"

    text = _FAST_CALL.sub(faster, text)
    declared = [f"declare float @{name}(float)\n" for name in sorted(used)]
    return "\n".join([text, *declared]) if declared else text
