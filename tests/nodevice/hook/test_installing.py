"""The import hook. Each program runs in a process of its own, as it changes what is imported."""

import importlib.util
import subprocess
import sys
import textwrap

import pytest


def run(program):
    """Run a program, which checks by itself; what it printed is returned."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_installing_imports_neither_numba_nor_a_vocabulary():
    run("""
        import sys
        import haulage
        haulage.install()
        haulage.uninstall()
        haulage.install()
        assert not {"numba", "llvmlite", "numpy", "haulage.cuda"} & set(sys.modules)
    """)


@pytest.mark.parametrize("numba_first", [True, False])
@pytest.mark.parametrize(
    "statement",
    ["from numba import cuda", "import numba.cuda; cuda = numba.cuda", "import numba.cuda as cuda"],
)
def test_each_form_of_import_gives_haulage(numba_first, statement):
    run(f"""
        import sys
        if {numba_first}:
            import numba
        import haulage
        haulage.install()
        {statement}
        import haulage.cuda
        assert cuda is haulage.cuda is sys.modules["numba.cuda"]
        assert cuda.__name__ == cuda.__spec__.name == "haulage.cuda"
        assert cuda.__spec__.loader is cuda.__loader__
        from numba.cuda import jit
        assert jit is haulage.cuda.jit
        from numba import roc
        assert roc is haulage.roc
    """)


def test_the_attribute_is_there_where_numba_was_imported_before():
    run("""
        import numba
        assert not hasattr(numba, "cuda") and not hasattr(numba, "roc")
        import haulage
        haulage.install()
        assert numba.cuda is haulage.cuda
        assert numba.roc is haulage.roc
    """)


def test_the_attribute_is_there_where_numba_is_imported_later_and_nobody_imports_numba_cuda():
    run("""
        import sys
        import haulage
        haulage.install()
        assert "numba" not in sys.modules
        import numba
        assert "haulage.cuda" not in sys.modules
        assert numba.cuda.__name__ == "haulage.cuda"
        assert numba.hip.jit is numba.cuda.jit
        try:
            numba.nothing
        except AttributeError as error:
            assert str(error) == "module 'numba' has no attribute 'nothing'"
        haulage.uninstall()
        assert not hasattr(numba, "cuda") and type(numba) is type(sys)
    """)


def test_modules_are_sane_under_both_names():
    run("""
        import importlib, importlib.util, inspect, pickle, pkgutil, sys
        import haulage
        haulage.install()
        import numba.cuda.random as r
        import haulage.cuda, haulage.cuda.random
        assert r is importlib.import_module("numba.cuda.random") is haulage.cuda.random
        assert r.__spec__.name == "haulage.cuda.random" and not r.__spec__._initializing
        assert inspect.getsourcefile(r) == r.__spec__.origin
        assert importlib.util.find_spec("numba.cuda.random") is r.__spec__
        import numba.cuda
        names = {m.name for m in pkgutil.iter_modules(numba.cuda.__path__, "numba.cuda.")}
        assert "numba.cuda.random" in names

        # A class is one class under both names, also where a pickle says Numba's.
        import numba.cuda.cudadrv.devicearray as theirs
        own = theirs.DeviceNDArray
        assert pickle.loads(pickle.dumps(own)) is own is haulage.cuda.DeviceNDArray
        text = b"cnumba.cuda.cudadrv.devicearray\\nDeviceNDArray\\n."
        assert pickle.loads(text) is own

        again = importlib.reload(r)
        assert again is r is sys.modules["numba.cuda.random"] is sys.modules["haulage.cuda.random"]
        assert importlib.reload(numba.cuda) is haulage.cuda
    """)


def test_threads_that_import_at_once_all_get_the_whole_module():
    run("""
        import importlib, sys, threading
        import numba
        import haulage
        sys.setswitchinterval(1e-6)
        haulage.install()
        for name in ("numba.cuda", "numba.cuda.random", "numba.roc", "numba.hip"):
            barrier, got = threading.Barrier(8), []

            def look():
                barrier.wait()
                module = importlib.import_module(name)
                got.append((module.__name__, hasattr(module, "__all__")))

            threads = [threading.Thread(target=look) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            own = sys.modules[name].__name__
            assert own.startswith("haulage.") and got == [(own, True)] * 8, got
    """)


def test_numba_hip_has_the_words_of_cuda():
    run("""
        import haulage
        from haulage import hip
        hip.pose_as_cuda()
        from numba import cuda, hip as theirs
        import numba.hip.random, numba.hip.hipdrv.devicearray
        assert theirs is hip is haulage.hip and theirs.jit is cuda.jit is haulage.cuda.jit
        assert numba.hip.random is haulage.cuda.random
        assert numba.hip.hipdrv.devicearray is haulage.cuda.cudadrv.devicearray
        assert hip.float32 is numba.float32 and hip.libdevice is cuda.libdevice
        theirs.pose_as_cuda()
        haulage.uninstall()
    """)


def test_modules_that_the_package_numba_cuda_copied_from_numba_are_numbas():
    run("""
        import haulage
        haulage.install()
        import numba.cuda.core.errors, numba.cuda.np.numpy_support, numba.cuda.typing.templates
        from numba.cuda.core import config, sigutils
        from numba.cuda.np.ufunc import vectorize
        import numba.core
        import numba.cuda.types.npytypes
        assert numba.cuda.types.npytypes is numba.core.types.npytypes
        assert numba.cuda.core.errors is numba.core.errors
        assert numba.cuda.np.numpy_support is numba.np.numpy_support
        assert config is numba.config and vectorize is haulage.cuda.vectorize
        import numba.cuda.np.ufunc.decorators, numba.cuda.np.ufunc.sigparse
        assert numba.cuda.np.ufunc.decorators.guvectorize is haulage.cuda.guvectorize
        assert numba.cuda.np.ufunc.sigparse is numba.np.ufunc.sigparse
        assert numba.np.ufunc.__name__ == "numba.np.ufunc"
    """)


def test_a_numba_cuda_program_runs_unchanged():
    out = run("""
        import haulage
        haulage.install()
        haulage.use("cpu")

        import math
        import numpy as np
        from numba import cuda, float32

        @cuda.jit("void(float32[:], float32[:])")
        def roots(x, out):
            i = cuda.grid(1)
            room = cuda.shared.array(32, float32)
            if i < x.size:
                room[cuda.threadIdx.x] = x[i]
                out[i] = math.sqrt(room[cuda.threadIdx.x])

        x = cuda.to_device(np.arange(100, dtype=np.float32) ** 2)
        out = cuda.device_array_like(x)
        roots[4, 32](x, out)
        print(out.copy_to_host().sum())
    """)
    assert out == "4950.0\n"


def test_a_submodule_is_one_module_under_both_names():
    run("""
        import haulage
        haulage.install()
        from numba.roc.arguments import to_device
        import numba.roc.arguments
        import haulage.roc.arguments as own
        assert numba.roc.arguments is own
        assert to_device is own.to_device
        assert own.__spec__.name == "haulage.roc.arguments"
    """)


def test_what_has_no_counterpart_is_named():
    run("""
        import importlib
        import haulage
        haulage.install()

        def message(statement):
            try:
                exec(statement)
            except ImportError as error:
                return str(error)

        # Numba has this one, which must not come from there.
        text = message("import numba.cuda.libdeviceimpl")
        assert "'numba.cuda.libdeviceimpl'" in text, text
        assert "has no haulage.cuda.libdeviceimpl" in text, text
        assert "haulage.uninstall()" in text
        text = message("from numba.cuda.cudadrv.nvvm import NVVM")
        assert "numba.cuda.cudadrv.nvvm has no 'NVVM': it is a part of NVIDIA's compiler" in text
        text = message("from numba.cuda import nothing")
        assert "'nothing' from 'haulage.cuda'" in text, text
        # Everything else is not ours.
        assert message("import numba.cudax") == "No module named 'numba.cudax'"
        from numba import njit, types
    """)


def test_errors_say_why_something_of_numbas_is_not_there():
    run("""
        import haulage
        haulage.install()
        from numba import cuda

        for program, part in {
            "import numba.cuda.bf16": "'numba.cuda.bf16': Haulage answers",
            "from numba.cuda.bf16 import bfloat16": "a type that kernels do not have yet",
            "import numba.cuda.memory_management.nrt": "an inner part of numba-cuda",
            "from numba.cuda.simulator.kernel import FakeCUDAKernel": "for the CPU instead",
            "from numba.cuda import cext": "'cext': an inner part of numba-cuda",
            "cuda.launchconfig": "'launchconfig': an inner part of numba-cuda",
            "from numba.cuda.cudadrv import mappings": "an inner part of numba-cuda",
        }.items():
            try:
                exec(program)
            except (ImportError, AttributeError) as error:
                assert part in str(error), error
                assert isinstance(error, ImportError) is ("import" in program)
            else:
                raise AssertionError(program)
        assert not hasattr(cuda, "cext")
        from numba.cuda.cudadrv.linkable_code import PTXSource
        assert PTXSource is cuda.PTXSource
    """)


def test_numbas_own_tests_stay_numbas_and_test_haulage():
    run("""
        import sys
        import haulage
        haulage.install()
        import numba, haulage.cuda, haulage.cuda.testing
        import numba.cuda.tests.cudapy.test_lang as lang
        folder = haulage.cuda.testing.numba_cuda_dir
        assert lang.__file__ == str(folder / "tests" / "cudapy" / "test_lang.py")
        assert lang.cuda is haulage.cuda
        assert lang.CUDATestCase is haulage.cuda.testing.CUDATestCase
        from numba.cuda import tests
        assert sys.modules["numba.cuda.tests"] is tests
        haulage.install()
        assert sys.modules["numba.cuda.tests"] is tests
        haulage.uninstall()
        assert not [name for name in sys.modules if name.startswith("numba.cuda")]
        from numba.cuda.tests.cudapy import test_lang
        assert test_lang is not lang
        assert test_lang.cuda is not haulage.cuda
    """)


def test_numba_cuda_imported_before_is_replaced_with_a_warning_that_says_who_holds_it():
    run("""
        import sys, types, warnings
        from numba.cuda import jit
        import numba.cuda.compiler
        theirs = numba.cuda
        for name in ("user", "bystander"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules["user"].compiler = numba.cuda.compiler
        import haulage

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            haulage.install()
        (warning,) = caught
        assert warning.category is RuntimeWarning and warning.filename == "<string>"
        text = str(warning.message)
        assert "but __main__, user holds names of Numba's own" in text, text

        assert numba.cuda is haulage.cuda
        from numba import cuda
        assert cuda is haulage.cuda
        assert "numba.cuda.compiler" not in sys.modules
        # What was held works on.
        assert jit is theirs.jit

        haulage.install()
        haulage.uninstall()
        from numba import cuda
        import numba.cuda.compiler
        assert cuda is numba.cuda is theirs
        assert numba.cuda.compiler is sys.modules["user"].compiler
    """)


def test_numba_cuda_imported_before_is_replaced_silently_where_nobody_holds_it():
    run("""
        import importlib, sys
        importlib.import_module("numba.cuda")
        # What an import that failed half-way leaves.
        del sys.modules["numba.cuda"]
        import haulage
        haulage.install()
        from numba import cuda
        assert cuda is haulage.cuda
        assert not [name for name in sys.modules if name.startswith("numba.cuda.")]
    """)


def test_uninstalling_gives_numba_back_and_keeps_haulage():
    run("""
        import sys
        import haulage
        finders = list(sys.meta_path)
        haulage.uninstall()
        haulage.install()
        haulage.install()
        from numba import cuda as before
        assert before is haulage.cuda
        haulage.uninstall()
        assert sys.meta_path == finders
        haulage.uninstall()
        import numba
        assert not hasattr(numba, "cuda") and "numba.cuda" not in sys.modules
        from numba import cuda
        import haulage.cuda
        assert cuda is not before and cuda.__name__ == "numba.cuda"
        assert haulage.cuda is before
        try:
            import numba.roc
        except ModuleNotFoundError as error:
            assert str(error) == "No module named 'numba.roc'"
        else:
            raise AssertionError("numba.roc is still there")
    """)


REDIRECTOR = """
    import importlib, sys
    from importlib.machinery import PathFinder

    class Redirector:
        # As the package numba-cuda's: it gives Numba's own answers from another folder, by asking
        # all finders, and knows that it asks itself by that folder.
        def find_spec(self, name, path, target=None):
            if "numba.cuda" in name:
                numba = importlib.import_module("numba").__path__[0]
                if any(elsewhere in folder for folder in path):
                    return None
                path = [folder.replace(numba, elsewhere + "/numba") for folder in path]
                for finder in sys.meta_path:
                    spec = finder.find_spec(name, path, target)
                    if spec is not None:
                        return spec
"""


@pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is not None,
    reason="numba-cuda is installed: its redirector and this one ask each other without end",
)
@pytest.mark.parametrize("before", ["", "import numba", "from numba import cuda"])
@pytest.mark.parametrize("redirector_first", [True, False])
def test_beside_a_redirector_of_numba_cuda_to_another_folder(tmp_path, before, redirector_first):
    package = tmp_path / "numba" / "cuda"
    (package / "core").mkdir(parents=True)
    (package / "__init__.py").write_text("import numba.cuda.core.config\ntheirs = True\n")
    (package / "core" / "__init__.py").write_text("")
    # As in numba-cuda: the module of this name is Numba's where there is one.
    (package / "core" / "config.py").write_text(
        "import sys\nfrom numba.core import config\nsys.modules[__name__] = config\n"
    )
    program = textwrap.dedent(REDIRECTOR) + textwrap.dedent(f"""
        import warnings
        warnings.simplefilter("ignore")
        elsewhere = {str(tmp_path)!r}
        import haulage
        if {redirector_first}:
            sys.meta_path.insert(0, Redirector())
            {before or "pass"}
            haulage.install()
        else:
            haulage.install()
            sys.meta_path.insert(1, Redirector())
            {before or "pass"}
        from numba import cuda
        assert cuda is haulage.cuda
        import numba.cuda.random, numba.cuda.core.config as config
        assert numba.cuda.random is haulage.cuda.random and config is numba.config
        from numba.cuda import tests
        assert tests.__file__.startswith(numba.__path__[0])
        try:
            import numba.cuda.nothing
        except ModuleNotFoundError as error:
            assert "Haulage answers" in str(error)
        haulage.uninstall()
        from numba import cuda
        assert cuda.theirs and cuda is not haulage.cuda
        haulage.install()
        from numba import cuda
        import numba.cuda.core
        assert cuda is haulage.cuda
    """)
    run(program)


def test_it_goes_first_beside_another_finder_of_numba_cuda():
    run("""
        import sys
        from importlib.abc import Loader, MetaPathFinder
        from importlib.machinery import ModuleSpec

        class Theirs(MetaPathFinder, Loader):
            def find_spec(self, name, path, target=None):
                if "numba.cuda" in name:
                    return ModuleSpec(name, self, is_package=True)

            def exec_module(self, module):
                module.theirs = True

        import haulage
        sys.meta_path.insert(0, Theirs())
        haulage.install()
        from numba import cuda
        assert cuda is haulage.cuda

        haulage.uninstall()
        from numba import cuda
        assert cuda.theirs

        # It goes first again where the other one came later.
        import warnings
        warnings.simplefilter("ignore")
        haulage.install()
        sys.meta_path.insert(0, Theirs())
        haulage.install()
        import numba.cuda
        assert numba.cuda is haulage.cuda
        assert len([f for f in sys.meta_path if type(f).__module__ == "haulage.hook.finder"]) == 1
    """)


@pytest.mark.parametrize(
    "first", ["import haulage.hook.installing", "haulage.uninstall", "from haulage import install"]
)
def test_install_can_be_called_whatever_was_imported_first(first):
    run(f"""
        import haulage
        {first}
        haulage.install()
        from haulage import install
        install()
        import numba.cuda
        assert numba.cuda is haulage.cuda
    """)


@pytest.mark.parametrize("numba_first", [True, False])
def test_numbas_vectorize_takes_the_targets_until_uninstall(numba_first):
    run(f"""
        if {numba_first}:
            import numba
            numba.np.ufunc.Vectorize.target_registry["cuda"]
        import haulage
        haulage.install()
        from numba import cuda, guvectorize, roc, vectorize
        from haulage.lib.ufuncs import GUFunc, UFunc

        for target in ("cuda", "roc"):
            assert isinstance(vectorize(["f8(f8)"], target=target)(lambda x: x), UFunc)
            made = guvectorize("(n)->(n)", target=target)(lambda x, out: None)
            assert isinstance(made, GUFunc) and target in repr(made)
        haulage.uninstall()
        import numba.np.ufunc
        registry = numba.np.ufunc.Vectorize.target_registry
        assert registry["cuda"].__module__ == "numba.cuda.vectorizers"
        assert "roc" not in registry
    """)
