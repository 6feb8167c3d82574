"""Modules that a table describes: they are modules as those of files are, and no name is lost."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
import textwrap
import tomllib
import types
from pathlib import Path

import pytest

from haulage import cuda, roc
from haulage.compat.modules import origins
from haulage.cuda._modules import TABLE as OF_CUDA
from haulage.roc._modules import TABLE as OF_ROC

# Each module, and its names as they were when it was a file.
SURFACE = tomllib.loads(Path(__file__).with_name("surface.toml").read_text(encoding="utf-8"))
ROWS = [(table, name) for table in (OF_CUDA, OF_ROC) for name in table.modules]


def run(code):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", SURFACE)
def test_a_module_has_the_names_that_it_had_as_a_file(module):
    loaded = importlib.import_module(f"haulage.{module}")
    for word in SURFACE[module].split():
        name, _, expected = word.partition("=")
        value = getattr(loaded, name)
        if expected and isinstance(value, int):
            assert str(value) == expected, name
        elif expected:
            assert value.__qualname__ == expected, name
        elif isinstance(value, types.FunctionType | type):
            # Not what some other name of it is.
            assert value.__qualname__ == name or "<" in value.__qualname__, name


@pytest.mark.parametrize("package", [cuda, roc])
def test_all_modules_are_listed(package):
    there = {
        each.name.removeprefix("haulage.")
        for each in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    }
    of = package.__name__.removeprefix("haulage.")
    listed = {name for name in SURFACE if name == of or name.startswith(of + ".")} - {of}
    assert there - {f"{of}._modules"} == listed


@pytest.mark.parametrize(("table", "name"), ROWS, ids=[f"{t.package}.{n}" for t, n in ROWS])
def test_each_row_is_a_module(table, name):
    described, full = table.modules[name], f"{table.package}.{name}"
    module = importlib.import_module(full)
    assert module is sys.modules[full]
    assert (module.__name__, module.__spec__.name) == (full, full)
    assert module.__doc__ == described.doc
    assert module.__spec__.origin == module.__file__ == table.file
    assert module.__package__ == (full if "__path__" in vars(module) else full.rpartition(".")[0])
    assert inspect.getsourcefile(module) == table.file
    parent = sys.modules[full.rpartition(".")[0]]
    assert getattr(parent, full.rpartition(".")[2]) is module
    # All that it says it has is there, what is not there is an error, and names are one object.
    names = list(origins(described.names))
    # Private names are there for who names them, not for `from ... import *`.
    assert getattr(module, "__all__", []) == [each for each in names if each[0] != "_"]
    assert set(names) <= set(dir(module))
    assert all(hasattr(module, each) for each in names)
    assert not hasattr(module, "no_such_name")
    assert not set(module.__dict__) - {*names, *DUNDERS} - submodules(table, name)


DUNDERS = {
    *("__all__", "__builtins__", "__cached__", "__dir__", "__doc__", "__file__", "__getattr__"),
    *("__loader__", "__name__", "__package__", "__path__", "__spec__"),
}


def submodules(table, name):
    return {other.rpartition(".")[2] for other in table.modules if other.startswith(name + ".")}


@pytest.mark.parametrize(
    "statement",
    [
        "import haulage.cuda.args as args",
        "from haulage.cuda import args",
        "import importlib; args = importlib.import_module('haulage.cuda.args')",
        "import importlib; args = importlib.import_module('.args', 'haulage.cuda')",
        "args = __import__('haulage.cuda.args', fromlist=['In'])",
        "import pkgutil; args = pkgutil.resolve_name('haulage.cuda:args')",
        "from haulage import cuda; args = cuda.args",
    ],
)
def test_each_form_of_import_gives_the_module(statement):
    run(f"""
        {statement}
        import sys
        import haulage.api
        assert args is sys.modules["haulage.cuda.args"]
        assert args.In is haulage.api.In
        from haulage.cuda.args import InOut, Out as outwards
        assert (InOut, outwards) == (haulage.api.InOut, haulage.api.Out)
        found = {{}}
        exec("from haulage.cuda.args import *", found)
        assert set(args.__all__) == set(found) - {{"__builtins__"}}
    """)


def test_a_module_is_found_without_being_imported():
    run("""
        import importlib.util, pkgutil, sys
        from haulage import cuda
        for name in ("args", "cudadrv", "cudadrv.nvvm", "np.ufunc.decorators"):
            spec = importlib.util.find_spec(f"haulage.cuda.{name}")
            assert spec.name == f"haulage.cuda.{name}", spec
        assert "haulage.cuda.args" not in sys.modules
        assert "haulage.cuda.cudadrv.nvvm" not in sys.modules
        assert importlib.util.find_spec("haulage.cuda.nothing") is None
        listed = {each.name: each.ispkg for each in pkgutil.iter_modules(cuda.__path__)}
        assert not listed["args"] and listed["cudadrv"] and not listed["testing"]
        assert "nvvm" not in listed
        of_driver = {each.name for each in pkgutil.iter_modules(cuda.cudadrv.__path__, "x.")}
        assert {"x.nvvm", "x.driver", "x.enums"} <= of_driver and "x.args" not in of_driver
        # Wrong names are errors that name them, and nothing stays behind.
        for name in ("haulage.cuda.nothing", "haulage.cuda.args.nothing", "haulage.cuda.nvvm.x"):
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                assert error.name in name
            else:
                raise AssertionError(name)
            assert name not in sys.modules
    """)


def test_modules_are_found_after_the_caches_of_imports_were_emptied():
    run("""
        import importlib, sys
        from haulage import cuda
        importlib.invalidate_caches()
        sys.path_importer_cache.clear()
        import haulage.cuda.args
        from haulage.cuda.cudadrv import nvvm
        assert haulage.cuda.args.In is cuda.In
    """)


def test_a_module_can_be_reloaded():
    run("""
        import importlib
        import haulage.cuda.args as args, haulage.cuda.cudadrv as cudadrv, haulage.cuda.nvvmutils
        from haulage import cuda
        args.In, args.own = None, 3
        assert importlib.reload(args) is args and args.In is cuda.In and args.own == 3
        assert importlib.reload(cudadrv) is cudadrv and cudadrv.driver
        assert importlib.reload(cuda) is cuda and len(cuda.__path__) == 2
        assert cuda.args is args
    """)


def test_what_is_found_through_a_module_is_pickled():
    run("""
        import pickle
        from haulage.cuda import args, random
        from haulage.cuda.cudadrv import devicearray, driver, error
        from haulage.roc.hsadrv import devicearray as of_roc
        for value in (args.In, args.wrap_arg, devicearray.DeviceNDArray, devicearray.array_core,
                      driver.Driver, error.NvvmError, driver.LinkerError, of_roc.from_array_like,
                      random.create_xoroshiro128p_states):
            assert pickle.loads(pickle.dumps(value)) is value
        text = b"chaulage.cuda.args\\nInOut\\n."
        assert pickle.loads(text) is args.InOut
    """)


def test_a_module_is_imported_when_it_is_named():
    run("""
        import sys
        from haulage import cuda, roc
        names = {name for name in sys.modules if name.startswith(("haulage.cuda.", "haulage.roc."))}
        expected = {"haulage.cuda._modules", "haulage.roc._modules", "haulage.roc.arguments"}
        assert names == expected, names
        import haulage.cuda.args, haulage.cuda.cudadrv.devicearray, haulage.cuda.cudadrv.runtime
        import haulage.roc.hsadrv.devices
        assert not {"numba", "llvmlite", "haulage.lib.ufuncs"} & set(sys.modules)
    """)


def test_threads_that_import_at_once_all_get_the_whole_module():
    run("""
        import importlib, sys, threading
        from haulage import cuda
        sys.setswitchinterval(1e-6)
        for name in ("args", "api", "cudadrv.devicearray", "stubs", "kernels.reduction"):
            barrier, got = threading.Barrier(8), []

            def look():
                barrier.wait()
                module = importlib.import_module(f"haulage.cuda.{name}")
                got.append(all(hasattr(module, each) for each in module.__all__))

            threads = [threading.Thread(target=look) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert got == [True] * 8, (name, got)
    """)


MADE = """
from haulage.compat.modules import Module, Table

TABLE = Table(
    "made",
    __file__,
    {
        "numbers": Module("Numbers.", {"math": "pi half_turn=pi", "made.file": "*"}),
        "deep": Module("A package.", {"made.deep": "inner"}, missing="nobody wrote it"),
        "deep.inner": Module("A module.", {"made.numbers": "pi"}, missing="it is small"),
        "file": Module("Never seen: the file goes first."),
        "broken": Module("Names something that is not there.", {"math": "square_circle"}),
    },
    {"made.numbers": "half_turn"},
    "deep",
    {"it is too large": "universe deep.sky"},
)
"""


def test_a_package_with_a_table_has_modules_of_both_kinds(tmp_path):
    package = tmp_path / "made"
    package.mkdir()
    (package / "_modules.py").write_text(MADE)
    (package / "file.py").write_text("__all__ = ['one']\none = 1\n")
    (package / "__init__.py").write_text(
        "from haulage.compat.modules import serve\n"
        "from made._modules import TABLE\n"
        "__all__ = ['serve']\n"
        "__getattr__, __dir__ = serve(TABLE, __all__)\n"
    )
    run(f"""
        import importlib, math, pkgutil, sys
        sys.path.insert(0, {str(tmp_path)!r})
        import made
        assert made.half_turn == math.pi and made.file.one == 1
        assert made.numbers.__all__ == ["pi", "half_turn", "one"] and made.numbers.one == 1
        from made.deep import inner
        assert inner.pi == math.pi
        names = {{each.name for each in pkgutil.iter_modules(made.__path__)}}
        assert names == {{"_modules", "broken", "deep", "file", "numbers"}}, names
        names = {{each.name for each in pkgutil.iter_modules(made.deep.__path__)}}
        assert names == {{"inner"}}, names
        offered = {{name for name in dir(made) if not name.startswith("__")}}
        assert offered == {{"serve", "deep"}}, offered
        for text, part in {{
            "made.universe": "made has no 'universe': it is too large",
            "from made.deep import sky": "made.deep has no 'sky': it is too large",
            "made.deep.other": "made.deep has no 'other': nobody wrote it",
            "made.deep.inner.large": "made.deep.inner has no 'large': it is small",
            "made.nummers": "has no attribute 'nummers'. Did you mean 'numbers'?",
            "import made.broken": "square_circle",
        }}.items():
            try:
                exec(text)
            except (AttributeError, ImportError) as error:
                assert part in str(error), error
            else:
                raise AssertionError(text)
        assert "made.broken" not in sys.modules
    """)


@pytest.mark.parametrize("module", ["random", "cudadrv.driver"])
def test_a_module_can_be_run_and_has_its_names_then(module):
    program = f"import runpy; print(len(runpy.run_module('haulage.cuda.{module}')))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > len(importlib.import_module(f"haulage.cuda.{module}").__all__)
