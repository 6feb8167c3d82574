"""Where AMD's library of mathematics is looked for, and what is said of one that is of no use."""

import math

import pytest

import haulage
from haulage.compiler.gpu.amd import device_library
from haulage.errors import CompileError


def sine(x):
    x[0] = math.sin(x[1])


def compiled():
    return haulage.compile(sine, "void(float32[::1])", "gfx1030")


@pytest.fixture(autouse=True)
def looked_for_anew(monkeypatch):
    for name in (device_library.FOLDER, *device_library.VARIABLES):
        monkeypatch.delenv(name, raising=False)
    device_library.find.cache_clear()
    yield
    device_library.find.cache_clear()


@pytest.mark.parametrize(
    "inside",
    [
        "amdgcn/bitcode",
        "lib/llvm/lib/clang/19/lib/amdgcn/bitcode",
        "lib/x-linux-gnu/amdgcn/bitcode",
    ],
)
def test_it_is_looked_for_in_a_rocm_installation(inside, tmp_path, monkeypatch):
    folder = tmp_path / inside
    folder.mkdir(parents=True)
    (folder / "ocml.bc").touch()
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    assert device_library.find() == folder / "ocml.bc"


def test_a_folder_that_is_named_and_has_none_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("HIP_DEVICE_LIB_PATH", str(tmp_path))
    with pytest.raises(CompileError, match=rf"HIP_DEVICE_LIB_PATH={tmp_path}: there is no ocml.bc"):
        compiled()


def test_a_file_that_llvm_cannot_read_is_named(tmp_path, monkeypatch):
    (tmp_path / "ocml.bc").write_bytes(b"BC\xc0\xde of another time")
    monkeypatch.setenv("HIP_DEVICE_LIB_PATH", str(tmp_path))
    with pytest.raises(
        CompileError, match=rf"{tmp_path}/ocml.bc: LLVM \d+\..* cannot read it \(.+\)"
    ):
        compiled()
