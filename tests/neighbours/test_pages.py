"""Pages of docs/ that use other packages where those are installed (`find_spec`) run with them."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_WANTED = re.compile(r"find_spec\(\"(\w+)\"\)")
_PAGES = {
    page: sorted(set(_WANTED.findall(page.read_text(encoding="utf-8"))))
    for page in sorted((_ROOT / "docs").glob("*.md"))
}


@pytest.mark.parametrize("page", [page for page in _PAGES if _PAGES[page]], ids=lambda p: p.name)
def test_a_page_runs_with_the_packages_that_are_installed(page: Path, tmp_path: Path) -> None:
    installed = [name for name in _PAGES[page] if importlib.util.find_spec(name)]
    if not installed:
        pytest.skip(f"none of {', '.join(_PAGES[page])} is installed; make test-neighbours does it")
    done = subprocess.run(
        [sys.executable, str(_ROOT / "scripts" / "run_blocks.py"), str(page)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_there_are_such_pages() -> None:
    assert _PAGES[_ROOT / "docs" / "exchange.md"] == ["cupy", "jax", "torch"]
