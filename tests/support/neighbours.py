"""The packages beside which Haulage is tested: those of tests/neighbours/requirements.txt."""

import importlib
import importlib.metadata
import json
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest

LISTS = Path(__file__).parents[1] / "neighbours"


def neighbour(module: str, package: str | None = None) -> ModuleType:
    """`module`, imported; where its package is not installed, what calls this is skipped.

    Args:
        package: the name in requirements.txt, if it is another than that of the module.
    """
    name = module.partition(".")[0]
    try:
        # What a package warns of when it is imported is its own affair.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != name:
            raise
    reason = lacking().get(package or name)
    why = f": {reason}" if reason else "; make test-neighbours installs it"
    pytest.skip(f"{package or name} is not installed{why}", allow_module_level=True)


def lacking() -> dict[str, str]:
    """The packages that could not be installed in this environment, each with pip's reason."""
    noted = Path(sys.prefix) / "neighbours.json"
    if not noted.exists():
        return {}
    return {_name(each): reason for each, reason in json.loads(noted.read_text()).items()}


def versions() -> dict[str, str | None]:
    """Name to version of each package of requirements.txt; None for one that is not installed."""
    found: dict[str, str | None] = {}
    for file in sorted(LISTS.glob("*.txt")):
        for line in file.read_text(encoding="utf-8").splitlines():
            if line[:1].isalpha():
                name = _name(line)
                try:
                    found[name] = importlib.metadata.version(name)
                except importlib.metadata.PackageNotFoundError:
                    found[name] = None
    return dict(sorted(found.items()))


def _name(requirement: str) -> str:
    matched = re.match(r"[\w.-]+", requirement)
    assert matched is not None, requirement
    return matched.group()
