"""Who asked for something: lines of the program, past Haulage's own and NumPy's."""

import contextlib
import sys

import numpy as np
import pytest

from haulage import cuda
from haulage.runtime.process import call_sites

HERE = __file__


def line():
    return sys._getframe(1).f_lineno


def test_the_innermost_line_of_the_program_is_kept():
    site, number = call_sites.site(call_sites.current()), line()
    assert (site.filename, site.line) == (HERE, number)
    assert str(site).startswith(f"{HERE}:{number} in test_the_innermost")


def test_a_line_is_that_of_the_call_and_not_of_the_function():
    def inner():
        return call_sites.current()

    kept = [
        inner(),
        inner(),
    ]
    lines = [call_sites.site(each).line for each in kept]
    assert lines[0] == lines[1] == inner.__code__.co_firstlineno + 1


def test_more_lines_are_kept_where_they_are_wanted():
    def inner():
        return call_sites.sites(call_sites.current())

    assert len(inner()) == 1
    with call_sites.track(3):
        found, number = inner(), line()
        assert [site.function.rpartition(".")[2] for site in found[:2]] == [
            "inner",
            "test_more_lines_are_kept_where_they_are_wanted",
        ]
        assert (len(found), found[1].line) == (3, number)
    assert len(inner()) == 1


@pytest.mark.parametrize(
    ("frames", "error"), [(0, ValueError), (-1, ValueError), (True, TypeError), ("2", TypeError)]
)
def test_what_is_no_number_of_lines_is_refused_and_changes_nothing(frames, error):
    with pytest.raises(error, match="track"):
        call_sites.track(frames)
    assert len(call_sites.current()) == 1


def test_what_lies_between_haulage_and_the_program_does_not_count():
    assert call_sites.is_own(cuda.to_device.__code__)
    assert call_sites.is_own(contextlib.ExitStack.close.__code__)
    assert call_sites.is_own(np.broadcast_to.__wrapped__.__code__)
    assert not call_sites.is_own(line.__code__)
    from haulage.cli import main

    assert not call_sites.is_own(main.__code__)  # a program as others


def test_installed_libraries_are_passed_where_a_program_called_them(tmp_path):
    library = tmp_path / "site-packages" / "library.py"
    names = {"of_program": call_sites.of_program, "current": call_sites.current}
    exec(compile("def call(f): return f()", str(library), "exec"), names)
    site, number = call_sites.site(names["call"](call_sites.of_program)), line()
    assert (site.filename, site.line) == (HERE, number)
    assert call_sites.site(names["call"](call_sites.current)).filename == str(library)
