"""Calls of mathematics under the names that a target's library has them by."""

import re

from haulage.targets import nvidia_math

_CALL = re.compile(r"@([\w.]+)(?=\()")
_DECLARED = re.compile(r"(?m)^declare [^@\n]*@([\w.]+)\(.*\n")
_REMAINDER = re.compile(
    r"(?m)^(?P<before> .*= )frem (?:[a-z]+ )*(?P<type>float|double) (?P<x>[^\s,]+), (?P<y>[^\s,]+)"
)


def with_libdevice(text: str, names: dict[str, str]) -> str:
    """A module's text in which what `names` has is called by its other name, and remainders are
    calls too."""
    text = _CALL.sub(lambda found: "@" + names.get(found[1], found[1]), text)
    text, count = _REMAINDER.subn(_remainder, text)
    if count:
        declared = "".join(
            f"\ndeclare {kind} @{name}({kind}, {kind})\n"
            for kind, name in nvidia_math.REMAINDERS.items()
            if f"@{name}(" in text
        )
        text += declared
    # Two names may have become one.
    seen: set[str] = set()

    def once(found: re.Match[str]) -> str:
        if found[1] in seen:
            return ""
        seen.add(found[1])
        return found[0]

    return _DECLARED.sub(once, text)


def _remainder(found: re.Match[str]) -> str:
    kind, x, y = found["type"], found["x"], found["y"]
    return f"{found['before']}call {kind} @{nvidia_math.REMAINDERS[kind]}({kind} {x}, {kind} {y})"
