"""Run the Python blocks of Markdown pages: `python scripts/run_blocks.py README.md docs/*.md`.

The blocks of one page run in order and share their names, as a reader would type them.
"""

import re
import sys
from pathlib import Path

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[int, str]]:
    """The (line number of its first line, source) of each Python block of `page`, in order."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start(1)) + 1, m.group(1)) for m in _BLOCK.finditer(text)]


def run_page(page: Path) -> int:
    """Run all Python blocks of `page`; returns how many there were. Their errors pass through."""
    names: dict[str, object] = {"__name__": "__main__", "__file__": str(page)}
    found = blocks(page)
    for line, source in found:
        # Blank lines before the block make line numbers in errors those of the page.
        exec(compile("\n" * (line - 1) + source, str(page), "exec"), names)
    return len(found)


def main(pages: list[str]) -> int:
    """Run each page's blocks and say how many ran."""
    for page in pages:
        print(f"{page}: {run_page(Path(page))} blocks ran")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
