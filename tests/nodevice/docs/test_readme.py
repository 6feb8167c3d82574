"""Every Python block of the README and of the pages in docs/ runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_RUNNER = _ROOT / "scripts" / "run_blocks.py"
_PAGES = [_ROOT / "README.md", *sorted((_ROOT / "docs").rglob("*.md"))]


def _run(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(_RUNNER), str(page)], cwd=folder, capture_output=True, text=True
    )


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    done = _run(page, tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_readme_has_a_program_that_says_what_it_prints(tmp_path: Path) -> None:
    done = _run(_ROOT / "README.md", tmp_path)
    assert "[1. 3. 5. 7.]" in done.stdout
    assert "1 blocks ran" in done.stdout


def test_a_block_that_fails_is_noticed_with_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Text.\n\n```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n")
    done = _run(page, tmp_path)
    assert done.returncode == 1
    assert "line 8" in done.stderr


def test_pictures_and_pages_that_the_readme_names_are_there() -> None:
    text = (_ROOT / "README.md").read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    named = re.findall(r"\]\(([^)]+)\)", prose)
    local = [name for name in named if "://" not in name]
    assert local
    assert [name for name in local if not (_ROOT / name).exists()] == []
