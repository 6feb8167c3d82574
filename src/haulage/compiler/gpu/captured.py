"""Arrays of the device that a kernel captures: their addresses are numbers in the code."""

import re

_NUMBER = re.compile(r"\bptr inttoptr \((i64 -?\d+) to ptr\)")


def with_global_addresses(text: str) -> str:
    """A module's text in which addresses that are numbers are known to be of global memory."""
    return _NUMBER.sub(
        r"ptr addrspacecast (ptr addrspace(1) inttoptr (\1 to ptr addrspace(1)) to ptr)", text
    )
