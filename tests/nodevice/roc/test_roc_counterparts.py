"""Each test of numba.roc's has a counterpart here, or a reason why it has none: the table is whole,
and the tests that it names are there."""

import ast
import tomllib
from pathlib import Path

import pytest

_HERE = Path(__file__)
_TABLE = tomllib.loads(_HERE.with_name("roc_counterparts.toml").read_text(encoding="utf-8"))
_NONE = _TABLE.pop("none")


def rows(part):
    return [
        (f"{file}.{name}", ours)
        for file, tests in _TABLE[part].items()
        for name, ours in tests.items()
    ]


def test_all_tests_of_numba_roc_are_in_the_table():
    assert set(_TABLE) == {"hsapy", "hsadrv"}
    assert (len(rows("hsapy")), len(rows("hsadrv"))) == (92, 23)
    assert all(ours for _, ours in rows("hsapy"))
    without = {name.partition(".")[2] for name, ours in rows("hsadrv") if not ours}
    assert without == set(_NONE)


@pytest.mark.parametrize(
    "file", sorted({ours.partition("::")[0] for part in _TABLE for _, ours in rows(part) if ours})
)
def test_the_counterparts_are_there(file):
    tree = ast.parse((_HERE.parents[2] / file).read_text(encoding="utf-8"))
    there = {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
    named = {
        ours.partition("::")[2]
        for part in _TABLE
        for _, ours in rows(part)
        if ours.startswith(file + "::")
    }
    assert named
    assert {name for name in named if not name.startswith("test_")} == set()
    assert named - there == set()
