"""The order of imports is kept, and the check that says so can fail."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

_SCRIPT = Path(__file__).parents[2] / "scripts" / "check_layers.py"


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
        ("drawer.py", "import os"),
    ],
)
def test_an_import_against_the_order_is_reported(
    layers: ModuleType, tmp_path: Path, file: str, text: str
) -> None:
    problems = layers.check(_house(tmp_path, {file: text}))
    assert len(problems) == 1
    assert problems[0].startswith(file)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("cli/info.py", "from haulage import cuda, errors"),
        ("cli/info.py", "from haulage import __version__"),
        ("cli/demo/steps.py", "from . import photo\nfrom ..info import rows"),
        ("api.py", "from haulage.runtime.arrays.array import DeviceNDArray"),
        ("lang/index.py", "from numba.core import types"),
        ("__init__.py", "def __getattr__(name):\n    import haulage.cuda"),
        ("__main__.py", "from haulage.cli import main"),
    ],
)
def test_an_import_that_points_down_is_not_reported(
    layers: ModuleType, tmp_path: Path, file: str, text: str
) -> None:
    assert layers.check(_house(tmp_path, {file: text})) == []
