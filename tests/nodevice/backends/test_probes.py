"""Looking for the drivers of GPUs: what was tried, and what came back."""

import ctypes

import pytest

from haulage import platforms
from haulage.backends import libraries
from haulage.backends.amd_driver import looking as amd
from haulage.backends.nvidia_driver import looking


def test_a_library_that_is_not_there_is_told_with_every_place_that_was_tried(tmp_path):
    found = libraries.search(("libnothing_at_all.so.9",), [None, str(tmp_path)])
    assert found.library is None
    assert found.looked_for == (
        "libnothing_at_all.so.9",
        str(tmp_path / "libnothing_at_all.so.9"),
    )
    assert "libnothing_at_all" not in libraries.failures(found)
    assert "no such file" in libraries.failures(found)


def test_a_file_that_is_no_library_is_told(tmp_path):
    (tmp_path / "libbroken.so").write_bytes(b"not a library")
    found = libraries.search(("libbroken.so",), [str(tmp_path)])
    assert found.library is None
    assert found.attempts[-1][0] == str(tmp_path / "libbroken.so")
    assert found.attempts[-1][1] not in ("loaded", "no such file")


@pytest.mark.parametrize("module", [looking, amd])
def test_another_library_of_the_same_name_is_told(monkeypatch, module):
    monkeypatch.setattr(ctypes, "CDLL", lambda name, mode=0: object())
    probe = module.probe()
    assert "not the" in probe.answer
    assert not probe.available


@pytest.mark.parametrize(("kind", "library"), [("nvidia", "libcuda"), ("amd", "libamdhip64")])
def test_each_platform_names_the_library_it_looked_for(kind, library):
    probe = platforms.PLATFORMS[kind].probe()
    assert any(library in name for name in probe.looked_for)
    assert probe.answer
