"""The walks through the code in the design: the files that they name are there, are few, and are
those that a value passes."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage._core.copies import SMALL
from haulage.runtime.buffers.copy import Copy

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = Path(haulage.__file__).parent
PAGE = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
WALKS = {
    "up": "### `to_device`, from the call to the copy",
    "down": "### `copy_to_host`, from the call to the copy",
    "launch": "### A launch, from the call to the driver",
}


def named(title):
    """The files that a walk names, below the package."""
    steps = re.split(r"\n##+ ", PAGE.split(title, 1)[1])[0]
    return re.findall(r"^\d+\. `([\w/]+\.pyx?)`", steps, re.MULTILINE)


def passed(value, call):
    """The files in which a function of Python's takes `value`, or a copy of it to be made."""
    found = set()

    def is_it(given):
        if isinstance(given, tuple):
            return any(each is value for each in given)
        return given is value or isinstance(given, Copy)

    def look(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            taken = code.co_varnames[: code.co_argcount + bool(code.co_flags & 4)]
            if any(is_it(frame.f_locals.get(name)) for name in taken if name != "self"):
                found.add(str(Path(code.co_filename).relative_to(PACKAGE)))

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("title", WALKS.values())
def test_the_files_of_a_walk_are_there_and_few(title):
    files = named(title)
    assert 1 < len(files) <= 8
    assert [file for file in files if not (PACKAGE / file).is_file()] == []


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


@pytest.mark.parametrize("way", WALKS)
def test_a_walk_names_the_files_that_a_value_passes(way):
    with haulage.use("cpu"):
        # Small ones without gaps are copied by `_core/copies.pyx`, and nothing else.
        for value in (np.zeros(SMALL), np.zeros((2, SMALL)).T, np.arange(500_000)[::2]):
            there, back = cuda.to_device(value), np.empty_like(value)
            calls = {
                "up": (value, lambda value=value: cuda.to_device(value)),
                "down": (back, lambda there=there, back=back: there.copy_to_host(back)),
                "launch": (there, lambda there=there: double[8, 128](there)),
            }
            # The second launch has a plan, and passes compiled code only.
            found = passed(*calls[way]) | passed(*calls[way])
            assert found
            steps = found - set(named(WALKS[way]))
            assert {step for step in steps if not step.startswith("runtime/geometry/")} == set()
