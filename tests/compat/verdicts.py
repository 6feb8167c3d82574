"""What Numba's tests are held to: which are not applicable, and which have passed before."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from processes import Outcome

HERE = Path(__file__).parent
NOT_APPLICABLE = HERE / "not_applicable.toml"
PASSING = HERE / "passing.txt"
# The counts of the recorded run, for docs/.
COUNTS = HERE / "counts.json"


def not_applicable() -> dict[str, str]:
    """{name of a test function: the reason why it is not applicable}."""
    with NOT_APPLICABLE.open("rb") as file:
        reasons = tomllib.load(file)
    return {name: section["reason"] for section in reasons.values() for name in section["tests"]}


def own_tests() -> dict[str, str]:
    """{name of a superseded test function: our own test of what Haulage does instead}."""
    with NOT_APPLICABLE.open("rb") as file:
        tests: dict[str, str] = tomllib.load(file)["superseded"]["tests"]
    return tests


def recorded() -> set[str]:
    """The test functions that are recorded as passing."""
    lines = PASSING.read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def record(names: Iterable[str], numba: str) -> None:
    """Write the record: these test functions pass."""
    head = (
        f"# Test functions of Numba {numba} that pass on the CPU device. Written by\n"
        "# `make test-compat ARGS=--record`; `make test-compat` fails where one of them fails.\n"
    )
    PASSING.write_text(head + "".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")


@dataclass
class Count:
    """Test functions by what became of them."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    not_applicable: list[str] = field(default_factory=list)

    @property
    def applicable(self) -> int:
        return len(self.passed) + len(self.failed) + len(self.skipped)

    @property
    def total(self) -> int:
        return self.applicable + len(self.not_applicable)

    @property
    def share(self) -> float | None:
        """The part of the applicable ones that passed, in percent."""
        return 100 * len(self.passed) / self.applicable if self.applicable else None


def count(outcomes: Mapping[str, Outcome], excused: Mapping[str, str]) -> dict[str, Count]:
    """What became of the tests of each module.

    A test that is not applicable is counted as such whatever it does. One that skips itself, and
    is not listed as not applicable, is applicable and has not passed.
    """
    counts: dict[str, Count] = {}
    for name, outcome in outcomes.items():
        of = counts.setdefault(outcome.module, Count())
        if name in excused:
            of.not_applicable.append(name)
        elif outcome.end == "passed":
            of.passed.append(name)
        elif outcome.end == "skipped":
            of.skipped.append(name)
        else:
            of.failed.append(name)
    return dict(sorted(counts.items()))


def together(counts: Iterable[Count]) -> Count:
    """The sum of several."""
    total = Count()
    for of in counts:
        total.passed += of.passed
        total.failed += of.failed
        total.skipped += of.skipped
        total.not_applicable += of.not_applicable
    return total
