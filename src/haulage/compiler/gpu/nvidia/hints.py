"""Loads and stores with hints for the caches whose addresses are the device's memory say so.

The hardware then need not find out which memory a generic address is of.
"""

import re

from haulage.compiler.gpu.accesses import Accesses
from haulage.compiler.simt.ir import reader
from haulage.compiler.simt.ir.model import Operand

_HINTED = re.compile(
    r'(?m)^(?P<start>  [^"\n]*\bcall \w+ asm (?:sideeffect )?")(?P<word>ld|st)'
    r'(?P<how>\.(?:ca|cg|cs|lu|cv|wb|wt)\.b\d+ [^"]*", "[^"]*"\()'
    r"ptr (?:\w+(?:\(\d+\))? )*(?P<place>%[-\w.$]+)"
)


def with_places(text: str, name: str) -> str:
    """A module's text in which the kernel `name` says so where all its arguments are outside."""
    if " asm " not in text or not _HINTED.search(text):
        return text
    accesses = Accesses(reader.read(text, name), text)
    function = "\n".join(reader.definition(text, name))
    made = 0

    def placed(found: re.Match[str]) -> str:
        nonlocal made
        roots = accesses.roots_of(Operand("ptr", found["place"]))
        if not roots or not roots <= accesses.parameters:
            return found[0]
        made += 1
        address = f"%hinted.{made}"
        cast = f"  {address} = addrspacecast ptr {found['place']} to ptr addrspace(1)\n"
        call = f"{found['start']}{found['word']}.global{found['how']}ptr addrspace(1) {address}"
        return cast + call

    return text.replace(function, _HINTED.sub(placed, function))
