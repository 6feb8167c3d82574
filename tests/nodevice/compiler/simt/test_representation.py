"""Passes work on instructions as objects: nothing outside of `ir/` reads them from text."""

import re
from pathlib import Path

import haulage.compiler.simt

SIMT = Path(haulage.compiler.simt.__file__).parent

# Regular expressions that match something else than instructions.
ELSEWHERE = {
    "analysis/kernel.py": "global variables, shared arrays, of a module's text",
    "emit/block_function.py": "numbers of the metadata nodes of a module's text",
    "loops/block_coalescing.py": "the functions of a module's text that were not inlined",
}


def _sources():
    for path in sorted(SIMT.rglob("*.py")):
        name = path.relative_to(SIMT).as_posix()
        if not name.startswith("ir/"):
            yield name, path.read_text(encoding="utf-8")


def test_no_regular_expression_matches_instructions():
    found = {name for name, text in _sources() if re.search(r"(?m)^import re$", text)}
    assert found == ELSEWHERE.keys()


def test_no_pass_takes_the_text_of_an_instruction_apart():
    apart = r"\b(?:item|end|phi|instruction|terminator)\.text\.(?:split|find|partition|startswith)"
    found = [f"{name}: {line}" for name, text in _sources() for line in re.findall(apart, text)]
    assert found == []


def test_nothing_but_the_reader_makes_instructions_of_text():
    users = [name for name, text in _sources() if "read_instruction" in text]
    assert users == []
