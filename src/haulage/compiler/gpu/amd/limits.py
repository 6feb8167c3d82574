"""How much a kernel can take on AMD's GPUs: LLVM's code generator ends the process beyond that."""

import re

from haulage.errors import CompileError
from haulage.targets.amd import AMDTarget
from haulage.targets.amd_architectures import version

# Bytes of a block's shared memory, on most and on those of other sizes.
_MOST_SHARED = 64 << 10
_OTHERS = {"gfx950": 160 << 10}
# Registers that find no room go there too; no thread has more.
_OF_REGISTERS = 4 * 512 + 64

_SHARED = re.compile(
    r"(?m)^@[^\n]* addrspace\(3\) global (?:\[(?P<count>\d+) x i8\]|i32)"
    r"[^\n]*?, align (?P<align>\d+)"
)
_LOCAL = re.compile(r"(?m)^ +%\S+ = alloca \[(\d+) x i8\]")


def check(name: str, text: str, target: AMDTarget) -> None:
    """See that the arrays of a kernel, whose module's text is optimised, can be.

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
    if local > most_local(target):
        raise CompileError(
            f"kernel {name} has {local} bytes of local arrays for each thread; "
            f"{target.architecture} has {most_local(target)} for a thread: take smaller arrays, or "
            "give the kernel an array of the device with a part for each thread"
        )


def most_shared(architecture: str) -> int:
    """Bytes of shared memory that a block can have."""
    return _OTHERS.get(architecture, _MOST_SHARED)


def most_local(target: AMDTarget) -> int:
    """Bytes of local arrays that a thread can have: what the hardware's field for a wavefront's
    scratch holds ("AMDGPU User Guide", COMPUTE_TMPRING_SIZE), less what registers may need."""
    major = version(target.architecture)[0]
    units, nbytes = {11: (15, 256), 12: (18, 256)}.get(major, (13, 1024))
    return ((1 << units) - 1) * nbytes // target.wave_size - _OF_REGISTERS
