"""The pages 'Coming from ...': their tables are what their sources give, and these are true."""

import importlib
import importlib.util
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import numba
import pytest

from haulage.cuda._modules import TABLE as OF_CUDA
from haulage.roc._modules import TABLE as OF_ROC

_SCRIPT = Path(__file__).parents[3] / "scripts" / "make_coming_from.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("make_coming_from", _SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("number", [0, 1])
def test_the_tables_of_a_page_are_what_their_sources_give(script, number):
    page = script.PAGES[number]
    text = page.read_text(encoding="utf-8")
    assert text == script.rendered(page), "run python scripts/make_coming_from.py"
    assert text.count("<!-- table: ") == text.count("<!-- end of table -->") >= 6


def test_every_name_of_numbas_is_on_its_page(script):
    lists = script.surface()
    for page, keys in zip(script.PAGES, (["numba", "numba-cuda"], ["roc"]), strict=True):
        text = page.read_text(encoding="utf-8")
        for key in keys:
            names = [name for name in lists[key]["names"] if f"`{name}`" not in text]
            assert [name for name in names if f".{name}`" not in text] == []
            paths = [path.split(".", 2)[2] for path in lists[key]["modules"]]
            assert [path for path in paths if f"{path}`" not in text] == []


@pytest.mark.parametrize(("vocabulary", "table"), [("cuda", OF_CUDA), ("roc", OF_ROC)])
def test_reasons_are_given_for_what_is_not_there_only(script, vocabulary, table):
    named = [name for names in table.missing.values() for name in names.split()]
    assert len(named) == len(set(named)) > 0
    modules = {path for row in script.surface().values() for path in row["modules"]}
    for name in named:
        path = f"numba.{vocabulary}.{name}"
        assert not script.is_there(path), f"{name} is there"
        assert path in modules or not script.has(vocabulary, name), f"{name} is there"


@pytest.mark.skipif(
    not numba.__version__.startswith("0.68"), reason="the list is that of Numba 0.68"
)
def test_the_list_of_names_is_that_of_numba(script):
    theirs = importlib.import_module("numba.cuda")
    assert not theirs.__name__.startswith("haulage")
    # What Numba's modules import for themselves.
    foreign = {"contextlib", "np", "os", "runtests", "sys"}
    listed = set(script.surface()["numba"]["names"])
    # Further submodules are attributes once someone has imported them.
    there = {
        name
        for name, value in vars(theirs).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert there - listed == set()
    assert {name for name in listed - foreign if not hasattr(theirs, name)} == set()


def test_names_that_lie_elsewhere_are_found_and_import_numba_only_when_named():
    program = """
        import sys
        from haulage import cuda
        assert not {"numba", "haulage.lib.ufuncs", "haulage.cuda.cudadrv"} & set(sys.modules)
        assert {"vectorize", "random", "cudadrv", "float32", "jit"} <= set(dir(cuda))
        for name in ("config", "devicearray", "devices", "driver", "nvvm", "reduction"):
            assert isinstance(getattr(cuda, name), type(sys)), name
        from numba import literal_unroll, types
        from haulage.compat.modules import origins
        for name in origins(cuda._modules.TABLE.names):
            getattr(cuda, name)
        assert cuda.float32 is types.float32
        assert cuda.literal_unroll is literal_unroll
        assert not hasattr(cuda, "nothing")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
