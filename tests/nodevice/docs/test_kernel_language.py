"""The index of the kernels' words in `docs/kernel-language.md`."""

import re
from pathlib import Path

import pytest

from haulage import cuda, roc
from haulage.lang.word import Namespace, Register, Register3, Word

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "kernel-language.md").read_text(encoding="utf-8")
VOCABULARIES = {"cuda": (cuda, 1), "roc": (roc, 2)}


def listed(column):
    """The words that a column of the table names."""
    rows = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| ")]
    return {
        word.partition("(")[0] for row in rows[1:] for word in re.findall(r"`([^`]+)`", row[column])
    }


def words(module):
    """The kernels' words of a vocabulary; of short vectors those of four elements."""
    kinds = Namespace | Register | Register3 | Word
    names = {n for n in module.__all__ if isinstance(getattr(module, n), kinds)}
    fewer = {n for n in names if n[-1] in "123" and f"{n[:-1]}4" in names}
    return (names - fewer) | {n for n in module.__all__ if n.startswith("CLK_")}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_each_word_of_a_vocabulary_is_in_the_index(vocabulary):
    module, column = VOCABULARIES[vocabulary]
    assert words(module) - listed(column) == set()


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_each_word_of_the_index_is_there(vocabulary):
    module, column = VOCABULARIES[vocabulary]
    assert [name for name in sorted(listed(column)) if not hasattr(module, name)] == []


def test_the_pages_that_pages_name_are_there():
    for page in DOCS.glob("*.md"):
        named = re.findall(r"\]\(([\w./-]+\.(?:md|jpg|png))\)", page.read_text(encoding="utf-8"))
        assert [name for name in named if not (DOCS / name).exists()] == [], page.name
