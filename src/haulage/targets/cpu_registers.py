"""The registers of a core that assembly names."""

import re

_X86 = re.compile(
    r"%(?:(?P<numbered>r\d+)[dwb]?|[re]?(?P<letter>[abcd])[xlh]|[re]?(?P<pointer>[sd]i|[sb]p)l?"
    r"|[xyz](?P<vector>mm\d+)|(?P<mask>k[0-7]))\b"
)
# Words and halves of a register, and the widths of a vector register.
_AARCH64 = re.compile(r"\b(?:[xw](?P<general>\d+)|[bhsdqvz](?P<vector>\d+))\b")


def registers(asm: str, machine: str) -> int:
    """How many registers the text names, each once whatever part of it is named.

    Args:
        asm: assembly text, for x86 in AT&T's form.
        machine: what the target's triple begins with, `x86_64` or `aarch64`.
    """
    pattern = _AARCH64 if machine in ("aarch64", "arm64") else _X86
    return len({(found.lastgroup, found[found.lastgroup or 0]) for found in pattern.finditer(asm)})
