"""Sessions: what is checked meanwhile, and who gets what was found."""

import threading

import pytest

from haulage.checking.findings import KINDS, Access, Finding, Place
from haulage.checking.names import CHECKS, MAKES, USUAL, checks_of
from haulage.checking.session import Session
from haulage.runtime.process import runtime


def finding(kind="race", line=1, **more):
    return Finding(kind, f"{kind} here", Access(Place("a.py", line), "write", "k"), **more)


@pytest.fixture
def session():
    """Makes sessions that have begun, and ends them."""
    made = []

    def begun(*checks):
        made.append(Session(checks or USUAL))
        made[-1].begin()
        return made[-1]

    yield begun
    for each in made:
        each.end()


def kinds(session):
    return [each.kind for each in session.findings]


@pytest.mark.parametrize(
    ("names", "meant"),
    [
        ("race", {"race"}),
        ("race,bounds", {"race", "bounds"}),
        (" race , racecheck ", {"race"}),
        (["memcheck", "initcheck"], {"bounds", "memory", "init"}),
        ("synccheck,streamcheck", {"barrier", "stream"}),
        ("uninitialized,leak", {"init", "memory"}),
        (CHECKS, set(CHECKS)),
    ],
)
def test_checks_are_named_by_what_they_check_or_as_compute_sanitizers_tools(names, meant):
    assert checks_of(names) == meant


@pytest.mark.parametrize(
    ("names", "error", "words"),
    [
        ("rcae", ValueError, "there is no check 'rcae'. Did you mean 'race'"),
        ("everything", ValueError, "there is no check 'everything'; expected some of bounds,race,"),
        ("", ValueError, "there is no check ''"),
        ([], ValueError, "no check is named"),
        ([3], TypeError, "expected names of checks, as 'race', and not 3"),
    ],
)
def test_what_names_no_check_is_refused(names, error, words):
    with pytest.raises(error, match=words.replace("(", r"\(")):
        checks_of(names)


def test_each_kind_comes_from_a_check():
    assert {kind for makes in MAKES.values() for kind in makes} == set(KINDS)


def test_a_session_is_the_checker_from_its_beginning_to_its_end():
    made = Session(["race"])
    assert runtime.current.checker is None
    made.begin()
    assert runtime.current.checker is made
    assert made.checks == {"race"}
    with pytest.raises(RuntimeError, match="has begun already"):
        made.begin()
    made.end()
    assert runtime.current.checker is None
    length = made.seconds
    assert made.seconds == length > 0


def test_one_inside_of_another_is_the_checker_and_both_get_what_is_found(session):
    outer = session("race")
    runtime.current.checker.findings.add(finding(line=1))
    inner = session()
    assert runtime.current.checker is inner
    assert outer.checks == inner.checks == set(USUAL)
    for kind in ("race", "bounds"):
        runtime.current.checker.findings.add(finding(kind, line=2))
    runtime.current.checker.findings.checked(10)
    inner.end()
    assert runtime.current.checker is outer
    assert outer.checks == {"race"}
    assert kinds(outer) == ["race", "race"]
    assert kinds(inner) == ["race", "bounds"]
    assert (outer.findings.launches, inner.findings.accesses) == (1, 10)


def test_of_two_that_overlap_the_second_goes_on_when_the_first_has_ended(session):
    first, second = session(), session()
    first.end()
    assert runtime.current.checker is second
    runtime.current.checker.findings.add(finding())
    assert (kinds(first), kinds(second)) == ([], ["race"])


def test_addresses_are_told_to_who_asked_for_something_like_it(session):
    bounds, race = session("bounds"), session("race")
    for kind in ("divergence", "address", "freed", "leak"):
        bounds.findings.add(finding(kind))
    assert kinds(bounds) == ["address", "freed"]
    assert kinds(race) == []


def test_who_is_to_know_is_told_of_each_change():
    told = []
    made = Session(["race"], told.append)
    made.findings.add(finding())
    made.findings.add(finding("bounds"))
    made.findings.checked(5)
    assert told == [True, False]
    made.findings.add(finding())
    made.findings.add(finding(line=2))
    assert told == [True, False, False, True]


def test_threads_find_into_the_same_sessions(session):
    made = session()

    def work():
        for line in range(100):
            runtime.current.checker.findings.add(finding(line=line))
            runtime.current.checker.findings.checked(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(made.findings) == 100
    assert {each.count for each in made.findings} == {4}
    assert made.findings.launches == made.findings.accesses == 400


def test_findings_of_two_lines_are_one_in_whatever_order(session):
    made = session()
    one, two = (Access(Place("a.py", line), "write", "k") for line in (1, 2))
    made.findings.add(Finding("race", "m", one, two, same_value=True))
    made.findings.add(Finding("race", "m", two, one, same_value=False, count=3))
    (found,) = made.findings
    assert (found.count, found.same_value) == (4, False)
    made.findings.clear()
    assert len(made.findings) == 0
