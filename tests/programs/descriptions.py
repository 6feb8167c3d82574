"""What is known of each program: one file of `catalogue/` tells it."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# Who is to blame for a test that cannot run, as the table says it.
WHOSE = {
    "program": "the program's own fault",
    "library": "needs a library that needs an NVIDIA GPU",
    "extra": "tests what is not of numba.cuda and was left out of the installation",
    "gpu": "is a test for machines without a GPU, or of NVIDIA's hardware",
}

# Where the tests of a program come from, and how the table calls them.
SOURCES = {
    "sdist": "its own tests, from its source archive",
    "package": "its own tests, which it installs",
    "example": "its own examples",
    "comparison": "its GPU functions against its own for the CPU",
    "laws": "what its models have to keep",
}


class CatalogueError(Exception):
    """A file of the catalogue, or a name asked for, is not right."""


@dataclass(frozen=True)
class Known:
    """Tests that cannot pass, by a pattern with `*`, whose fault it is, and the evidence."""

    test: str
    whose: str
    reason: str

    def fits(self, test: str) -> bool:
        return bool(re.fullmatch(re.escape(self.test).replace(r"\*", ".*"), test))


@dataclass(frozen=True)
class Program:
    """A program of the package index and what of it is run.

    `requirement` has a fixed version, `extras` are requirements of its tests, `pytest` are the
    arguments of pytest, `limit` is in seconds. With `alone` it is installed without what it
    requires, and `extras` has all of it. `simulator` is false where Numba's simulator cannot
    run it, with `simulator_reason`.
    """

    name: str
    requirement: str
    kind: str
    about: str
    source: str
    pytest: tuple[str, ...]
    extras: tuple[str, ...] = ()
    alone: bool = False
    limit: int = 900
    simulator: bool = True
    simulator_reason: str = ""
    known: tuple[Known, ...] = ()

    @property
    def version(self) -> str:
        return self.requirement.partition("==")[2]

    @property
    def what_runs(self) -> str:
        return SOURCES[self.source]


def catalogue() -> list[Program]:
    """All programs, by name."""
    return [_read(path) for path in sorted((HERE / "catalogue").glob("*.toml"))]


def chosen(names: Sequence[str]) -> list[Program]:
    """The programs of these names; all, where there are none."""
    every = {program.name: program for program in catalogue()}
    unknown = [name for name in names if name not in every]
    if unknown:
        raise CatalogueError(f"no program {', '.join(unknown)}; there are: {', '.join(every)}")
    return [every[name] for name in names or every]


def _read(path: Path) -> Program:
    fields = tomllib.loads(path.read_text(encoding="utf-8"))
    try:
        known = tuple(Known(**entry) for entry in fields.pop("known", ()))
        lists = {name: tuple(fields.pop(name, ())) for name in ("pytest", "extras")}
        program = Program(name=path.stem, known=known, **lists, **fields)
    except TypeError as error:
        raise CatalogueError(f"{path.name}: {error}") from error
    if not program.version:
        raise CatalogueError(f"{path.name}: requirement = {program.requirement!r} fixes no version")
    if program.source not in SOURCES:
        raise CatalogueError(f"{path.name}: source is none of {', '.join(SOURCES)}")
    if program.simulator == bool(program.simulator_reason):
        raise CatalogueError(f"{path.name}: simulator_reason goes with simulator = false")
    for entry in known:
        if entry.whose not in WHOSE:
            raise CatalogueError(f"{path.name}: whose is none of {', '.join(WHOSE)}")
    return program
