"""Tests of devices that hold on the processor only: `not_on_gpus.toml` says which, and why."""

import functools
import tomllib
from pathlib import Path

_TABLE = Path(__file__).with_suffix(".toml")


@functools.cache
def _reasons() -> dict[str, list[tuple[str, list[str], list[str]]]]:
    """Test, as `room/test_file.py::name`, all of such a file, or all of a folder, `room/` -> for
    each group (why it does not hold, the kinds of devices that are meant, the stand-ins whose fault
    that is)."""
    found: dict[str, list[tuple[str, list[str], list[str]]]] = {}
    for group in tomllib.loads(_TABLE.read_text())["group"]:
        for test in group["tests"]:
            entry = group["why"], group.get("kinds", []), group.get("doubles", [])
            found.setdefault(test, []).append(entry)
    return found


def reason(file: str, name: str, *, kind: str, double: str | None) -> str | None:
    """Why a test does not hold on a GPU, None if it does.

    Args:
        file: the path of the test's file below tests/device.
        name: that of the test, with its parameters in brackets.
        kind: the kind of the device, "ptx", "nvidia", "amd" or "opencl".
        double: which stand-in for a GPU it is, "ptx", "nvidia" or "amd"; None: it is none.
    """
    plain = name.partition("[")[0]
    known = _reasons()
    folders = [f"{folder.as_posix()}/" for folder in Path(file).parents]
    for named in (f"{file}::{name}", f"{file}::{plain}", file, *folders):
        for why, kinds, faulty in known.get(named, ()):
            if (not kinds or kind in kinds) and (not faulty or double in faulty):
                return why
    return None


def tests() -> list[str]:
    """All tests, and files of tests, that are named."""
    return list(_reasons())
