"""Tests of devices that `pytest --haulage-check` does not check: `not_checked.toml` says which."""

import functools
import tomllib
from pathlib import Path

_TABLE = Path(__file__).with_suffix(".toml")


@functools.cache
def tests() -> dict[str, str]:
    """Test, as `room/test_file.py::name`, or all of such a file -> why it is not checked."""
    groups = tomllib.loads(_TABLE.read_text())["group"]
    found = {test: group["why"] for group in groups for test in group["tests"]}
    assert len(found) == sum(len(group["tests"]) for group in groups)
    return found


def holds(file: str, name: str) -> bool:
    """Whether a test is among them.

    Args:
        file: the path of the test's file below tests/device.
        name: that of the test, with its parameters in brackets.
    """
    return file in tests() or f"{file}::{name.partition('[')[0]}" in tests()
