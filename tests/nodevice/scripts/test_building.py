"""What builds the extension: which compiler is taken, and that no more is compiled than needed."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


def script(name):
    path = ROOT / "scripts" / "building" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- the compiler -------------------------------------------------------------------------------


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A function that puts programs of these names on PATH, which has nothing else."""
    for name in ("CC", "LDSHARED"):
        monkeypatch.setenv(name, "")  # so that what is set is taken back
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path))

    def has(*names):
        for name in names:
            (tmp_path / name).touch(0o755)

    return has


@pytest.fixture
def compiler(monkeypatch):
    module = script("haulage_compiler")
    monkeypatch.setattr(module.sysconfig, "get_config_var", {"CC": "python-cc -pthread"}.get)
    return module


def test_the_compiler_of_this_python_is_left_to_setuptools(machine, compiler):
    machine("python-cc", "cc")
    compiler.choose()
    assert compiler.requirements() == []
    assert not {"CC", "LDSHARED"} & set(os.environ)


@pytest.mark.parametrize("name", ["cc", "gcc", "clang"])
def test_another_compiler_is_taken_where_that_is_not_there(machine, compiler, name):
    machine(name)
    compiler.choose()
    assert compiler.requirements() == []
    assert (os.environ["CC"], os.environ["LDSHARED"]) == (name, f"{name} -shared")


def test_the_one_that_is_named_is_taken(machine, compiler, monkeypatch):
    machine("mine", "cc", "python-cc")
    monkeypatch.setenv("CC", "mine -m64")
    compiler.choose()
    assert compiler.requirements() == []
    assert (os.environ["CC"], "LDSHARED" in os.environ) == ("mine -m64", False)


def test_one_that_is_named_and_not_there_is_an_error(machine, compiler, monkeypatch):
    machine("cc")
    monkeypatch.setenv("CC", "mine -m64")
    with pytest.raises(SystemExit, match="CC is 'mine -m64', and there is no such program"):
        compiler.requirements()


def test_zig_is_asked_for_where_there_is_no_compiler(machine, compiler):
    machine("ld")
    (wanted,) = compiler.requirements()
    assert wanted.startswith("ziglang")
    compiler.choose()
    zig = f"{sys.executable} -m ziglang cc -mcpu=baseline"
    assert (os.environ["CC"], os.environ["LDSHARED"]) == (zig, f"{zig} -shared")


@pytest.mark.parametrize("name", ["gcc", "python-cc"])
def test_a_compiler_that_is_there_is_enough(machine, compiler, name):
    machine(name)
    assert compiler.choose() is None


def test_no_compiler_and_no_zig_is_told(machine, compiler, monkeypatch):
    monkeypatch.setattr(compiler.importlib.util, "find_spec", {"ziglang": 1}.__getitem__)
    assert compiler.choose() is None
    monkeypatch.delenv("CC")
    monkeypatch.setattr(compiler.importlib.util, "find_spec", {"ziglang": None}.__getitem__)
    lacking = compiler.choose()
    assert lacking.startswith(
        "There is no C compiler: install one (cc, gcc, clang), or the package"
    )


@pytest.mark.parametrize("there", [True, False])
def test_the_backend_asks_for_zig_where_there_is_no_compiler(checkout, tmp_path, there):
    if there:
        (tmp_path / "cc").touch(0o755)
    code = (
        "import sys; sys.path.insert(0, 'scripts/building'); import haulage_build as b; "
        "print(b.get_requires_for_build_wheel() + b.get_requires_for_build_editable())"
    )
    environment = {name: os.environ[name] for name in os.environ if name not in ("CC", "LDSHARED")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=checkout,
        env={**environment, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].count("ziglang") == (0 if there else 2)


def test_a_build_without_a_compiler_says_what_to_install(checkout, tmp_path, monkeypatch):
    if importlib.util.find_spec("ziglang"):
        pytest.skip("Zig is installed here")
    for name in ("CC", "LDSHARED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run(checkout)
    assert done.returncode == 1
    assert "There is no C compiler: install one (cc, gcc, clang)" in done.stderr


def test_a_build_in_the_environment_of_the_tests_has_what_any_build_has():
    described = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = set(described["build-system"]["requires"])
    assert wanted <= set(described["project"]["optional-dependencies"]["dev"])


# ---- what is compiled ---------------------------------------------------------------------------

MODULE = """
#include <Python.h>
#include "shared.h"
static PyModuleDef_Slot slots[] = {{0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "NAME", .m_slots = slots};
PyMODINIT_FUNC PyInit_NAME(void) { return PyModuleDef_Init(&definition); }
"""
MODULES = """MODULES = {
    "built": ["built.c"],
    "one": ["one.c"],
    "two": ["two.pyx", "more.c"],
}
"""


@pytest.fixture
def checkout(tmp_path):
    """A checkout with an extension of three small modules."""
    if script("haulage_compiler").found() is None:
        pytest.skip("there is no C compiler")
    core = tmp_path / "src" / "haulage" / "_core"
    core.mkdir(parents=True)
    for name in ("freshness.py", "built.c"):
        shutil.copy(ROOT / "src" / "haulage" / "_core" / name, core)
    (core / "shared.h").touch()
    (core / "one.c").write_text(MODULE.replace("NAME", "one"))
    (core / "two.pyx").write_text("cdef extern from *:\n    int two()\nnumber = two()")
    (core / "more.c").write_text("int two(void) { return 2; }")
    shutil.copytree(ROOT / "scripts" / "building", tmp_path / "scripts" / "building")
    text = (ROOT / "setup.py").read_text()
    before, rest = text.split("MODULES = {", 1)
    (tmp_path / "setup.py").write_text(before + MODULES + rest.split("}\n", 1)[1])
    (tmp_path / "pyproject.toml").write_text(
        "[project]\nname = 'haulage'\nversion = '1'\n[tool.setuptools.package-dir]\n'' = 'src'\n"
    )
    return tmp_path


def built(checkout):
    """Which modules a build compiles."""
    before = libraries(checkout)
    done = run(checkout)
    assert done.returncode == 0, done.stderr
    after = libraries(checkout)
    in_place = {path.name for path in (checkout / "src").rglob(f"*{SUFFIX}")}
    assert {path.name for path in after} == in_place
    changed = [path for path, time in after.items() if time != before.get(path)]
    return " ".join(sorted(path.name.removesuffix(SUFFIX) for path in changed))


def libraries(checkout):
    """When each module was linked."""
    return {path: path.stat().st_mtime_ns for path in (checkout / "build").rglob(f"*{SUFFIX}")}


def run(checkout):
    return subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_a_build_compiles_the_modules_whose_sources_have_changed(checkout):
    core = checkout / "src" / "haulage" / "_core"
    assert built(checkout) == "built one two"
    assert built(checkout) == ""
    for source in core.glob("*.*"):
        source.touch()  # newer, and the same
    assert built(checkout) == ""
    with open(core / "one.c", "a") as source:
        source.write("\n")
    os.utime(core / "one.c", (1, 1))  # older, and another
    assert built(checkout) == "built one"
    (core / "more.c").write_text("int two(void) { return 3; }")
    os.utime(core / "more.c", (1, 1))
    assert built(checkout) == "built two"
    code = "import two; assert two.number == 3"
    subprocess.run([sys.executable, "-c", code], cwd=core, check=True, timeout=60)
    (core / "two.pyx").write_text("number = 4")
    os.utime(core / "two.pyx", (1, 1))
    assert built(checkout) == "built two"
    (core / "shared.h").write_text("#define SHARED 1")
    assert built(checkout) == "built one two"


def test_a_build_that_fails_leaves_the_extension_as_it_was(checkout):
    core = checkout / "src" / "haulage" / "_core"
    assert built(checkout) == "built one two"
    before = {path: path.read_bytes() for path in core.glob(f"*{SUFFIX}")}
    (core / "more.c").write_text("int two(void) { return }")
    assert run(checkout).returncode != 0
    assert {path: path.read_bytes() for path in core.glob(f"*{SUFFIX}")} == before
    (core / "more.c").write_text("int two(void) { return 2; }")
    assert "two" in built(checkout)


def test_a_source_with_the_name_of_what_cython_makes_is_an_error(checkout):
    (checkout / "src" / "haulage" / "_core" / "one.pyx").touch()
    setup = checkout / "setup.py"
    setup.write_text(setup.read_text().replace('["one.c"]', '["one.c", "one.pyx"]'))
    done = run(checkout)
    assert done.returncode == 1
    assert "one.c has the name of what Cython makes: give it another." in done.stderr


def test_a_source_of_no_module_is_an_error(checkout):
    (checkout / "src" / "haulage" / "_core" / "three.pyx").touch()
    done = run(checkout)
    assert done.returncode == 1
    assert "three.pyx is in no module: name it in MODULES of setup.py." in done.stderr


# ---- wheels -------------------------------------------------------------------------------------


def test_headers_are_those_of_the_folder_that_is_named(tmp_path, monkeypatch):
    wheels = script("wheels")
    monkeypatch.setattr(wheels, "interpreters", lambda version: [("python", tmp_path / "own")])
    assert wheels.headers("3.12", []) is None  # the interpreter has none
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "Python.h").touch()
    assert wheels.headers("3.12", []) == [tmp_path / "own"]
    place = tmp_path / "debian" / "usr" / "include"
    (place / "python3.12").mkdir(parents=True)
    (place / "python3.12" / "Python.h").touch()
    given = [tmp_path / "nothing", tmp_path / "debian"]
    assert wheels.headers("3.12", given) == [place / "python3.12", place]
    assert wheels.headers("3.13", given) == [tmp_path / "own"]


@pytest.mark.parametrize(("disabled", "count"), [("False", 1), ("True", 0)])
def test_interpreters_without_a_gil_are_passed_over(tmp_path, monkeypatch, disabled, count):
    wheels = script("wheels")
    python = tmp_path / "python3.99"
    python.write_text(f"#!/bin/sh\necho /include; echo {disabled}\n")
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    found = [(str(python), Path("/include"))] * count
    assert list(wheels.interpreters("3.99")) == found


def test_wheels_are_made_for_the_pythons_that_are_promised():
    assert script("wheels").versions() == ["3.11", "3.12", "3.13", "3.14"]
