"""PTX in which atomic changes whose old value nobody reads are reductions, `red`.

The thread then waits for no answer. LLVM's code generator always asks for the old value.
"""

import re
from collections import Counter

# Operations that `red` has; the others, an exchange and a comparison, are asked for their answer.
_ATOM = re.compile(
    r"\batom(?P<how>(?:\.\w+)*\.(?:add|and|or|xor|min|max|inc|dec)(?:\.\w+)*)\s+"
    r"(?P<old>%\w+), (?P<rest>\[)"
)
_REGISTER = re.compile(r"%\w+")
_FUNCTION = re.compile(r"(?ms)^\{$.*?^\}$")


def with_reductions(asm: str) -> str:
    """A PTX text with `red` in place of `atom` where its register is not read."""
    has_any = "atom." in asm and _ATOM.search(asm)
    return _FUNCTION.sub(_reduced, asm) if has_any else asm


def _reduced(function: re.Match[str]) -> str:
    # Each register is written once, so one that is named once is not read.
    named = Counter(_REGISTER.findall(function[0]))

    def one(found: re.Match[str]) -> str:
        return found[0] if named[found["old"]] > 1 else f"red{found['how']} \t{found['rest']}"

    return _ATOM.sub(one, function[0])
