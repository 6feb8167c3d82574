"""Write the tables of the pages 'Coming from ...': `python scripts/make_coming_from.py`.

A table stands between the lines `<!-- table: NAME -->` and `<!-- end of table -->` of a page. Its
sources are the names of numba.cuda and numba.roc (tests/compat/surface.toml), what Haulage has
under them (the code), what is written on them (docs/names.md, docs/kernel-language.md), and what
Numba's own tests gave (tests/compat/counts.json, which `make test-compat ARGS=--record` writes).
"""

import importlib.util
import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from haulage import cuda, roc
from haulage.compat.modules import why_missing
from haulage.hook.answers import answer

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [DOCS / "coming-from-numba-cuda.md", DOCS / "coming-from-numba-roc.md"]
COMPAT = ROOT / "tests" / "compat"
VOCABULARIES = {"cuda": cuda, "roc": roc}
_TABLE = re.compile(r"(<!-- table: ([\w ]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


class Row(NamedTuple):
    """A row of docs/names.md: for which vocabularies, the name, what it is there and here."""

    vocabularies: tuple[str, ...]
    name: str
    numba: str
    haulage: str


def rendered(page: Path) -> str:
    """The text of a page with its tables as they should be."""

    def table(match: re.Match[str]) -> str:
        return match[1] + "\n" + TABLES[match[2]]() + "\n" + match[3]

    return _TABLE.sub(table, page.read_text(encoding="utf-8"))


def surface() -> dict[str, dict[str, Any]]:
    """The names and modules that programs import, by what they are of."""
    return tomllib.loads((COMPAT / "surface.toml").read_text(encoding="utf-8"))


def host_rows() -> list[Row]:
    """The rows of docs/names.md that are on names of the vocabularies, not of classes."""
    rows = []
    for line in (DOCS / "names.md").read_text(encoding="utf-8").splitlines():
        cells = line.strip().strip("|").split(" | ")
        if not line.startswith("| `") or line.startswith("| `.") or len(cells) != 3:
            continue
        text, numba, own = (cell.strip() for cell in cells)
        name = text.strip("`").partition("(")[0]
        of, _, short = name.rpartition(".")
        rows.append(Row((of,) if of else tuple(VOCABULARIES), short, numba, own))
    return rows


def word_rows() -> list[tuple[str, dict[str, list[str]], str]]:
    """The rows of docs/kernel-language.md: what, the words by vocabulary, the pages."""
    rows = []
    for line in (DOCS / "kernel-language.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and not line.startswith(("| what", "| ---")):
            what, in_cuda, in_roc, page = cells
            words = {"cuda": re.findall(r"`(\w+)", in_cuda), "roc": re.findall(r"`(\w+)", in_roc)}
            rows.append((what, words, page))
    return rows


def _known(vocabulary: str) -> set[str]:
    """The names of Numba's that this vocabulary stands for."""
    lists = surface()
    keys = ["roc"] if vocabulary == "roc" else ["numba", "numba-cuda"]
    return {name for key in keys for name in lists[key]["names"]}


def _rows(heading: str, rows: list[str]) -> str:
    columns = heading.count("|") + 1
    return "\n".join([f"| {heading} |", "|" + " --- |" * columns, *rows]) + "\n"


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def same(vocabulary: str) -> str:
    """The names for the host that are what they were."""
    return _names([row.name for row in _of(vocabulary) if row.haulage == "same"]) + "\n"


def differing(vocabulary: str) -> str:
    """The names for the host that do more, or something else."""
    return _rows(
        "name | Numba | Haulage",
        [
            f"| `{row.name}` | {row.numba} | {row.haulage} |"
            for row in _of(vocabulary)
            if row.haulage != "same" and not _is_refused(row)
        ],
    )


def _of(vocabulary: str) -> list[Row]:
    known = _known(vocabulary)
    return [row for row in host_rows() if vocabulary in row.vocabularies and row.name in known]


def _is_refused(row: Row) -> bool:
    return row.haulage.startswith("refused") or " is refused" in row.haulage


def words(vocabulary: str) -> str:
    """The words of kernels that Numba has, by subject."""
    known = _known(vocabulary)
    rows = []
    for what, of, page in word_rows():
        found = [word for word in of[vocabulary] if word in known]
        if found:
            rows.append(f"| {what} | {_names(found)} | {page} |")
    return _rows("what | words | page", rows)


def others(vocabulary: str) -> str:
    """The names that are in no other table: types, sizes of vectors, classes."""
    told = {row.name for row in host_rows()}
    told |= {word for _, of, _ in word_rows() for word in of[vocabulary]}
    return (
        _names(
            [
                name
                for name in sorted(_known(vocabulary) - told)
                if hasattr(VOCABULARIES[vocabulary], name)
                and not is_there(f"numba.{vocabulary}.{name}")
            ]
        )
        + "\n"
    )


def more(vocabulary: str) -> str:
    """The names that Haulage has besides."""
    known = _known(vocabulary)
    module = VOCABULARIES[vocabulary]
    return _names([name for name in module.__all__ if name not in known]) + "\n"


def absent(vocabulary: str) -> str:
    """The names and modules that are not there, each with the reason."""
    missing = [name for name in sorted(_known(vocabulary)) if not has(vocabulary, name)]
    paths = _modules(vocabulary, there=False)
    rows = [f"| `{vocabulary}.{name}` | {_reason(vocabulary, name)} |" for name in missing]
    rows += [
        f"| `{vocabulary}.{row.name}` | {row.haulage} |"
        for row in _of(vocabulary)
        if _is_refused(row)
    ]
    rows += [f"| module `{path}` | {_reason(vocabulary, path)} |" for path in paths]
    return _rows("name | why, and what to do", rows)


def has(vocabulary: str, name: str) -> bool:
    """Whether a program finds a name, or a module of that name."""
    return hasattr(VOCABULARIES[vocabulary], name) or is_there(f"numba.{vocabulary}.{name}")


def _reason(vocabulary: str, name: str) -> str:
    short = name.removeprefix(f"numba.{vocabulary}.")
    reason = why_missing(f"haulage.{vocabulary}.{short}")
    if reason:
        return reason
    table = f"src/haulage/{vocabulary}/_modules.py"
    raise ValueError(f"Haulage has no {name}, and {table} says not why")


def modules(vocabulary: str) -> str:
    """The modules that programs can import."""
    named = {f"numba.{vocabulary}.{name}" for name in _known(vocabulary)}
    paths = _modules(vocabulary, there=True)
    paths += [path for path in named.difference(paths) if is_there(path)]
    return _names(sorted(path.split(".", 2)[2] for path in paths)) + "\n"


def _modules(vocabulary: str, there: bool) -> list[str]:
    keys = ["roc"] if vocabulary == "roc" else ["numba", "numba-cuda"]
    lists = surface()
    paths = sorted(path for key in keys for path in lists[key]["modules"])
    return [path for path in paths if is_there(path) is there]


def is_there(path: str) -> bool:
    """Whether a module can be imported by one of Numba's names."""
    own = answer(path)
    try:
        return own is not None and importlib.util.find_spec(own) is not None
    except ModuleNotFoundError:
        return False


def run_of_tests() -> str:
    """What Numba's own tests gave: by folder, then the modules that do not pass whole."""
    run = json.loads((COMPAT / "counts.json").read_text(encoding="utf-8"))
    folders: dict[str, list[int]] = {}
    rows = []
    for name, counts in run["modules"].items():
        numbers = [
            counts["passed"],
            len(counts["failed"]),
            len(counts["skipped"]),
            counts["not applicable"],
        ]
        sums = folders.setdefault(name.partition(".")[0], [0] * 4)
        folders[name.partition(".")[0]] = [a + b for a, b in zip(sums, numbers, strict=True)]
        bad = sorted(counts["failed"] + counts["skipped"])
        rows += [f"| `{test}` |" for test in bad]
    total = [sum(column) for column in zip(*folders.values(), strict=True)]
    by_folder = _rows(
        f"Numba {run['numba']} | passed | failed | skipped | not applicable | passed of applicable",
        [_counted(f"`{name}`", of) for name, of in folders.items()] + [_counted("all", total)],
    )
    reasons = _rows(
        "not applicable because it | tests",
        [f"| {reason} | {number} |" for reason, number in run["not applicable"].items()],
    )
    text = by_folder + "\n" + reasons
    return text + ("\n" + _rows("applicable, and does not pass", rows) if rows else "")


def _counted(name: str, of: list[int]) -> str:
    applicable = sum(of[:3])
    share = f"{100 * of[0] / applicable:.1f} %" if applicable else ""
    return f"| {name} | " + " | ".join(map(str, of)) + f" | {share} |"


TABLES: dict[str, Callable[[], str]] = {
    f"{name} {vocabulary}": lambda make=make, vocabulary=vocabulary: make(vocabulary)
    for vocabulary in VOCABULARIES
    for name, make in (
        ("same", same),
        ("differing", differing),
        ("words", words),
        ("others", others),
        ("more", more),
        ("absent", absent),
        ("modules", modules),
    )
}
TABLES["tests"] = run_of_tests


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(rendered(page), encoding="utf-8")
    sys.exit(0)
