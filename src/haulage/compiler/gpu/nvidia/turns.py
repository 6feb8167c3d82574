"""Loops in PTX that the assembler is not to unroll, as a turn of them has loads enough.

LLVM unrolls a loop first, up to eight turns. The assembler would make four turns of each such one:
with thirty loads under way a thread takes so many registers that fewer threads find room, and the
code is three times as long.
"""

import re

# Loads in a turn that hide each other's latency.
_ENOUGH = 8
# A block that ends with a branch to itself.
_TURN = re.compile(
    r"(?m)^(?P<label>\$L__BB\w+):[^\n]*\n(?P<body>(?:[ \t][^\n]*\n)*?)"
    r"(?=\t(?:@!?%p\d+ bra|bra\.uni) \t?(?P=label);)"
)
_LOAD = re.compile(r"\tld\.global\.(?:\w+\.)*?(?:v(\d)\.)?[bfsu]\d+ ")
_NOT_UNROLLED = '\t.pragma "nounroll";\n'


def with_few_turns(asm: str) -> str:
    """A PTX text in which such loops are marked."""
    return _TURN.sub(_marked, asm) if "ld.global" in asm else asm


def _marked(found: re.Match[str]) -> str:
    body = found["body"]
    loads = sum(int(width or 1) for width in _LOAD.findall(body))
    if loads < _ENOUGH or "\tbarrier." in body or _NOT_UNROLLED in body:
        return found[0]
    head = found[0][: len(found[0]) - len(body)]
    return head + _NOT_UNROLLED + body
