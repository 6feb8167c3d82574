"""docs/programs.md is what the catalogue and the recorded runs of `make test-programs` say."""

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]


def _programs(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(_ROOT / "tests" / "programs"), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_page_is_made_from_the_catalogue_and_the_recorded_runs() -> None:
    done = _programs("--page")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (_ROOT / "docs" / "programs.md").read_text(encoding="utf-8")


def test_a_program_that_is_not_there_is_answered_with_those_that_are() -> None:
    done = _programs("nosuchprogram")
    assert done.returncode == 1
    assert "no program nosuchprogram; there are:" in done.stderr
    assert "stumpy" in done.stderr


def test_a_program_that_cannot_be_installed_has_failed_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "venv.py").write_text("import sys\nsys.exit('no environment today')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = _programs("frbb", "stumpy", "--folder", str(tmp_path / "kept"))
    assert done.returncode == 1
    assert done.stdout.count("no environment today") == 2
    assert "a package index has to be in reach" in done.stdout
    assert done.stdout.endswith("0 passed, 2 failed\n")
    assert "Traceback" not in done.stderr
