"""How `make test-neighbours` installs packages, and what is said of those that it cannot."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from support import neighbours

_INSTALLER = runpy.run_path(str(Path(__file__).with_name("__main__.py")))


@pytest.fixture
def python(tmp_path):
    """A stand-in for the environment's Python, whose pip can install all but `bad`."""
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n'
        'case "$*" in *bad*) echo note >&2; echo "ERROR: no bad today" >&2; echo more >&2; exit 1;;'
        " esac\n"
    )
    program.chmod(0o755)
    return program


def test_a_file_names_others():
    wanted = _INSTALLER["requirements"](neighbours.LISTS / "requirements.txt")
    assert {"joblib", "torch==2.13.0", "dask[array]"} <= set(wanted)


def test_packages_are_installed_together(python, tmp_path):
    assert _INSTALLER["install"](python, ["one", "two"]) == {}
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_one_that_cannot_be_installed_is_noted_and_does_not_stop_the_rest(python, tmp_path, capsys):
    listed = tmp_path / "list.txt"
    listed.write_text("one  # why\nbad==2\ntwo\n")
    (tmp_path / "neighbours.json").write_text('{"large": "was not there", "one": "nor this"}')
    assert _INSTALLER["main"](str(tmp_path), str(listed)) == 0
    assert [call.split()[-1] for call in (tmp_path / "calls").read_text().splitlines()] == [
        ".[demo,dev]",
        *("two", "one", "bad==2", "two"),
    ]
    noted = json.loads((tmp_path / "neighbours.json").read_text())
    assert noted == {"large": "was not there", "bad==2": "ERROR: no bad today"}
    told = capsys.readouterr().out
    assert "bad==2 cannot be installed, and its tests are skipped: ERROR: no bad today" in told


def test_tests_of_a_package_that_is_not_there_skip_with_the_reason(tmp_path, monkeypatch):
    with pytest.raises(pytest.skip.Exception, match="make test-neighbours installs it"):
        neighbours.neighbour("no_such_module", "no-such")
    (tmp_path / "neighbours.json").write_text('{"no-such==1": "ERROR: no such today"}')
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match="not installed: ERROR: no such today"):
        neighbours.neighbour("no_such_module", "no-such")


def test_a_package_that_lacks_another_is_no_reason_to_skip(tmp_path, monkeypatch):
    (tmp_path / "has_no_friend.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        neighbours.neighbour("has_no_friend")


def test_versions_are_those_of_the_packages_in_the_files():
    found = neighbours.versions()
    assert {"dask", "torch", "cupy-cuda12x"} <= set(found)
