"""The glossary names places that there are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/glossary.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| our term", "| ---"))
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_place_of_a_term_is_there(row: list[str]) -> None:
    term, others, meaning, place = row
    assert all((term, others, meaning))
    (path,) = re.findall("`([^`]+)`", place)
    assert (ROOT / path).exists(), f"{term}: {path}"


def test_no_term_stands_there_twice() -> None:
    terms = [row[0] for row in ROWS]
    assert len(terms) == len(set(terms))
