"""How much a kernel can take on AMD's GPUs: LLVM's code generator ends the process beyond that."""

import re

from haulage.compiler.limits import LocalArray, check_local
from haulage.errors import CompileError
from haulage.targets.amd import AMDTarget

# Bytes of a block's shared memory, on most and on those of other sizes.
_MOST_SHARED = 64 << 10
_OTHERS = {"gfx950": 160 << 10}

_SHARED = re.compile(
    r"(?m)^@[^\n]* addrspace\(3\) global (?:\[(?P<count>\d+) x i8\]|i32)"
    r"[^\n]*?, align (?P<align>\d+)"
)
_LOCAL = re.compile(r"(?m)^ +%\S+ = alloca \[(\d+) x i8\]")


def check(name: str, text: str, target: AMDTarget, arrays: tuple[LocalArray, ...] = ()) -> None:
    """See that the arrays of a kernel, whose module's text is optimised, can be; `arrays` are the
    local ones in the program.

    Raises:
        CompileError: the shared ones, or those of a thread, are too large.
    """
    shared = 0
    for found in _SHARED.finditer(text):
        align = int(found["align"])
        shared += -(-int(found["count"] or 4) // align) * align
    most = most_shared(target.architecture)
    if shared > most:
        raise CompileError(
            f"kernel {name} has {shared} bytes of shared arrays; {target.architecture} has {most} "
            "for a block: take smaller arrays, or fewer"
        )
    local = sum(map(int, _LOCAL.findall(text)))
    check_local(f"kernel {name}", local, arrays, target)


def most_shared(architecture: str) -> int:
    """Bytes of shared memory that a block can have."""
    return _OTHERS.get(architecture, _MOST_SHARED)
