"""How much a kernel can take on NVIDIA's GPUs: what their assembler or driver would refuse."""

import re

from haulage.compiler.code import Code
from haulage.errors import CompileError

# Of a block, in bytes; and of a kernel's arguments since compute capability 7.0.
MOST_SHARED = 48 << 10
MOST_ARGUMENTS = 32764

_ROOM = r"(?m)^\s*\.{space} \.align \d+ \.b(\d+)\s+[\w$]+(?:\[(\d+)\])?;"


def rooms(space: str, asm: str) -> list[int]:
    """The bytes of each variable in one of PTX's state spaces."""
    if f".{space} .align" not in asm:
        return []
    found = re.findall(_ROOM.format(space=space), asm)
    return [int(bits) // 8 * int(count or 1) for bits, count in found]


def check(code: Code) -> None:
    """See that a kernel's shared arrays and arguments can be; launches look by themselves.

    Raises:
        CompileError: they are too large.
    """
    metadata = code.metadata
    name, architecture = metadata["name"], metadata["target"]
    if metadata["shared_bytes"] > MOST_SHARED:
        raise CompileError(
            f"kernel {name} has {metadata['shared_bytes']} bytes of shared arrays; {architecture} "
            f"has {MOST_SHARED} for a block: use dynamic shared memory for more, an array of 0 "
            "elements, whose bytes the launch gives"
        )
    if metadata["argument_bytes"] > MOST_ARGUMENTS:
        raise CompileError(
            f"kernel {name} takes {metadata['argument_bytes']} bytes of arguments; {architecture} "
            f"takes {MOST_ARGUMENTS}: give it arrays"
        )
