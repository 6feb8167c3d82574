"""Which tests `make test` and continuous integration take, and that they leave nothing out."""

import json
import re
from pathlib import Path

import pytest

import shares

pytest_plugins = ["pytester"]
TESTS = Path(__file__).parents[1]


def cases(function, number):
    return [f"{function}[{n}]" for n in range(number)]


def test_functions_that_nobody_measured_are_quick():
    tests = ["a.py::test_new", *cases("a.py::test_cases", 9)]
    assert shares.chosen(tests, {}) == set(tests)


def test_of_long_functions_a_part_of_the_cases_is_quick():
    tests = cases("a.py::test_long", 10)
    quick = shares.chosen(tests, {"a.py::test_long": shares.SECONDS / 3})
    assert sorted(quick) == [f"a.py::test_long[{n}]" for n in (0, 3, 6)]


def test_a_case_that_takes_longer_than_its_share_is_quick_if_it_is_not_too_long():
    tests = cases("a.py::test_one", 5)
    assert shares.chosen(tests, {"a.py::test_one": 0.9 * shares.LONGEST}) == {tests[0]}
    assert shares.chosen(tests, {"a.py::test_one": 1.1 * shares.LONGEST}) == set()


def test_of_what_is_left_out_more_has_something_of_each_function():
    tests = [*cases("a.py::test_long", 100), "a.py::test_longest", "a.py::test_short"]
    times = {"a.py::test_long": shares.MORE_SECONDS / 9.5, "a.py::test_longest": 100}
    taken = {share: shares.of_share(share, tests, times) for share in ("quick", "more", "rest")}
    assert taken["quick"] | taken["rest"] == set(tests)
    assert taken["more"] < taken["rest"]
    assert not taken["more"] & taken["quick"]
    assert "a.py::test_longest" in taken["more"]
    assert len(taken["more"]) == 10


def test_times_are_those_of_functions_that_there_are():
    for function in json.loads(shares.TIMES.read_text()):
        path, *classes, name = function.split("::")
        text = (TESTS.parent / path).read_text(encoding="utf-8")
        # Hypothesis's state machines are classes with one test, which is not in the file.
        sought = rf"^{classes[-1]} = " if name == "runTest" else rf"def {name}\("
        assert re.search(sought, text, re.MULTILINE), function


class Item:
    def __init__(self, nodeid):
        self.nodeid = nodeid


def test_the_longest_files_are_handed_over_first():
    tests = ["a.py::test_1", "a.py::test_2", "b.py::test_long", *cases("c.py::test_many", 3)]
    times = {"b.py::test_long": 9, "c.py::test_many": 4}
    ordered = shares.longest_files_first([Item(test) for test in tests], times)
    assert [item.nodeid for item in ordered] == [*tests[3:], tests[2], *tests[:2]]


@pytest.fixture
def project(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    pytester.makepyfile(
        test_it="""
        import pytest
        def test_short(): pass
        @pytest.mark.parametrize("n", range(6))
        def test_long(n): pass
        """
    )
    return pytester


def run(project, *options):
    return project.runpytest_subprocess("-p", "shares", "-p", "no:cacheprovider", "-v", *options)


def test_the_quick_share_and_the_rest_are_all(project, monkeypatch, tmp_path):
    times = project.path / "times.json"
    times.write_text(json.dumps({"test_it.py::test_long": shares.SECONDS / 2}))
    project.makeconftest(f"import shares, pathlib\nshares.TIMES = pathlib.Path({str(times)!r})")
    found = {}
    for share in ("quick", "rest", "all"):
        lines = run(project, "--share", share).outlines
        found[share] = {line.split()[0] for line in lines if "PASSED" in line}
    assert len(found["quick"]) == 3
    assert len(found["rest"]) == 4
    assert found["quick"] | found["rest"] == found["all"]


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "two"])
def test_what_takes_long_is_measured(project, workers):
    project.makepyfile(
        test_other="""
        import time, pytest
        @pytest.mark.parametrize("n", range(2))
        def test_sleeps(n): time.sleep(0.3)
        """
    )
    times = project.path / "measured.json"
    assert run(project, "--measure", str(times), *workers).ret == 0
    measured = json.loads(times.read_text())
    assert list(measured) == ["test_other.py::test_sleeps"]
    assert 0.3 <= measured["test_other.py::test_sleeps"] < 20
