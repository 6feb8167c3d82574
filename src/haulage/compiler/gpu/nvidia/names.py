"""Calls of mathematics under libdevice's names for them; remainders are calls too."""

import re

from haulage.compiler.gpu.names import declared_once, renamed
from haulage.targets import nvidia_math

_REMAINDER = re.compile(
    r"(?m)^(?P<before> .*= )frem (?:[a-z]+ )*(?P<type>float|double) (?P<x>[^\s,]+), (?P<y>[^\s,]+)"
)


def with_libdevice(text: str, names: dict[str, str]) -> str:
    """A module's text in which what `names` has is called by its other name, and remainders are
    calls too."""
    text = renamed(text, names)
    if "frem " not in text:
        return text
    text = _REMAINDER.sub(_remainder, text)
    declared = "".join(
        f"\ndeclare {kind} @{name}({kind}, {kind})\n"
        for kind, name in nvidia_math.REMAINDERS.items()
        if f"@{name}(" in text
    )
    return declared_once(text + declared)


def _remainder(found: re.Match[str]) -> str:
    kind, x, y = found["type"], found["x"], found["y"]
    return f"{found['before']}call {kind} @{nvidia_math.REMAINDERS[kind]}({kind} {x}, {kind} {y})"
