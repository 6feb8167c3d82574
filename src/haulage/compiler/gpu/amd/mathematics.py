"""Functions of mathematics for AMD's GPUs: the device library's, and those that need none."""

import re

from haulage.compiler.gpu.amd import bessel, device_library, own_functions
from haulage.compiler.gpu.names import declared_once, renamed
from haulage.compiler.mathematics import definitions
from haulage.errors import CompileError
from haulage.targets import amd_math
from haulage.targets.amd import AMDTarget

_FREXP = """
define internal {kind} @{name}({kind} %x, ptr %exponent) alwaysinline nounwind {{
  %both = call {{ {kind}, i32 }} @llvm.frexp.{suffix}.i32({kind} %x)
  %fraction = extractvalue {{ {kind}, i32 }} %both, 0
  %power = extractvalue {{ {kind}, i32 }} %both, 1
  store i32 %power, ptr %exponent, align 4
  ret {kind} %fraction
}}
declare {{ {kind}, i32 }} @llvm.frexp.{suffix}.i32({kind})
"""
# Approximations by the hardware's instructions, of single precision.
_OF_HARDWARE = """
define internal float @{name}(float %x) alwaysinline nounwind {{
  %result = call afn float @llvm.{operation}.f32(float %x)
  ret float %result
}}
declare float @llvm.{operation}.f32(float)
"""
_TANGENT = """
define internal float @{name}(float %x) alwaysinline nounwind {{
  %sine = call afn float @llvm.sin.f32(float %x)
  %cosine = call afn float @llvm.cos.f32(float %x)
  %tangent = fdiv afn arcp float %sine, %cosine, !fpmath !{{float 2.5}}
  ret float %tangent
}}
declare float @llvm.sin.f32(float)
declare float @llvm.cos.f32(float)
"""
_POWER = """
define internal float @{name}(float %x, float %y) alwaysinline nounwind {{
  %logarithm = call afn float @llvm.log2.f32(float %x)
  %scaled = fmul float %logarithm, %y
  %power = call afn float @llvm.exp2.f32(float %scaled)
  ret float %power
}}
declare float @llvm.log2.f32(float)
declare float @llvm.exp2.f32(float)
"""
_FAST = {**dict.fromkeys(amd_math.FAST, _OF_HARDWARE), "pow": _POWER, "tan": _TANGENT}
_FAST_CALL = re.compile(
    r"(?P<before>\bcall (?:\w+ )*?(?:fast|afn) (?:\w+ )*float )@(?P<name>[\w.]+)(?=\()"
)
_FAST_PREFIX = "haulage_fast_"
_LIBRARY = re.compile(r"(?m)^declare [^@\n]*@__ocml_(\w+)_(f32|f64)\(")


def with_functions(text: str, target: AMDTarget) -> str:
    """A module's text in which functions of mathematics are called by the names that AMD's device
    library has them by; those that need no library are there.

    Raises:
        CompileError: the library is needed and is nowhere.
    """
    text, fast = _with_fast_calls(text)
    text = renamed(text, {**amd_math.NAMES, **amd_math.INTRINSICS})
    added = [
        _FAST[name].format(name=f"{_FAST_PREFIX}{name}", operation=name) for name in sorted(fast)
    ]
    for kind, suffix in (("float", "f32"), ("double", "f64")):
        name = f"{amd_math.FREXP}_{suffix}"
        if f"@{name}(" in text:
            text = re.sub(rf"(?m)^declare [^\n]*@{name}\([^\n]*\n", "", text)
            added.append(_FREXP.format(kind=kind, suffix=suffix, name=name))
    for name, definition in bessel.DEFINITIONS.items():
        if re.search(rf"(?m)^declare [^\n]*@{name}\(", text):
            text = re.sub(rf"(?m)^declare [^\n]*@{name}\([^\n]*\n", "", text)
            added.append(definition)
    if added:
        text = declared_once("\n".join([text, *added, ""]))
    needed = _LIBRARY.findall(text)
    if needed and device_library.find() is None:
        text = _without_library(text, needed, target)
    return text


def _with_fast_calls(text: str) -> tuple[str, set[str]]:
    """The text in which calls that may be approximated are of other functions, and what these
    are for."""
    names = {f"{name}f": name for name in _FAST} | {f"llvm.{name}.f32": name for name in _FAST}
    used: set[str] = set()
    replaced: set[str] = set()

    def faster(found: re.Match[str]) -> str:
        name = names.get(found["name"])
        if name is None:
            return found[0]
        used.add(name)
        replaced.add(found["name"])
        return f"{found['before']}@{_FAST_PREFIX}{name}"

    text = _FAST_CALL.sub(faster, text)
    for name in replaced:
        # What nobody calls any more needs no library.
        if text.count(f"@{name}(") == 1:
            text = re.sub(rf"(?m)^declare [^\n]*@{re.escape(name)}\([^\n]*\n", "", text)
    return text, used


def _without_library(text: str, needed: list[tuple[str, str]], target: AMDTarget) -> str:
    """The text with this package's own functions in the place of the library's."""
    own = {
        f"__ocml_{name}_{kind}": f"{definitions.PREFIX}{name}.{kind}"
        for name, kind in needed
        if name in definitions.FUNCTIONS
    }
    added = [each for each in needed if each[0] in own_functions.NAMES]
    own |= {f"__ocml_{n}_{kind}": f"{own_functions.PREFIX}{n}.{kind}" for n, kind in added}
    missing = sorted({name for name, kind in needed if f"__ocml_{name}_{kind}" not in own})
    if missing:
        raise CompileError(f"{', '.join(missing)}: {device_library.missing()}")
    text = definitions.with_definitions(renamed(text, own), target)
    if not added:
        return text
    for name, kind in added:
        text = re.sub(
            rf"(?m)^declare [^@\n]*@{re.escape(own_functions.PREFIX)}{name}\.{kind}\(.*\n", "", text
        )
    return declared_once("\n".join([text, own_functions.definitions(added)]))
