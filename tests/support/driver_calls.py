"""The calls of a driver (`haulage.backends.gpu_driver.calls`) that stand in the back ends' text."""

import ast
from collections.abc import Iterator
from pathlib import Path

import haulage

BACKENDS = Path(haulage.__file__).parent / "backends"
# What makes a call by its name, and how many arguments it is given before that.
_MAKES = {"_calls": 0, "calls": 0, "ask": 0, "self": 0, "taken": 3}


def files_of(maker: str) -> list[Path]:
    """The files of one maker's back end, and those that all share."""
    folders = (BACKENDS / f"{maker}_driver", BACKENDS / "gpu_driver")
    found = [file for folder in folders for file in sorted(folder.glob("*.py"))]
    return [BACKENDS / f"{maker}.py", *found]


def trees_of(maker: str) -> list[tuple[str, ast.Module]]:
    """(name, syntax tree) of those files."""
    return [(file.name, ast.parse(file.read_text())) for file in files_of(maker)]


def calls_by_name(trees: list[tuple[str, ast.Module]]) -> list[tuple[str, int, str]]:
    """(name of a call, how many arguments it is given, file), sorted; calls whose arguments are not
    all there in the text are left out."""
    return sorted(set(_calls(trees)))


def _calls(trees: list[tuple[str, ast.Module]]) -> Iterator[tuple[str, int, str]]:
    for file, tree in trees:
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            before = _MAKES.get(getattr(node.func, "attr", getattr(node.func, "id", "")))
            if before is None or len(node.args) <= before:
                continue
            name = node.args[before]
            is_whole = not any(isinstance(each, ast.Starred) for each in node.args)
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and is_whole:
                yield name.value, len(node.args) - before - 1, file
