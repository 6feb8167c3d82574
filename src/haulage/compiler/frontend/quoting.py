"""Lines of the program in messages, with what they are about underlined."""

import ast
import linecache
import sys
from typing import Any


def quoted(filename: str, line: int, mark: str = "") -> list[str]:
    """A line of a file, and one that underlines the expression `mark` (as `ast.unparse` writes it)
    if it stands there; nothing if the source is not known."""
    text = linecache.getline(filename, line)
    if not text.strip():
        return []
    lines = [f"    {text.strip()}"]
    span = _span(filename, line, mark) if mark else None
    if span is not None:
        indent = len(text) - len(text.lstrip())
        start, end = (len(text.encode()[:column].decode()) - indent for column in span)
        lines.append(f"    {' ' * start}{'^' * max(end - start, 1)}")
    return lines


def shown_place(filename: str, line: int) -> str:
    """A line of a file as messages name it; one of a notebook's cell as IPython does."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    name = getattr(getattr(shell, "compile", None), "format_code_name", lambda name: None)
    cell = name(filename)
    return f"{filename}:{line}" if cell is None else f"{' '.join(cell)}, line {line}"


def _span(filename: str, line: int, mark: str) -> tuple[int, int] | None:
    """From which to which byte of a line an expression stands there first."""
    source = linecache.getlines(filename)
    try:
        tree = ast.parse("".join(source))
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and node.lineno == line and ast.unparse(node) == mark:
            ends_there = node.end_lineno == line and node.end_col_offset is not None
            end = node.end_col_offset if ends_there else len(source[line - 1].rstrip().encode())
            return node.col_offset, int(end or 0)
    return None
