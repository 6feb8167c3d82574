"""Check how Haulage's modules import each other: `python scripts/check_layers.py [PACKAGE]`.

Each room may import itself and the rooms of the lines below it in `ORDER`. A room is a file or a
folder directly under `src/haulage`, or one directly under `runtime`, which has floors of its own.
Files of Cython count, too, with their `cimport`.
Imports inside functions count like all others, and so do the modules that a table of names
(`_modules.py`) names. In the rooms of `NO_LATE_IMPORTS` an import inside a function has to stand in
`LATE`, too, with the reason. No modules of `runtime` import each other in a circle. Numba may be
imported in few places only, so that a new Numba breaks few places only. Nor is there text in LLVM's
IR outside of `WITH_IR`, where kernels are compiled: what the host does for itself is C.

Imports under `TYPE_CHECKING` count between rooms, but not between the floors of `runtime`: they
are never made, and a lower floor may say in an annotation what an upper one gives it.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = "haulage"
ROOT = Path(__file__).resolve().parent.parent / "src" / PACKAGE

# From the top of the house to its ground; rooms of one line do not import each other. The table in
# docs/design.md has the same lines.
ORDER: list[set[str]] = [
    {"__main__"},
    {"__init__"},
    {"cli", "coverage_plugin", "pytest_plugin"},
    {"dask"},
    {"integrations"},
    {"hip"},
    {"hook"},
    {"cuda", "roc"},
    {"compat"},
    {"lib"},
    {"smart"},
    {"api"},
    {"advising", "checking", "debugging"},
    {"memory", "tracing"},
    {"kernel"},
    {"interpreting"},
    {"platforms"},
    {"runtime/composition"},
    {"runtime/context"},
    {"runtime/launch"},
    {"runtime/coherence"},
    {"runtime/plugins"},
    {"runtime/exchange"},
    {"runtime/arrays"},
    {"runtime/protocols"},
    {"runtime/buffers"},
    {"runtime/memory"},
    {"runtime/devices"},
    {"runtime/transfers"},
    {"runtime/geometry"},
    {"runtime/process"},
    {"compiler"},
    {"lang"},
    {"targets"},
    {"backends"},
    {"numba_bridge", "numba_smart", "disk_cache"},
    {"importing_numba"},
    {"tracebacks"},
    {"config"},
    {"_core"},
    {"channel", "checks", "errors", "extras", "forks", "interruption", "spelling"},
]
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}

# The rooms that consist of others, which have lines of their own; their modules have no circle.
WITH_FLOORS = ("runtime",)

# Where each heavy package may be imported, as beginnings of paths below the package's folder.
ONLY_IN = {
    "numba": (
        "compiler/frontend",
        "lang/",
        "importing_numba.py",
        "numba_bridge.py",
        "numba_smart.py",
        "cuda/testing.py",
        "cuda/_modules.py",
    ),
    "llvmlite": (
        *("compiler/", "lang/", "targets/", "numba_bridge.py", "numba_smart.py"),
        "backends/cpu_driver/",
    ),
}

# Where there may be text in LLVM's IR, and what is taken for that.
WITH_IR = ("compiler/", "lang/", "targets/")
_IR = re.compile(r"\bgetelementptr\b|\b(?:define|declare)\b[^\n]* @|%[\w.]+ = [a-z]+ (?:i\d|ptr)")

# In these rooms a module is imported inside a function only if it, or a package that it is in,
# stands in `LATE`.
NO_LATE_IMPORTS = ("runtime", "kernel", "api", "smart")
_NUMBA = "imports Numba, which takes half a second, and moving memory needs none"
_LLVM = "imports llvmlite or makes text for it, which only what compiles or links needs"
LATE = {
    "asyncio": "takes longer to import than all of the runtime; one method needs it",
    "html": "has the table of all entities, 2 ms; tables in notebooks alone need it",
    "haulage.numba_bridge": _NUMBA,
    "haulage.numba_smart": _NUMBA,
    "haulage.compiler.frontend": _NUMBA,
    "haulage.compiler.gpu": _LLVM,
    "haulage.targets.nvidia_architectures": "has tables that only code for NVIDIA's GPUs needs",
    "haulage.interpreting": "imports pdb, which only kernels that stop in it need",
    "haulage.disk_cache.store": "is needed only by kernels that are kept on disk",
    "haulage.kernel.caching": "is needed only by kernels that are kept on disk",
}

# Files whose texts name modules that are imported, and what such a text is.
TABLES = "_modules.py"
_MODULE_NAME = re.compile(r"(?:haulage|numba|llvmlite)(?:\.\w+)*")


# What imports stand in: those of Python and those of Cython.
_SOURCES = (".py", ".pyx", ".pxd")
_IMPORT_IN_CYTHON = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<dots>\.*)(?P<base>[\w.]*)[ \t]+c?import[ \t]*"
    r"(?P<names>\([^)]*\)|[^\n]*)|c?import[ \t]+(?P<modules>[^\n]*))",
    re.MULTILINE,
)


class Import(NamedTuple):
    """An import in a file: of which module, and how.

    Attributes:
        late: it stands inside a function.
        for_types: it stands under `TYPE_CHECKING`.
    """

    line: int
    module: str
    late: bool = False
    for_types: bool = False


def check(root: Path = ROOT) -> list[str]:
    """What is wrong below `root`, the folder of a package: one sentence for each import."""
    problems = []
    for file in sorted(file for ending in _SOURCES for file in root.rglob(f"*{ending}")):
        path = file.relative_to(root).as_posix()
        room = _room(path.removesuffix(file.suffix).split("/"))
        if room is not None and room not in LEVEL:
            problems.append(f"{path}: the room {room!r} has no line in ORDER.")
            continue
        problems += _ir(file, path)
        for found in imports(file, root):
            problem = (
                _against_order(room, found) or _late(path, found) or _out_of_place(path, found)
            )
            if problem:
                problems.append(f"{path}:{found.line}: {problem}")
    for circle in circles(root):
        problems.append(f"These modules import each other in a circle: {', '.join(circle)}.")
    return problems


def _room(parts: list[str]) -> str | None:
    """The room of a module by its path below the package; None for one that only has rooms."""
    if parts[0] not in WITH_FLOORS:
        return parts[0]
    return "/".join(parts[:2]) if parts[1:] and parts[1] != "__init__" else None


def _against_order(room: str | None, found: Import) -> str | None:
    package, *parts = found.module.split(".")
    if package != PACKAGE or room is None:
        return None
    target = _room(parts or ["__init__"])
    if target is None:  # it counts as the highest of its floors
        if room.split("/")[0] == parts[0]:
            return None
        target = next(name for rooms in ORDER for name in rooms if name.split("/")[0] == parts[0])
    if target not in LEVEL:
        return f"imports {target!r}, which has no line in ORDER."
    if target == room or LEVEL[target] > LEVEL[room]:
        return None
    if found.for_types and target.split("/")[0] == room.split("/")[0]:
        return None
    return f"{room} imports {found.module}, but {target} does not stand below it."


def _late(path: str, found: Import) -> str | None:
    if not found.late or path.split("/")[0].removesuffix(".py") not in NO_LATE_IMPORTS:
        return None
    names = found.module.split(".")
    if any(".".join(names[:count]) in LATE for count in range(1, len(names) + 1)):
        return None
    return f"{found.module} is imported inside a function, and LATE gives no reason for that."


def _out_of_place(path: str, found: Import) -> str | None:
    top = found.module.split(".")[0]
    places = ONLY_IN.get(top)
    if places is None or path.startswith(places):
        return None
    return f"{top} is imported here; it may be in {', '.join(places)} only."


def _ir(file: Path, path: str) -> Iterator[str]:
    if path.startswith(WITH_IR):
        return
    text = file.read_text(encoding="utf-8")
    for found in _IR.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield f"{path}:{line}: LLVM's IR is here; it may be in {', '.join(WITH_IR)} only."


def imports(file: Path, root: Path) -> Iterator[Import]:
    """The imports in `file`; the names of a from-import that are rooms or files of the package
    count as modules, all others as names of the module that they come from."""
    here = [PACKAGE, *file.relative_to(root).parts[:-1]]
    if file.suffix != ".py":
        yield from _imports_in_cython(file, here, root)
        return
    # A stack of nodes, each with whether it is inside a function, and whether it is for types.
    ahead: list[tuple[ast.AST, bool, bool]] = [
        (ast.parse(file.read_text(encoding="utf-8"), str(file)), False, False)
    ]
    while ahead:
        node, late, for_types = ahead.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Call)):
            for module in _modules(node, here, root):
                yield Import(node.lineno, module, late, for_types)
        elif (
            file.name == TABLES
            and isinstance(node, ast.Constant)
            and _MODULE_NAME.fullmatch(str(node.value))
        ):
            yield Import(node.lineno, str(node.value))
        late = late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            ahead += [(each, late, True) for each in node.body]
            ahead += [(each, late, for_types) for each in node.orelse]
        else:
            ahead += [(each, late, for_types) for each in ast.iter_child_nodes(node)]


def _imports_in_cython(file: Path, here: list[str], root: Path) -> Iterator[Import]:
    text = file.read_text(encoding="utf-8")
    for found in _IMPORT_IN_CYTHON.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        names = re.sub("#[^\n]*", "", found["names"] or found["modules"])
        words = [name.split()[0] for name in names.strip("() \t").split(",") if name.strip()]
        if found["modules"]:
            yield from (Import(line, word) for word in words)
            continue
        base = here[: len(here) - len(found["dots"]) + 1] if found["dots"] else []
        module = ".".join([*base, *([found["base"]] if found["base"] else [])])
        yield from (Import(line, _module_of(module, word, root)) for word in words)


def _modules(node: ast.AST, here: list[str], root: Path) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = here[: len(here) - node.level + 1] if node.level else []
        module = ".".join([*base, *([node.module] if node.module else [])])
        for alias in node.names:
            # The version needs nothing of the house, and the package is there before its rooms.
            if (module, alias.name) != (PACKAGE, "__version__"):
                yield _module_of(module, alias.name, root)
    elif isinstance(node, ast.Call) and node.args:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else None
        called = node.func.id if isinstance(node.func, ast.Name) else called
        first = node.args[0]
        is_text = isinstance(first, ast.Constant) and isinstance(first.value, str)
        if called in ("import_module", "__import__") and is_text:
            yield first.value


def _module_of(module: str, name: str, root: Path) -> str:
    package, *parts = module.split(".")
    inner = root.joinpath(*parts, name)
    is_module = "/".join([*parts, name]) in LEVEL or inner.is_dir()
    if package == PACKAGE and (is_module or inner.with_suffix(".py").exists()):
        return f"{module}.{name}"
    return module


def circles(root: Path = ROOT) -> list[list[str]]:
    """The circles of modules in the rooms of `WITH_FLOORS`: the names in each, sorted.

    Imports inside functions count, those for types do not.
    """
    graph = {}
    for room in WITH_FLOORS:
        for file in (root / room).rglob("*.py"):
            parts = file.relative_to(root).with_suffix("").parts
            name = ".".join([PACKAGE, *parts]).removesuffix(".__init__")
            graph[name] = {each.module for each in imports(file, root) if not each.for_types}
    return [sorted(circle) for circle in _components(graph) if len(circle) > 1]


def _components(graph: dict[str, set[str]]) -> Iterator[set[str]]:
    """The strongly connected parts of a graph, by node and the nodes that it leads to."""
    reached = {node: _reached(graph, node) for node in graph}
    seen: set[str] = set()
    for node in sorted(graph):
        if node not in seen:
            part = {other for other in reached[node] if node in reached[other]} | {node}
            seen |= part
            yield part


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    ahead: list[Iterable[str]] = [graph[start]]
    while ahead:
        for node in ahead.pop():
            if node in graph and node not in found:
                found.add(node)
                ahead.append(graph[node])
    return found


def main(arguments: list[str]) -> int:
    """Print what is wrong; 1 if anything is."""
    problems = check(Path(arguments[0]).resolve()) if arguments else check()
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} problems; the order stands in {Path(__file__).name}")
        return 1
    print("imports point down only")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
