"""Calls of mathematics under the names that a target's library has them by."""

import re
from collections.abc import Mapping

_CALL = re.compile(r"@([\w.]+)(?=\()")
_DECLARED = re.compile(r"(?m)^declare [^@\n]*@([\w.]+)\(.*\n")


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A module's text in which what `names` has is called, and declared, by its other name."""
    if names.keys().isdisjoint(_CALL.findall(text)):
        return declared_once(text)
    return declared_once(_CALL.sub(lambda found: "@" + names.get(found[1], found[1]), text))


def declared_once(text: str) -> str:
    """A module's text without declarations of what is declared before."""
    seen: set[str] = set()

    def once(found: re.Match[str]) -> str:
        if found[1] in seen:
            return ""
        seen.add(found[1])
        return found[0]

    return _DECLARED.sub(once, text)
