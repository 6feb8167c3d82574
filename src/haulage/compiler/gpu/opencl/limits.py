"""How much a kernel can take on OpenCL devices, and what SPIR-V has no word for."""

import re

from haulage.compiler.limits import LocalArray, check_local
from haulage.errors import CompileError
from haulage.targets.base import Target

_SHARED = re.compile(
    r"(?m)^@[^\n]* addrspace\(3\) global (?:\[(?P<count>\d+) x i8\]|i32)"
    r"[^\n]*?, align (?P<align>\d+)"
)
_LOCAL = re.compile(r"(?m)^ +%\S+ = alloca \[(\d+) x i8\]")
_DEFINED = re.compile(r"(?m)^define [^@\n]*@(?:\"([^\"]*)\"|([-\w.$]+))\(")
_OUTSIDE = re.compile(r"(?m)^declare [^@\n]*@\"?([\w.]+)\"?\(")
# LLVM's operations that its code generator makes SPIR-V of: with any other it ends the process.
_OPERATIONS = re.compile(
    r"@(llvm\.(?!(?:abs|bswap|ceil|copysign|ctlz|ctpop|cttz|fabs|floor|fma|fmuladd|fshl|fshr"
    r"|fptosi\.sat|fptoui\.sat|is\.fpclass|maximum|maxnum|memcpy|memmove|memset|minimum|minnum"
    r"|nearbyint|rint|round|roundeven|sadd\.sat|scmp|smax|smin|sqrt|ssub\.sat|trunc|uadd\.sat"
    r"|ucmp|umax|umin|usub\.sat)\.)[\w.]+)\("
)
_MANGLED = re.compile(r"_Z\d+\w+")


def shared_bytes(text: str) -> int:
    """Bytes of a block's shared arrays, in a module's text."""
    total = 0
    for found in _SHARED.finditer(text):
        align = int(found["align"])
        total += -(-int(found["count"] or 4) // align) * align
    return total


def local_bytes(text: str) -> int:
    """Bytes of a thread's arrays, in a module's text."""
    return sum(map(int, _LOCAL.findall(text)))


def check(name: str, text: str, target: Target, arrays: tuple[LocalArray, ...] = ()) -> None:
    """See that SPIR-V has all that an optimised kernel is made of; `arrays` are the local ones in
    the program.

    Raises:
        CompileError: it has not, or a thread's arrays are too large.
    """
    others = [quoted or plain for quoted, plain in _DEFINED.findall(text)]
    others = [each for each in others if each != name]
    if others:
        raise CompileError(
            f"kernel {name}: a function that it calls calls itself, which SPIR-V kernels cannot; "
            "write it as a loop"
        )
    unknown = sorted(
        each
        for each in set(_OUTSIDE.findall(text))
        if not each.startswith(("llvm.", "haulage_hidden.")) and not _MANGLED.fullmatch(each)
    )
    if unknown:
        raise CompileError(f"kernel {name}: no code for OpenCL is known of {', '.join(unknown)}")
    check_local(f"kernel {name}", local_bytes(text), arrays, target)


def check_operations(name: str, text: str) -> None:
    """See that LLVM's code generator has something for each of LLVM's operations in a text.

    Raises:
        CompileError: it has not.
    """
    unknown = sorted(set(_OPERATIONS.findall(text)))
    if unknown:
        raise CompileError(f"kernel {name}: LLVM has no SPIR-V for {', '.join(unknown)}")
