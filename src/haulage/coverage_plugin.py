"""The plug-in for coverage.py: `[run] plugins = haulage.coverage_plugin`.

Kernels are counted (`checking/counted_launches.py`) from where coverage.py loads it, and lines and
arcs that threads did are added to its data, of those files only that it measures itself. Plug-ins
of coverage.py can say which lines a file has, but not which were executed, so this one goes around
four methods of `coverage.Coverage`: those by which measuring starts, stops and changes its
context, and by which the data are taken to be saved or reported.
"""

import functools
import os
from collections.abc import Callable
from typing import Any

from haulage.checking.session import Session
from haulage.compiler.checks.counters import COVERAGE
from haulage.extras import how_to_install

try:
    import coverage
except ImportError as error:
    raise ImportError(
        f"haulage.coverage_plugin: coverage.py is missing: {how_to_install('coverage')}"
    ) from error


class KernelCoverage:
    """Adds what threads of kernels did to the data of the `coverage.Coverage` that measures."""

    def __init__(self) -> None:
        self._session = Session({COVERAGE})
        self._session.begin()
        self._folder = os.getcwd()

    def skip(self) -> None:
        """Let what was done by now belong to nobody's data."""
        self._session.settle()
        self._session.forget()

    def add_to(self, data: Any, branches: bool) -> None:
        """Add to `CoverageData` what was done since the last time, lines or arcs."""
        self._session.settle()
        done = self._session.coverage(alive=False)
        self._session.forget()
        assert done is not None
        # Names are relative to the current folder of the start, if they are.
        measured = {
            os.path.realpath(os.path.join(self._folder, name)): name
            for name in data.measured_files()
        }
        arcs: dict[str, set[tuple[int, int]]] = {}
        for file, functions in done.files.items():
            name = measured.get(os.path.realpath(os.path.join(self._folder, file)))
            if name is not None:
                arcs[name] = {a for each in functions for a, count in each.arcs.items() if count}
        if branches:
            data.add_arcs(arcs)
        else:
            data.add_lines(
                {name: {line for _, line in each if line > 0} for name, each in arcs.items()}
            )


@functools.cache
def _follow() -> KernelCoverage:
    """Go around the methods, once in a process, and count from now on."""
    kernels = KernelCoverage()
    owner: Any = coverage.Coverage
    start, stop, switch, get = owner.start, owner.stop, owner.switch_context, owner.get_data

    def add_to(measuring: Any) -> None:
        kernels.add_to(get(measuring), bool(measuring.get_option("run:branch")))

    def is_measuring(asked: Any) -> bool:
        return owner.current() is asked

    def around(method: Callable[..., Any], made: Callable[..., Any]) -> None:
        setattr(owner, method.__name__, functools.wraps(method)(made))

    def start_anew(self: Any) -> None:
        kernels.skip()
        start(self)

    def stop_and_add(self: Any) -> None:
        measures = is_measuring(self)
        stop(self)
        if measures:
            add_to(self)

    def add_and_switch(self: Any, new_context: str) -> Any:
        if is_measuring(self):
            add_to(self)
        return switch(self, new_context)

    def add_and_get(self: Any) -> Any:
        if is_measuring(self):
            add_to(self)
        return get(self)

    for method, made in (
        (start, start_anew),
        (stop, stop_and_add),
        (switch, add_and_switch),
        (get, add_and_get),
    ):
        around(method, made)
    return kernels


def coverage_init(reg: Any, options: dict[str, str]) -> None:
    """What coverage.py calls to load the plug-in.

    Raises:
        ValueError: it is given options, of which it has none.
    """
    if options:
        raise ValueError(
            f"[haulage.coverage_plugin]: {', '.join(options)}: this plug-in has no options"
        )
    _follow()
