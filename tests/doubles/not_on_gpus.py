"""Tests of devices that hold on the processor only: `not_on_gpus.toml` says which, and why."""

import functools
import tomllib
from pathlib import Path

_TABLE = Path(__file__).with_suffix(".toml")


@functools.cache
def _reasons() -> dict[str, tuple[str, list[str], list[str]]]:
    """Test, as `room/test_file.py::name`, or all of such a file -> (why it does not hold, the kinds
    of devices that are meant, the stand-ins whose fault that is)."""
    found = {}
    for group in tomllib.loads(_TABLE.read_text())["group"]:
        for test in group["tests"]:
            assert test not in found, test
            found[test] = group["why"], group.get("kinds", []), group.get("doubles", [])
    return found


def reason(file: str, name: str, *, kind: str, double: str | None) -> str | None:
    """Why a test does not hold on a GPU, None if it does.

    Args:
        file: the path of the test's file below tests/device.
        name: that of the test, with its parameters in brackets.
        kind: the kind of the device, "ptx", "nvidia" or "amd".
        double: which stand-in for a GPU it is, "ptx", "nvidia" or "amd"; None: it is none.
    """
    plain = name.partition("[")[0]
    known = _reasons()
    why, kinds, faulty = known.get(f"{file}::{plain}", known.get(file, ("", [], [])))
    if (kinds and kind not in kinds) or (faulty and double not in faulty):
        return None
    return why or None


def tests() -> list[str]:
    """All tests, and files of tests, that are named."""
    return list(_reasons())
