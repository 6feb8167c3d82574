"""The order of imports is kept, and the check that says so can fail."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

_SCRIPT = Path(__file__).parents[3] / "scripts" / "check_layers.py"


@pytest.fixture(scope="module")
def layers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_layers", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _house(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "haulage" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "haulage"


def test_imports_of_haulage_point_down_only(layers: ModuleType) -> None:
    assert layers.check() == []


def test_every_room_of_haulage_has_been_looked_at(layers: ModuleType) -> None:
    rooms = {p.relative_to(layers.ROOT).parts[0] for p in layers.ROOT.rglob("*.py")}
    assert {"backends", "cli", "errors.py"} <= rooms


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("errors.py", "import haulage.config"),
        ("backends/cpu.py", "from haulage.runtime import array"),
        ("backends/cpu.py", "def late():\n    from haulage import api"),
        ("backends/cpu.py", "from ..runtime.device import Device"),
        ("backends/cpu.py", "import importlib\nimportlib.import_module('haulage.kernel')"),
        ("cuda/__init__.py", "from haulage import roc"),
        ("cli/info.py", "from haulage import use"),
        ("cli/info.py", "import haulage"),
        ("runtime/arrays/array.py", "import numba"),
        ("runtime/arrays/array.py", "def late():\n    from llvmlite import binding"),
        ("cuda/_modules.py", "ROWS = {'api': {'haulage.cli.info': 'rows'}}"),
        ("roc/_modules.py", "ROWS = {'haulage.cuda': '*'}"),
        ("roc/_modules.py", "ROWS = {'numba.core': 'config'}"),
        ("drawer.py", "import os"),
        # Cython.
        ("_core/memory.pyx", "from haulage.runtime.memory import block"),
        ("_core/memory.pyx", "cdef int a\n\ndef late():\n    import haulage.config as config"),
        ("_core/memory.pyx", "from haulage import (\n    errors,  # a word\n    config,\n)"),
        ("_core/memory.pyx", "from ..backends cimport base"),
        ("_core/memory.pxd", "cimport haulage.kernel"),
        ("_core/memory.pyx", "from numba import njit"),
        # The floors of `runtime`.
        ("runtime/devices/stream.py", "from haulage.runtime.memory import block"),
        ("runtime/devices/stream.py", "from haulage.runtime import memory"),
        ("runtime/devices/stream.py", "def late():\n    from haulage.runtime.arrays import array"),
        ("runtime/cellar/floor.py", "import os"),
        ("compiler/emit.py", "from haulage.runtime.process import call_sites"),
        (
            "compiler/emit.py",
            "if TYPE_CHECKING:\n    from haulage.runtime.devices.device import Device",
        ),
        # Imports inside functions that nobody gave a reason for.
        ("runtime/arrays/array.py", "def late():\n    from haulage.runtime.memory import block"),
        ("smart/array.py", "def late():\n    import json"),
    ],
)
def test_an_import_against_the_order_is_reported(
    layers: ModuleType, tmp_path: Path, file: str, text: str
) -> None:
    problems = layers.check(_house(tmp_path, {file: text}))
    assert len(problems) == 1
    assert problems[0].startswith(file)
    assert problems[0].endswith(".")


@pytest.mark.parametrize(
    "text",
    [
        "define i64 @f(i64 %x) {",
        "declare double @llvm.fabs.f64(double)",
        "  %next.at = getelementptr i8, ptr %at, i64 8",
        "  %next = load i64, ptr %at",
    ],
)
def test_text_for_llvm_is_reported_where_no_kernels_are_compiled(
    layers: ModuleType, tmp_path: Path, text: str
) -> None:
    files = [f"{room}/text.py" for room in ("backends", "compiler", "lang", "targets")]
    named = f'IR = """\n{text}\n"""'
    house = _house(tmp_path, {**dict.fromkeys(files, named), "_core/text.pyx": named})
    problems = layers.check(house)
    assert [each.split(":")[:2] for each in problems] == [
        ["_core/text.pyx", "2"],
        ["backends/text.py", "2"],
    ]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("cli/info.py", "from haulage import cuda, errors"),
        ("cli/info.py", "from haulage import __version__"),
        ("cli/demo/steps.py", "from . import photo\nfrom ..info import rows"),
        ("api.py", "from haulage.runtime.arrays.array import DeviceNDArray"),
        ("lang/index.py", "from numba.core import types"),
        ("cuda/_modules.py", "ROWS = {'haulage.api': 'In', 'numba.core': 'config'}"),
        ("roc/texts.py", "WHY = 'haulage.cuda'"),
        ("__init__.py", "def __getattr__(name):\n    import haulage.cuda"),
        ("__main__.py", "from haulage.cli import main"),
        ("runtime/arrays/array.py", "from haulage.runtime import memory"),
        ("runtime/devices/stream.py", "def late():\n    import asyncio"),
        ("kernel/kernel.py", "def late():\n    from haulage.compiler.frontend import typing"),
        ("cli/info.py", "def late():\n    import json"),
        (
            "_core/memory.pyx",
            "from haulage._core cimport pool\nfrom haulage import errors\ncimport cython\n"
            "from libc.stdint cimport (int32_t,  # a word\n    int64_t)\nfrom . cimport pool",
        ),
        (
            "runtime/devices/device.py",
            "if TYPE_CHECKING:\n    from haulage.runtime.context import Context",
        ),
    ],
)
def test_an_import_that_points_down_is_not_reported(
    layers: ModuleType, tmp_path: Path, file: str, text: str
) -> None:
    assert layers.check(_house(tmp_path, {file: text})) == []


def test_a_circle_is_reported_also_one_of_imports_inside_functions(
    layers: ModuleType, tmp_path: Path
) -> None:
    files = {
        "runtime/memory/a.py": "from haulage.runtime.memory import b",
        "runtime/memory/b.py": "def late():\n    from haulage.runtime.memory.c import d",
        "runtime/memory/c.py": "import haulage.runtime.memory.a",
        "runtime/memory/outside.py": "from haulage.runtime.memory import a",
        "runtime/memory/typed.py": (
            "if TYPE_CHECKING:\n    from haulage.runtime.memory import above\n"
        ),
        "runtime/memory/above.py": "from haulage.runtime.memory import typed",
    }
    assert layers.circles(_house(tmp_path, files)) == [
        [f"haulage.runtime.memory.{name}" for name in "abc"]
    ]


def test_no_modules_of_the_runtime_import_each_other_in_a_circle(layers: ModuleType) -> None:
    assert layers.circles() == []


def test_every_reason_for_a_late_import_is_used(layers: ModuleType) -> None:
    """A line of `LATE` that no import needs would let one in."""
    late = {
        found.module
        for room in layers.NO_LATE_IMPORTS
        for file in (layers.ROOT / room).rglob("*.py")
        for found in layers.imports(file, layers.ROOT)
        if found.late
    }
    for name in layers.LATE:
        assert any(f"{module}.".startswith(f"{name}.") for module in late), name


def test_the_page_of_the_design_has_the_rooms_of_the_check_in_their_order(
    layers: ModuleType,
) -> None:
    page = (_SCRIPT.parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    table = page.split("## The rooms", 1)[1].split("| --- | --- |\n", 1)[1].split("\n\n", 1)[0]
    rows = [
        {name.removesuffix("/").removesuffix(".py") for name in re.findall("`(.*?)`", first)}
        for first in (line.split("|")[1] for line in table.splitlines())
    ]
    # Rooms inside of a room, which have no floors, are on the page only.
    assert [row for row in rows if all(name in layers.LEVEL for name in row)] == layers.ORDER
    for row in rows:
        assert row in layers.ORDER or {name.split("/")[0] for name in row} < set(layers.LEVEL)
