"""The names of the checks: importing this imports no compiler."""

from collections.abc import Iterable

from haulage.checking.findings import KINDS, LINTS
from haulage.compiler.checks.counters import COVERAGE
from haulage.spelling import did_you_mean

# What can be checked: the names that `--only` takes, and which kinds of findings each makes.
MAKES = {
    "bounds": {"bounds", "freed", "address"},
    "race": {"race"},
    "init": {"uninitialized"},
    "barrier": {"barrier"},
    "stream": {"stream"},
    "memory": {"bounds", "freed", "address", "leak"},
    "lint": set(LINTS),
}
CHECKS = tuple(MAKES)
# Those that are made unless others are named.
USUAL = tuple(each for each in CHECKS if each != "lint")

# Other names for them: those of compute-sanitizer's tools, and the kinds of findings.
ALSO = {
    "memcheck": ("bounds", "memory"),
    "racecheck": ("race",),
    "initcheck": ("init",),
    "synccheck": ("barrier",),
    "streamcheck": ("stream",),
    "uninitialized": ("init",),
    "leak": ("memory",),
    "freed": ("memory",),
    "address": ("bounds", "memory"),
    **dict.fromkeys(LINTS, ("lint",)),
}


def checks_of(names: str | Iterable[str], *, counts: bool = False) -> frozenset[str]:
    """The checks that are named: a name, several with commas between them, or an iterable of them.
    `counts`: whether `COVERAGE` may be one.

    Raises:
        ValueError: one is no name of a check, or there is none.
        TypeError: one is no string.
    """
    given = [names] if isinstance(names, str) else list(names)
    for each in given:
        if not isinstance(each, str):
            raise TypeError(f"expected names of checks, as 'race', and not {each!r}")
    others = (*ALSO, COVERAGE) if counts else (*ALSO,)
    words = [word.strip() for each in given for word in each.split(",")]
    found: set[str] = set()
    for word in words:
        if word not in MAKES and word not in others:
            meant = did_you_mean(word, [*CHECKS, *others])
            raise ValueError(
                f"there is no check {word!r}{meant or '; expected some of ' + ','.join(CHECKS)}"
            )
        found.update(ALSO.get(word, (word,)))
    if not found:
        raise ValueError(f"no check is named; expected some of {','.join(CHECKS)}")
    return frozenset(found)


assert {kind for makes in MAKES.values() for kind in makes} <= KINDS.keys()
