"""LLVM's linker in the place of Haulage's, where the environment asks for it."""

import stat

import pytest

import haulage
from doubles import amd_linked, amd_objects
from haulage import cuda
from haulage.errors import CompileError, Unsupported
from haulage.targets.amd_linker import link
from haulage.targets.amd_metadata import kernels
from nodevice.targets.amd_linker.test_linking import EVERYTHING, PLAIN
from support.amd_objects import amd_object, linked_by_lld, tool

LINKER = """#!/bin/sh
if [ "$1" = --version ]; then echo "Debian LLD {version}.0.1 (compatible with GNU)"; exit; fi
{does}
"""
# The name of the file to make is the one behind -o.
MAKES = """while [ "$1" != -o ]; do shift; done; printf 'made by {version}' > "$2" """


def make_linker(folder, name: str, version: int, does: str = MAKES) -> str:
    """A linker of some version in a folder, which becomes a part of PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(LINKER.format(version=version, does=does.format(version=version)))
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A folder that alone is searched for linkers, behind the system's programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
    monkeypatch.setenv("HAULAGE_AMD_LINKER", "lld")
    return tmp_path


def test_its_own_linker_runs_no_program(path, monkeypatch):
    make_linker(path, "ld.lld", 19)
    monkeypatch.setenv("HAULAGE_AMD_LINKER", "haulage")
    assert link(amd_object(PLAIN)).startswith(b"\x7fELF")
    monkeypatch.delenv("HAULAGE_AMD_LINKER")
    assert link(amd_object(PLAIN)).startswith(b"\x7fELF")


def test_rocms_linker_goes_first(path):
    make_linker(path, "ld.lld-19", 19)
    make_linker(path / "rocm" / "llvm" / "bin", "ld.lld", 18)
    assert link(amd_object(PLAIN)) == b"made by 18"


def test_the_newest_of_path_is_taken_and_old_ones_are_passed_over(path):
    make_linker(path, "ld.lld", 14)
    make_linker(path, "ld.lld-16", 16)
    make_linker(path, "ld.lld-20", 20)
    make_linker(path / "rocm" / "llvm" / "bin", "ld.lld", 14)
    assert link(amd_object(PLAIN)) == b"made by 20"


def test_a_linker_without_a_number_in_its_name_is_asked_for_it(path):
    make_linker(path, "ld.lld", 17)
    assert link(amd_object(PLAIN)) == b"made by 17"


def test_where_there_is_none_that_is_said(path):
    with pytest.raises(Unsupported, match=r"no ld\.lld of LLVM 15 or newer in ROCM_PATH.* PATH; "):
        link(amd_object(PLAIN))


def test_where_there_are_old_ones_only_they_are_named(path):
    old = make_linker(path, "ld.lld", 14)
    with pytest.raises(Unsupported, match=rf"or newer in .*\({old} is LLD 14\); install ROCm or"):
        link(amd_object(PLAIN))


def test_a_path_names_a_linker(path, monkeypatch):
    monkeypatch.setenv("HAULAGE_AMD_LINKER", make_linker(path / "mine", "any", 3))
    assert link(amd_object(PLAIN)) == b"made by 3"
    monkeypatch.setenv("HAULAGE_AMD_LINKER", str(path / "mine" / "none"))
    with pytest.raises(Unsupported, match="mine/none: there is no such program"):
        link(amd_object(PLAIN))
    monkeypatch.setenv("HAULAGE_AMD_LINKER", str(path))
    with pytest.raises(Unsupported, match="there is no such program"):
        link(amd_object(PLAIN))


def test_other_words_are_refused(monkeypatch):
    monkeypatch.setenv("HAULAGE_AMD_LINKER", "ldd")
    with pytest.raises(ValueError, match="'ldd': expected haulage, lld or the path of an"):
        link(amd_object(PLAIN))


def test_what_a_linker_says_is_in_the_error(path):
    program = make_linker(path, "ld.lld", 19, "echo it is too hot >&2; exit 7")
    with pytest.raises(CompileError, match=f"{program} failed with 7: it is too hot"):
        link(amd_object(PLAIN))


def test_the_real_one_takes_the_same_options(monkeypatch, tmp_path):
    monkeypatch.setenv("HAULAGE_AMD_LINKER", tool("ld.lld"))
    assert link(amd_object(EVERYTHING)) == linked_by_lld(amd_object(EVERYTHING), tmp_path)
    undefined = "declare i32 @it(i32)\n" + PLAIN.replace(
        "ret void", "%c = call i32 @it(i32 %n)\n ret void"
    )
    with pytest.raises(CompileError, match="undefined symbol: it"):
        link(amd_object(undefined))


def test_no_linker_sees_arguments_that_older_runtimes_take_for_the_launchs(monkeypatch):
    @cuda.jit
    def first(x):
        shared = cuda.shared.array(0, "int32")
        shared[cuda.threadIdx.x] = x[0]
        cuda.syncthreads()
        x[0] = shared[0] + shared.size + cuda.blockDim.x

    def kinds():
        made = haulage.compile(first, "void(int32[::1])", "gfx942").code
        (kernel,) = kernels(made).values()
        return [(each.kind, each.offset) for each in kernel.arguments], kernel.dynamic_shared_at

    ours, _ = kinds()
    monkeypatch.setenv("HAULAGE_AMD_LINKER", tool("ld.lld"))
    theirs, at = kinds()
    assert theirs == ours
    assert "hidden_none" in dict(theirs)
    assert at is None


def test_each_kernel_that_the_tests_link_goes_to_llvms_linker_too(monkeypatch):
    @cuda.jit
    def first(x):
        x[0] = 1

    compared = []
    monkeypatch.setattr(amd_linked, "assert_as_lld", lambda *given: compared.append(given))
    monkeypatch.setattr(amd_objects, "linker", lambda: "an ld.lld")
    before = amd_objects.remember()
    try:
        code = haulage.compile(first, "void(int32[::1])", "gfx942").code
        amd_objects.check(code)
        ((object_, _, program),) = compared
        assert (link(object_), program) == (code, "an ld.lld")
        amd_objects.check(code)
        assert len(compared) == 1
    finally:
        amd_objects.forget(before)
