"""Check that imports inside Haulage point down only: `python scripts/check_layers.py [PACKAGE]`.

Each room (a file or a folder directly under `src/haulage`) may import itself and the rooms of the
lines below it. Imports inside functions and under `TYPE_CHECKING` count like all others.
Numba may be imported in few places only, so that a new Numba breaks few places only.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "haulage"
ROOT = Path(__file__).resolve().parent.parent / "src" / PACKAGE

# From the top of the house to its ground; rooms of one line do not import each other.
ORDER: list[set[str]] = [
    {"__main__"},
    {"__init__"},
    {"cli", "pytest_plugin"},
    {"hip"},
    {"hook"},
    {"cuda", "roc"},
    {"compat"},
    {"lib"},
    {"smart"},
    {"api"},
    {"advising"},
    {"memory", "tracing"},
    {"kernel"},
    {"platforms"},
    {"runtime"},
    {"compiler"},
    {"lang"},
    {"targets"},
    {"backends"},
    {"numba_bridge", "numba_smart", "disk_cache"},
    {"tracebacks"},
    {"config"},
    {"checks", "errors", "extras", "forks", "spelling"},
]
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}

# Where each heavy package may be imported, as beginnings of paths below the package's folder.
ONLY_IN = {
    "numba": (
        "compiler/frontend",
        "lang/",
        "numba_bridge.py",
        "numba_smart.py",
        "cuda/testing.py",
    ),
    "llvmlite": ("compiler/", "lang/", "targets/", "numba_bridge.py", "backends/cpu_driver/"),
}


def check(root: Path = ROOT) -> list[str]:
    """Every import below `root` (the folder of a package) that breaks the order, one line each."""
    problems = []
    for file in sorted(root.rglob("*.py")):
        path = file.relative_to(root)
        room = path.parts[0].removesuffix(".py")
        if room not in LEVEL:
            problems.append(f"{path}: the room {room!r} has no place in ORDER")
            continue
        for line, module in _imports(file, root):
            top = module.split(".")[0]
            if top == PACKAGE:
                problem = _against_order(room, _room_of(module))
            else:
                problem = _out_of_place(path.as_posix(), top)
            if problem:
                problems.append(f"{path}:{line}: {problem}")
    return problems


def _against_order(room: str, target: str) -> str | None:
    if target not in LEVEL:
        return f"imports {target!r}, which has no place in ORDER"
    if target == room or LEVEL[target] > LEVEL[room]:
        return None
    return f"{room} must not import {target}, which does not stand below it"


def _out_of_place(path: str, top: str) -> str | None:
    places = ONLY_IN.get(top)
    if places is None or path.startswith(places):
        return None
    return f"{top} may be imported in {', '.join(places)} only"


def _room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def _imports(file: Path, root: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of each import in `file`; the names of a from-import that are rooms or
    files of the package count as modules, all others as names of the module they come from."""
    here = [PACKAGE, *file.relative_to(root).parts[:-1]]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                # The version needs nothing of the house, and the package is there before its rooms.
                if (module, alias.name) != (PACKAGE, "__version__"):
                    yield node.lineno, _module_of(module, alias.name, root)
        elif isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else None
            called = node.func.id if isinstance(node.func, ast.Name) else called
            first = node.args[0]
            if (
                called in ("import_module", "__import__")
                and isinstance(first, ast.Constant)
                and isinstance(first.value, str)
            ):
                yield node.lineno, first.value


def _module_of(module: str, name: str, root: Path) -> str:
    if module == PACKAGE and (name in LEVEL or (root / name).is_dir()):
        return f"{module}.{name}"
    return module


def main(arguments: list[str]) -> int:
    """Print what is wrong; 1 if anything is."""
    problems = check(Path(arguments[0])) if arguments else check()
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} imports against the order; it stands in {Path(__file__).name}")
        return 1
    print("imports point down only")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
