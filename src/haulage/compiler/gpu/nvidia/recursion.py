"""Functions of PTX that call themselves: how deep a thread's stack gets, no assembler can tell."""

import re

# A function's head, with what it returns before its name; declarations have one as well.
_HEAD = re.compile(r"(?m)^(?:\.\w+ +)*\.(?:func|entry)\s+(?:\([^)]*\)\s*)?([\w$]+)")
_CALL = re.compile(r"\bcall(?:\.uni)?\s+(?:\([^)]*\)\s*,\s*)?([\w$]+)")


def is_recursive(asm: str) -> bool:
    """Whether a function of a module's text calls itself, be it by way of others."""
    if ".func" not in asm:
        return False
    heads = list(_HEAD.finditer(asm))
    ends = [head.start() for head in heads[1:]] + [len(asm)]
    calls: dict[str, set[str]] = {}
    for head, end in zip(heads, ends, strict=True):
        found = _CALL.findall(asm, head.end(), end)
        calls.setdefault(head[1], set()).update(found)
    return any(name in _reached(name, calls) for name in calls)


def _reached(name: str, calls: dict[str, set[str]]) -> set[str]:
    """All that a function calls, and what is called there."""
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        new = calls.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached
