"""docs/programs.md is what the catalogue and the recorded runs of `make test-programs` say."""

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]


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
