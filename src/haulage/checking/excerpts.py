"""Lines of the program with what was found in them marked."""

import ast
import linecache
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

# Lines above and below one that is marked.
AROUND = 2

# Source text by file, for files that only the process of the program can read.
Sources = Mapping[str, Mapping[int, str]]

# What is done by a subscript that is assigned to, and by one that is not.
_CONTEXTS = {"write": ast.Store, "read": ast.Load}


@dataclass(frozen=True)
class Mark:
    """Something to be said of a line.

    Attributes:
        line: its number.
        what: what was done there, as `Access.what` has it.
        array: the array that it was done to, or "".
        text: what is said.
    """

    line: int
    what: str
    array: str
    text: str


def line_of(file: str, number: int, sources: Sources) -> str:
    """A line's text, without its end; "" if it cannot be read."""
    told = sources.get(file)
    text = told.get(number, "") if told is not None else linecache.getline(file, number)
    return text.rstrip().expandtabs(4)


def excerpts(file: str, marks: list[Mark], sources: Sources) -> list[list[str]]:
    """The marked lines of a file with their neighbours and numbers: a list of lines for each part
    of the file; none if the file cannot be read."""
    marks = [mark for mark in marks if line_of(file, mark.line, sources)]
    parts = [
        _trimmed([(number, line_of(file, number, sources)) for number in part], marks)
        for part in _parts(sorted({mark.line for mark in marks}))
    ]
    width = len(str(parts[-1][-1][0])) if parts else 0
    found = []
    for part in parts:
        lines = []
        for number, text in part:
            lines.append(f"{number:>{width}} | {text}".rstrip())
            for mark in marks:
                if mark.line == number:
                    lines.append(f"{'':>{width}} | {underline(text, mark)} {mark.text}")
        found.append(lines)
    return found


def _trimmed(lines: list[tuple[int, str]], marks: list[Mark]) -> list[tuple[int, str]]:
    """Lines without blank ones at both ends, and without what follows the marked function."""
    last = max(mark.line for mark in marks if mark.line <= lines[-1][0])
    if dict(lines)[last][:1].isspace():
        for place, (number, text) in enumerate(lines):
            if number > last and text and not text[0].isspace():
                lines = lines[:place]
                break
    while lines and not lines[-1][1]:
        lines.pop()
    while lines and not lines[0][1]:
        del lines[0]
    return lines


def _parts(marked: list[int]) -> Iterator[range]:
    """The lines to be shown: the marked ones with their neighbours, joined where they meet."""
    begin = end = 0
    for number in marked:
        if number - AROUND > end + 1:
            if end:
                yield range(begin, end + 1)
            begin = max(1, number - AROUND)
        end = number + AROUND
    if end:
        yield range(begin, end + 1)


def underline(text: str, mark: Mark) -> str:
    """Blanks and carets to be put below a line."""
    carets = [" "] * len(text)
    for begin, end in spans(text, mark.what, mark.array):
        carets[begin:end] = "^" * (end - begin)
    return "".join(carets).rstrip()


def spans(text: str, what: str, array: str) -> list[tuple[int, int]]:
    """Where in a line something was done to an array: the first column, and the one behind it."""
    tree, shift = _parsed(text)
    found = (
        [] if tree is None else [_columns(each, text, shift) for each in _nodes(tree, what, array)]
    )
    if not found and array:
        found = [(each.start(), each.end()) for each in _bracketed(text, array)]
    if not found:
        code = text.split(" #")[0].rstrip() or text
        found = [(len(code) - len(code.lstrip()), len(code))]
    return found


def _bracketed(text: str, array: str) -> Iterable[re.Match[str]]:
    return re.finditer(rf"(?<![\w.]){re.escape(array)}\b(?:\[[^\]]*\])?", text)


def _parsed(text: str) -> tuple[ast.AST | None, int]:
    """A line as a statement, and by how many columns it is to the left in that."""
    code = text.lstrip()
    shift = len(text) - len(code)
    for front, back in (
        ("", ""),
        ("", " pass"),
        ("if 1: pass\n", " pass"),
        ("try: pass\n", " pass"),
    ):
        try:
            tree = ast.parse(front + code + back)
        except (SyntaxError, ValueError):
            continue
        return (tree.body[-1] if front == "" else tree), shift
    return None, 0


def _nodes(tree: ast.AST, what: str, array: str) -> list[ast.expr]:
    """The expressions of a statement that do what was done."""
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    if not array:
        words = set(re.findall(r"\w+", what))
        return [each for each in calls if words & set(re.findall(r"\w+", ast.unparse(each.func)))]
    if what.startswith("atomic"):
        return [each for each in calls if each.args and ast.unparse(each.args[0]) == array]
    both = {id(each.target) for each in ast.walk(tree) if isinstance(each, ast.AugAssign)}
    kind = _CONTEXTS.get(what, ast.expr_context)
    every: list[ast.expr] = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.Subscript) and ast.unparse(each.value) == array
    ]
    return [
        each for each in every if isinstance(getattr(each, "ctx", None), kind) or id(each) in both
    ] or every


def _columns(node: ast.expr, text: str, shift: int) -> tuple[int, int]:
    # Those of nodes count bytes.
    code = text.lstrip().encode()
    begin, end = node.col_offset, node.end_col_offset or 0
    return shift + len(code[:begin].decode()), shift + len(code[:end].decode())


def shown(file: str) -> str:
    """The name of a file as it is shown: from the current folder on, where it is in that, and for a
    notebook's cell as IPython has it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", lambda file: None)
    cell = name_of(file)
    if cell is not None:
        return " ".join(cell)
    try:
        inside = os.path.relpath(file)
    except (OSError, ValueError):
        return file
    return file if not os.path.isabs(file) or inside.startswith(os.pardir) else inside
