"""What the key of a cached kernel depends on, and what it does not."""

import enum
import math
import os
import subprocess
import sys
import textwrap
import types
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulage import cuda, lang, roc
from haulage.backends.cpu_driver import identity, processor
from haulage.compiler.cache.kept import digest
from haulage.compiler.cache.values import Digest, NotByValue, _is_word, _word_name
from haulage.compiler.gpu.amd import device_library
from haulage.compiler.gpu.nvidia import libdevice
from haulage.compiler.options import Options
from haulage.disk_cache import software
from haulage.errors import CompileError
from haulage.platforms import PLATFORMS

KERNEL = """
def helper(v):
    return v * FACTOR

def kernel(x, y=1):
    i = cuda.grid(1)
    x[i] = helper(x[i]) + y
"""


def defined(source=KERNEL, filename="kernels.py", **values):
    """The function `kernel` of a source, with `values` as globals."""
    namespace = {"cuda": cuda, "np": np, "math": math, "FACTOR": 2, **values}
    exec(compile(textwrap.dedent(source), filename, "exec"), namespace)
    return namespace["kernel"]


def of(value):
    reached = Digest()
    reached.add(value, "value")
    return reached.hexdigest()


def reading(value):
    """The digest of a function that reads a global with a value."""
    return of(defined("def kernel(x): x[0] = VALUE", VALUE=value))


Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def test_the_same_source_has_the_same_digest():
    assert of(defined()) == of(defined())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("* FACTOR", "+ FACTOR"),
        ("y=1", "y=2"),
        ("y=1", "y=1.0"),
        ("y=1", "*, y=1"),
        ("x[i] = helper", "x[i] += helper"),
        ("grid(1)", "grid(2)"),
        ("\ndef kernel", "\n\ndef kernel"),
        ("cuda.grid(1)", "cuda.threadIdx.x"),
        ("helper(x[i])", "(lambda v: v)(x[i])"),
    ],
)
def test_a_change_of_the_source_counts(old, new):
    assert old in KERNEL
    assert of(defined()) != of(defined(KERNEL.replace(old, new)))


VALUES = [
    *(0, 1, True, 1.0, 0.0, -0.0, 1j, "1", b"1", None, (1,), (1, 2), ((1,), 2), ()),
    *(np.int32(1), np.int64(1), np.float32(1), np.float64(1), np.datetime64(1, "s")),
    *(np.datetime64(1, "ms"), np.dtype("f4"), np.float32, np.dtype("i4,f4"), float, int),
    np.dtype("i4,f4", align=True),
    np.dtype({"names": ["a", "b"], "formats": ["i4", "f4"], "offsets": [0, 8]}),
    *(np.arange(4), np.arange(4.0), np.arange(4)[::-1], np.arange(4).reshape(2, 2)),
    np.arange(4).reshape(2, 2).T,
    np.zeros(3, "i4,f4"),
    *(Colour.RED, Colour.BLUE, Colour, Point(1, 2), Point(2, 1), Point),
    *(math.sin, math.cos, len, abs, np.sin, np.cos, cuda.grid, cuda.shared, cuda.local),
    *(cuda.threadIdx, cuda.blockIdx, cuda.atomic.add, cuda.float32x2, ValueError, KeyError),
]


def test_each_value_that_a_global_can_have_is_told_from_the_others():
    found = [reading(value) for value in VALUES]
    assert len(set(found)) == len(VALUES)
    assert found == [reading(value) for value in VALUES]


def test_whether_an_array_can_be_written_to_counts():
    array = np.arange(4)
    before = reading(array)
    array.flags.writeable = False
    assert reading(array) != before


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=4), st.integers(0, 3))
def test_every_element_of_a_captured_array_counts(values, at):
    array = np.array(values)
    before = reading(array)
    assert before == reading(array.copy())
    array[at % len(values)] += 1
    assert reading(array) != before


def test_what_is_not_read_does_not_count():
    assert of(defined(OTHER=1)) == of(defined(OTHER=2))


def test_a_closure_variable_counts():
    source = """
    def outer(n):
        def kernel(x): x[0] = n
        return kernel
    kernel = outer(VALUE)
    """
    assert of(defined(source, VALUE=1)) != of(defined(source, VALUE=2))
    assert of(defined(source, VALUE=1)) == of(defined(source, VALUE=1))


@pytest.mark.parametrize(
    "use", ["VALUE", "helpers.VALUE", "deep.helpers.VALUE", "(lambda: helpers.VALUE)()"]
)
def test_a_global_read_through_modules_counts(use):
    def one(value):
        helpers, deep = types.ModuleType("helpers"), types.ModuleType("deep")
        helpers.VALUE, helpers.OTHER, deep.helpers = value, object(), helpers
        source = f"def kernel(x): x[0] = {use}"
        return of(defined(source, VALUE=value, helpers=helpers, deep=deep))

    assert one(1) == one(1)
    assert one(1) != one(2)


@pytest.mark.parametrize("use", ["given(helpers)", "given(deep.helpers)", "[helpers][0].VALUE"])
def test_a_module_that_is_given_on_is_refused(use):
    helpers, deep = types.ModuleType("helpers"), types.ModuleType("deep")
    helpers.VALUE, deep.helpers = 1, helpers
    given = defined("def kernel(module): return module.VALUE")
    kernel = defined(f"def kernel(x): x[0] = {use}", helpers=helpers, deep=deep, given=given)
    with pytest.raises(NotByValue, match=r"the module (deep\.)?helpers is put into a variable"):
        of(kernel)
    of(defined("def kernel(x, module=None):\n m = math\n x[0] = m.sin(1.0)", math=math))


def test_what_a_program_puts_into_a_foreign_module_counts(monkeypatch):
    kernel = defined("def kernel(x): x[0] = math.own", math=math)
    found = set()
    for value in (1, 2, defined("def kernel(): return 1"), defined("def kernel(): return 2")):
        monkeypatch.setattr(math, "own", value, raising=False)
        found.add(of(kernel))
    assert len(found) == 4


def test_a_module_is_read_by_names_with_large_numbers_too():
    many = "".join(f" n{number}\n" for number in range(300))
    found = set()
    for value in (1, 2):
        helpers = types.ModuleType("helpers")
        helpers.VALUE = value
        found.add(of(defined(f"def kernel(x):\n{many} x[0] = helpers.VALUE", helpers=helpers)))
    assert len(found) == 2


def test_flags_without_a_name_are_told_apart():
    class Flags(enum.IntFlag):
        ONE = 1

    assert reading(Flags(64)) != reading(Flags(128))


def test_functions_that_call_each_other_are_followed_once():
    source = """
    def even(n): return True if n == 0 else odd(n - 1)
    def odd(n): return ODD if n == 0 else even(n - 1)
    def kernel(x): x[0] = even(3)
    """
    assert of(defined(source, ODD=False)) == of(defined(source, ODD=False))
    assert of(defined(source, ODD=False)) != of(defined(source, ODD=True))


@pytest.mark.parametrize(
    "made",
    [
        lambda helper: cuda.jit(device=True)(helper),
        lambda helper: roc.jit(device=True)(helper),
        lambda helper: cuda.jit(helper),
        lambda helper: __import__("numba").njit(helper),
        lambda helper: helper,
    ],
)
def test_helpers_of_all_kinds_are_followed(made):
    def one(factor):
        helper = defined("def kernel(v): return v * FACTOR", FACTOR=factor)
        return reading(made(helper))

    assert one(1) == one(1)
    assert one(1) != one(2)


def test_options_of_a_device_function_count():
    helper = defined("def kernel(v): return v")
    ways = [{}, {"fastmath": True}, {"fastmath": {"nnan"}}, {"debug": True}]
    assert len({reading(cuda.jit(device=True, **way)(helper)) for way in ways}) == len(ways)
    declared = cuda.jit("float32(float32)", device=True)(helper)
    assert reading(declared) != reading(cuda.jit(device=True)(helper))


def test_a_name_that_is_not_there_yet_counts():
    source = "def kernel(x): x[0] = LATER"
    assert of(defined(source)) != of(defined(source, LATER=None))
    shadowed = "def kernel(x): x[0] = abs(x[1])"
    assert of(defined(shadowed)) != of(defined(shadowed, abs=math.sin))


def test_a_moved_file_has_the_same_digest_and_its_new_name():
    here, there = Digest(), Digest()
    here.add(defined(filename="a.py"), "kernel")
    there.add(defined(filename="b.py"), "kernel")
    assert here.hexdigest() == there.hexdigest()
    assert (here.files, there.files) == (["a.py"], ["b.py"])


def test_exceptions_are_found_by_name():
    class Late(Exception):
        pass

    reached = Digest()
    reached.add(defined("def kernel(x):\n if x[0]: raise Late('now')", Late=Late), "kernel")
    assert list(reached.exceptions.values()) == [Late]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (object(), "builtins.object"),
        ({"a": 1}, "builtins.dict"),
        (np.array([None]), "Python objects"),
        (type("Odd", (), {}), "builtins.type"),
        (np.ma.zeros(2), "MaskedArray"),
        ("".join, "builtin_function_or_method"),
    ],
)
def test_a_value_that_cannot_be_compared_is_refused_with_its_name(value, named):
    with pytest.raises(NotByValue, match=rf"VALUE.*{named}"):
        reading(value)


def test_what_a_program_taught_numba_is_refused():
    done = _run("""
    from numba import types
    from numba.extending import intrinsic, overload, overload_method
    from test_cache_digest import NotByValue, defined, of

    def twice(v): return 2 * v

    @overload(twice)
    def _(v): return lambda v: 2 * v

    @overload_method(types.Array, "middle")
    def _(a): return lambda a: a[a.size // 2]

    @intrinsic
    def magic(context, v): return v(v), lambda context, builder, sig, args: args[0]

    for call in ("twice(x[0])", "x.middle()", "magic(x[0])", "x.mean()"):
        source = f"def kernel(x): x[0] = {call}"
        try:
            of(defined(source, twice=twice, magic=magic))
            print("kept")
        except NotByValue as error:
            print("not kept")
    """)
    assert done == ["not kept", "not kept", "not kept", "kept"]


def test_the_digest_is_the_same_in_each_process():
    program = """
    from test_cache_digest import *
    from haulage.platforms import PLATFORMS
    kernel = defined("def kernel(x):\\n if x[0] in {'a', 'b', 'c'}: x[0] = helper(x[0])",
                     helper=cuda.jit(device=True, fastmath={"nnan", "ninf"})(defined()))
    print(digest(kernel, (Point,), PLATFORMS["cpu"].identity("host"), Options()).hexdigest())
    """
    found = {_run(program, PYTHONHASHSEED=seed)[0] for seed in ("1", "2")}
    assert len(found) == 1


def test_versions_processor_options_and_arguments_count(monkeypatch):
    kernel = defined()

    def key(dtype="i4", target=("cpu", "32"), options=None):
        arguments = (("scalar", np.dtype(dtype)),)
        return digest(kernel, arguments, target, options or Options()).hexdigest()

    plain = key()
    assert key() == plain
    others = [
        key("i8"),
        key(target=("cpu", "64")),
        key(options=Options(fastmath=True)),
        key(options=Options(debug=True)),
    ]
    known = software.version_of
    for package in ("numba", "llvmlite"):
        with monkeypatch.context() as patch:
            patch.setattr(
                software, "version_of", lambda name, p=package: "0.1" if name == p else known(name)
            )
            others.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(software, "_sources", lambda: "changed")
        others.append(key())
    with monkeypatch.context() as patch:
        patch.setenv("NUMBA_DEBUG", "1")
        others.append(key())
    assert plain not in others
    assert len(set(others)) == len(others)


def test_another_processor_counts(monkeypatch, tmp_path):
    def told(text):
        (tmp_path / "cpuinfo").write_text(text)
        return processor.instruction_sets()

    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    one = "processor : 0\nmodel name : A\nflags : sse2 avx2\ncpu MHz : 2000\n\n"
    assert told(one) == told(one.replace("2000", "1500")) == told(one + one.replace(": 0", ": 1"))
    assert told(one) != told(one.replace("avx2", "avx2 avx512f"))
    assert told(one) != told(one.replace("name : A", "name : B"))
    assert told(one) != told(one + one.replace("avx2", ""))
    # Where the system does not tell what a processor can, LLVM is asked.
    assert told("processor : 0\nmodel name : A\n") == ()
    assert len(identity._processor.__wrapped__()) == 3


def test_the_level_of_processors_and_the_passes_that_were_chosen_count(monkeypatch):
    found = []
    for level in ("", "x86-64-v2", "x86-64-v3"):
        monkeypatch.setenv("HAULAGE_CPU", level)
        found.append(identity.identity())
    monkeypatch.setenv("HAULAGE_CPU_PASSES", "-unroll-and-jam")
    found.append(identity.identity())
    assert len(set(found)) == 4


@pytest.mark.parametrize(
    ("kind", "architecture", "library"),
    [("nvidia", "sm_90", libdevice), ("amd", "gfx942", device_library)],
)
def test_the_library_of_mathematics_counts(kind, architecture, library, monkeypatch, tmp_path):
    def found(path):
        monkeypatch.setattr(library, "find", lambda: path)
        return PLATFORMS[kind].identity(architecture)

    # As an update of ROCm, or of the wheel, leaves another file by the same name.
    paths = [tmp_path / release / library.FILE for release in ("old", "new", "same")]
    for path, content in zip(paths, (b"old", b"new", b"old"), strict=True):
        path.parent.mkdir()
        path.write_bytes(content)
    old, new, same = map(found, paths)
    assert old != new
    assert old == same


@pytest.mark.parametrize("kind", ["nvidia", "amd"])
def test_whether_there_is_such_a_library_counts(kind, monkeypatch, tmp_path):
    def missing():
        raise CompileError("nowhere")

    architecture = {"nvidia": "sm_90", "amd": "gfx942"}[kind]
    library = {"nvidia": libdevice, "amd": device_library}[kind]
    (tmp_path / library.FILE).write_bytes(b"there")
    monkeypatch.setattr(library, "find", lambda: tmp_path / library.FILE)
    there = PLATFORMS[kind].identity(architecture)
    monkeypatch.setattr(library, "find", missing if kind == "nvidia" else lambda: None)
    assert PLATFORMS[kind].identity(architecture) != there


def test_versions_are_those_of_the_packages():
    import importlib.metadata

    for package in ("numba", "llvmlite"):
        assert software.version_of(package) == importlib.metadata.version(package)


def test_words_are_known_by_names_of_their_own():
    words = {}
    spaces = [cuda, roc, *(m for m in vars(lang).values() if isinstance(m, types.ModuleType))]
    while spaces:
        for value in vars(spaces.pop()).values():
            if _is_word(value) and id(value) not in words:
                words[id(value)] = value
                spaces.append(value)
    assert len(words) > 100
    names = [_word_name(value) for value in words.values()]
    assert len(set(names)) == len(names)


def _run(program, **variables):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, **variables},
        cwd=os.path.dirname(__file__),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]
