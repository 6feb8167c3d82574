"""What editors, notebooks and type checkers offer of the vocabularies: names, signatures, words."""

import importlib.util
import inspect
import os
import pkgutil
import rlcompleter
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import haulage
from haulage import cuda, hip, roc
from haulage.lang.word import Namespace, Register3, Word

ROOT = Path(__file__).parents[3]
VOCABULARIES = {"cuda": cuda, "roc": roc, "hip": hip}
NOT_OFFERED = {"Any", "TYPE_CHECKING", "annotations", "NoReturn", "did_you_mean"}
# What a program begins with, and what it may write next: some of the names that are offered.
PROGRAM = """
import numpy as np
import haulage
from haulage import cuda, roc

array = cuda.to_device(np.ones(3))
stream = cuda.stream()
event = cuda.event()
smart = haulage.SmartArray(np.ones(3))

@cuda.jit
def kernel(x):
    pass

"""
OFFERED = {
    "cuda.": {"jit", "to_device", "threadIdx", "grid", "atomic", "float32", "random", "float4"},
    "cuda.atomic.": {"add", "sub", "cas", "compare_and_swap", "exch", "max"},
    "cuda.shared.": {"array"},
    "cuda.local.": {"array"},
    "cuda.const.": {"array_like"},
    "cuda.threadIdx.": {"x", "y", "z"},
    "cuda.gridDim.": {"x", "y", "z"},
    "cuda.fp16.": {"hadd", "hsin"},
    "cuda.cg.": {"this_grid"},
    "cuda.libdevice.": {"sinf", "fast_expf"},
    "cuda.random.": {"create_xoroshiro128p_states"},
    "cuda.args.": {"In", "Out", "InOut", "wrap_arg"},
    "cuda.compiler.": {"compile_ptx", "compile_cuda"},
    "cuda.cudadrv.": {"devicearray", "devices", "driver", "error", "nvvm"},
    "cuda.cudadrv.devicearray.": {"DeviceNDArray", "is_cuda_ndarray"},
    "cuda.cudadrv.driver.": {"host_to_device", "CudaAPIError"},
    "roc.": {"get_global_id", "barrier", "shared", "jit"},
    "roc.shared.": {"array"},
    "roc.atomic.": {"add"},
    "haulage.": {"cuda", "use", "devices", "SmartArray", "memory"},
    "haulage.memory.": {"report", "limit", "trim"},
    "array.": {"copy_to_host", "shape", "dtype"},
    "stream.": {"synchronize", "add_callback"},
    "event.": {"record", "elapsed_time", "wait"},
    "kernel.": {"forall", "inspect_asm", "overloads"},
    "smart.": {"shape", "get", "mark_changed"},
}


def _script():
    spec = importlib.util.spec_from_file_location("make_stubs", ROOT / "scripts" / "make_stubs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stubs_are_those_of_the_words():
    script = _script()
    for name in script.MODULES:
        text = script.path_of(name).read_text(encoding="utf-8")
        assert text == script.stub(name), "run python scripts/make_stubs.py"
    written = {script.path_of(name) for name in script.MODULES}
    # Those of the extension are written by hand, from its sources.
    there = {path for path in (ROOT / "src").rglob("*.pyi") if path.parent.name != "_core"}
    assert there == written


@pytest.mark.parametrize("name", VOCABULARIES)
def test_dir_gives_the_words_and_nothing_else(name):
    module = VOCABULARIES[name]
    offered = {each for each in dir(module) if not each.startswith("__")}
    assert not offered & NOT_OFFERED
    assert not {each for each in offered if each.startswith("_")}
    # Each is there, and all that programs write is offered.
    for each in offered:
        getattr(module, each)
    assert set(module.__all__) <= offered
    assert dir(haulage.memory)[-1] == "using_allocator"
    assert not set(dir(haulage)) & NOT_OFFERED


@pytest.mark.parametrize("name", ["cuda", "roc"])
def test_each_word_has_a_signature_and_a_docstring(name):
    words = {}
    for each in dir(VOCABULARIES[name]):
        value = getattr(VOCABULARIES[name], each)
        members = vars(value).items() if isinstance(value, Namespace) else [(each, value)]
        words |= {key: member for key, member in members if isinstance(member, Word)}
    assert len(words) > 10
    for each, word in words.items():
        parameters = inspect.signature(word).parameters
        assert "tools" not in parameters, each
        assert not any(p.kind is p.VAR_POSITIONAL for p in parameters.values()), each
        assert inspect.getdoc(word).startswith("`"), each
    assert str(inspect.signature(cuda.shared.array)) == "(shape, dtype, alignment=None)"
    assert str(inspect.signature(cuda.float3)) == "(x, y, z, /)"


def test_the_registers_of_indices_have_axes_that_only_kernels_read():
    for each in (cuda.threadIdx, cuda.blockIdx, cuda.blockDim, cuda.gridDim):
        assert {"x", "y", "z"} <= set(dir(each))
        assert "." in each.__doc__
        with pytest.raises(RuntimeError, match=r"idx\.y means something only inside|Dim\.y|Idx\.y"):
            _ = each.y
        with pytest.raises(AttributeError, match="it has x, y and z"):
            _ = each.w
    assert "axis" in Register3.x.__doc__


@pytest.mark.parametrize("text", [text for text in OFFERED if text.startswith(("cuda", "roc"))])
def test_the_plain_prompt_offers_them(text):
    matches = rlcompleter.Completer({"cuda": cuda, "roc": roc}).attr_matches(text)
    offered = {each.removeprefix(text).rstrip("()") for each in matches}
    assert OFFERED[text] <= offered


@pytest.mark.parametrize("text", OFFERED)
def test_an_editor_offers_them_without_running_the_program(text):
    jedi = pytest.importorskip("jedi")
    offered = {each.name for each in jedi.Script(PROGRAM + text).complete()}
    assert OFFERED[text] <= offered
    assert not offered & NOT_OFFERED


@pytest.mark.parametrize("vocabulary", ["cuda", "roc"])
def test_an_editor_offers_the_names_of_every_module(vocabulary):
    jedi = pytest.importorskip("jedi")
    prefix = f"haulage.{vocabulary}."
    looked_at = 0
    for each in pkgutil.walk_packages(VOCABULARIES[vocabulary].__path__, prefix):
        every = getattr(importlib.import_module(each.name), "__all__", ())
        names = {name for name in every if not name.startswith("_")}
        text = each.name.removeprefix(prefix)
        program = f"from haulage.{vocabulary} import {text.partition('.')[0]}\n{text}."
        assert names <= {offer.name for offer in jedi.Script(program).complete()}, each.name
        looked_at += bool(names)
    assert looked_at > {"cuda": 40, "roc": 12}[vocabulary]


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("haulage.cuda.args", {"In", "Out"}),
        ("haulage.cuda.random", {"create_xoroshiro128p_states"}),
        ("haulage.cuda.cudadrv.devicearray", {"DeviceNDArray"}),
        ("haulage.cuda.cudadrv.driver", {"Stream", "driver"}),
        ("haulage.cuda.cudadrv.error", {"CudaSupportError"}),
    ],
)
def test_an_editor_offers_names_to_import_from_modules_that_programs_use(module, names):
    jedi = pytest.importorskip("jedi")
    assert names <= {each.name for each in jedi.Script(f"from {module} import ").complete()}


def test_an_editor_shows_signatures_and_docstrings():
    jedi = pytest.importorskip("jedi")
    for text, names, words in (
        ("cuda.atomic.add(", ["array", "index", "value"], "the old value"),
        ("cuda.shared.array(", ["shape", "dtype", "alignment"], "threads of a block share"),
        ("cuda.grid(", ["ndim"], "place in the whole grid"),
        ("cuda.libdevice.powf(", ["x", "y"], "float32"),
        ("cuda.char2(", ["x", "y"], "a vector of 2 int8"),
        ("cuda.cg.this_grid(", [], "`sync()` waits for all of it"),
    ):
        shown = jedi.Script(PROGRAM + text).get_signatures()[0]
        assert [parameter.name for parameter in shown.params] == names
        assert words in shown.docstring()


def test_a_notebook_offers_them_for_what_is_there():
    pytest.importorskip("jedi")
    from IPython.core.completer import provisionalcompleter
    from IPython.core.interactiveshell import InteractiveShell

    @cuda.jit
    def kernel(x):
        pass

    shell = InteractiveShell()
    array = cuda.to_device(np.ones(3))
    here = {"array": array, "stream": cuda.stream(), "event": cuda.event(), "kernel": kernel}
    here |= {"smart": haulage.SmartArray(np.ones(3))}
    shell.user_ns.update(here, cuda=cuda, roc=roc, haulage=haulage)
    for text, names in OFFERED.items():
        with provisionalcompleter():
            offered = {
                each.text.lstrip(".") for each in shell.Completer.completions(text, len(text))
            }
        assert names <= offered, text
        assert not offered & NOT_OFFERED, text


def test_a_program_is_typed(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(
        # Without NumPy, whose types take a checker long.
        "from haulage import cuda\n"
        "@cuda.jit\n"
        "def kernel(x: object) -> None:\n"
        "    first: int = cuda.grid(1)\n"
        "    pair: tuple[int, int] = cuda.grid(2)\n"
        "    thread: int = cuda.threadIdx.x + cuda.laneid\n"
        "    tile = cuda.shared.array((16, 16), cuda.float32)\n"
        "    cuda.atomic.add(x, first, 1)\n"
        "    cuda.cg.this_grid().sync()\n"
        "    cuda.threadIdx.w\n"
        "    cuda.atomic.ad(x, 0, 1)\n"
        # Modules without a file: of some every name is known, of the others those of a class.
        "from haulage.cuda import api, cudadrv, kernels, random\n"
        "from haulage.cuda.cudadrv import devices, driver, nvvm, runtime\n"
        "from haulage.cuda.cudadrv.devices import get_context, reset\n"
        "from haulage.cuda.dispatcher import CUDADispatcher\n"
        "import haulage.cuda.kernels.reduction\n"
        "from haulage.roc.hsadrv import devicearray as arrays\n"
        "api.to_device(3), cudadrv.error, kernels.reduction.Reduce, random.rotl, arrays.HostArray\n"
        "reset(), get_context(), driver.host_to_device, nvvm.NvvmError, runtime.get_version()\n"
        "api.to_devise(3)\n"
        "devices.rest()\n"
        "kernel[1, 32, cuda.stream()](cuda.device_array(3))\n"
    )
    # Next to the stubs alone: all of the package would take a checker half a minute.
    for stub in (ROOT / "src").rglob("*.pyi"):
        copy = tmp_path / "stubs" / stub.relative_to(ROOT / "src")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(stub.read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file=", "--no-site-packages"]
    done = subprocess.run(
        [*command, "--ignore-missing-imports", program],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(tmp_path / "stubs")},
    )
    wrong = [line for line in done.stdout.splitlines() if line.startswith("program.py:")]
    assert len(wrong) == 4, done.stdout
    assert '"_threadIdx" has no attribute "w"' in wrong[0]
    assert '"_atomic" has no attribute "ad"' in wrong[1]
    assert '"type[api]" has no attribute "to_devise"' in wrong[2]
    assert 'Module has no attribute "rest"' in wrong[3]
