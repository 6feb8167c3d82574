"""What stands in a line of the program: the words that were called and given, as it has them."""

import ast
import linecache
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from haulage.runtime.process.call_sites import CallSite

_HINTS = ("In", "Out", "InOut")


def call_at(call_site: "CallSite") -> ast.Call | None:
    """The call that a call site is in; None: its source is not there, or it is in no call."""
    if not call_site:
        return None
    code, at = call_site[0]
    place = next(islice(code.co_positions(), at // 2, None), None)
    if place is None or None in place:
        return None
    return _calls(code.co_filename).get(place)


@cache
def _calls(filename: str) -> dict[tuple[int | None, ...], ast.Call]:
    """The calls in a file, by (first line, last line, first column, last column)."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError):
        return {}
    return {
        (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset): node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    }


def argument(call: ast.Call | None, path: tuple[int, ...], name: str) -> ast.expr | None:
    """What a call gives for an argument, without a hint such as `cuda.In`; None: not to be told.

    `path` is the argument's number, followed by places in tuples.
    """
    number, *places = path
    if call is None:
        return None
    given: ast.expr | None = None
    if any(isinstance(each, ast.Starred) for each in call.args[: number + 1]):
        return None
    if number < len(call.args):
        given = call.args[number]
    else:
        given = next((each.value for each in call.keywords if name and each.arg == name), None)
    for place in places:
        if given is not None:
            given = _entry(given, place)
    if is_hinted(given):
        assert isinstance(given, ast.Call)
        return given.args[0]
    return given


def _entry(given: ast.expr, place: int) -> ast.expr:
    if isinstance(given, ast.Tuple) and not any(isinstance(e, ast.Starred) for e in given.elts):
        return given.elts[place]
    return ast.Subscript(given, ast.Constant(place), ast.Load())


def is_hinted(given: ast.expr | None) -> bool:
    """Whether an argument has a hint such as `cuda.In`."""
    return (
        isinstance(given, ast.Call)
        and len(given.args) == 1
        and isinstance(given.func, ast.Attribute)
        and given.func.attr in _HINTS
    )


def receiver(call: ast.Call | None) -> str:
    """The words before the last dot of what is called: 'd_x' of `d_x.copy_to_host()`."""
    if call is None or not isinstance(call.func, ast.Attribute):
        return ""
    return ast.unparse(call.func.value)
