"""What editors, notebooks and type checkers offer of the vocabularies: names, signatures, words."""

import importlib.util
import inspect
import os
import rlcompleter
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import haulage
from haulage import cuda, hip, roc
from haulage.lang.word import Namespace, Register3, Word

ROOT = Path(__file__).parents[2]
VOCABULARIES = {"cuda": cuda, "roc": roc, "hip": hip}
NOT_OFFERED = {"Any", "TYPE_CHECKING", "annotations", "submodules_of", "NoReturn", "did_you_mean"}
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
    for module in script.MODULES:
        text = script.path_of(module).read_text(encoding="utf-8")
        assert text == script.stub(module), "run python scripts/make_stubs.py"


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


def test_an_editor_shows_signatures_and_docstrings():
    jedi = pytest.importorskip("jedi")
    for text, names, words in (
        ("cuda.atomic.add(", ["array", "index", "value"], "the old value"),
        ("cuda.shared.array(", ["shape", "dtype", "alignment"], "threads of a block share"),
        ("cuda.grid(", ["ndim"], "place in the whole grid"),
        ("cuda.libdevice.powf(", ["x", "y"], "float32"),
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
    assert len(wrong) == 2, done.stdout
    assert '"_threadIdx" has no attribute "w"' in wrong[0]
    assert '"_atomic" has no attribute "ad"' in wrong[1]
