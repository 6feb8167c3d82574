"""The kernels of `haulage bench` give NumPy's results, and the command tells them."""

import json

import pytest

from haulage import cli
from haulage.cli.bench.kernels import setups
from haulage.cli.bench.problems import PROBLEMS

pytestmark = pytest.mark.usefixtures("device")


# Two sizes of one kernel are one.
_MOVES = [name for name in PROBLEMS if name.startswith(("launch", "copy"))]
_KERNELS = [name for name in PROBLEMS if name not in (*_MOVES, "matmul-1024", "reduce-float64")]


@pytest.mark.parametrize("name", _KERNELS)
def test_a_kernel_gives_numpys_result(way: str, name: str) -> None:
    _check(name)


@pytest.mark.parametrize("name", _MOVES)
def test_launches_and_copies_do_what_they_say(name: str) -> None:
    _check(name)


def _check(name: str) -> None:
    problem = PROBLEMS[name]
    inputs = problem.inputs(problem.small)
    run, result = setups()[name](inputs)
    run()
    run()
    assert problem.error(result(), problem.expected(inputs)) <= problem.allowed


def test_the_command_prints_a_line_or_an_object_for_each_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["bench", "saxpy", "launch-3", "--small", "--rounds", "2"]
    assert cli.main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["saxpy", "launch-3"]
    assert cli.main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in told["timed"]] == ["saxpy", "launch-3"]
    assert all(entry["right"] and entry["rounds"] == 2 for entry in told["timed"])


def test_a_wrong_result_is_told_and_is_the_exit_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from haulage.cli.bench.kernels import elementwise

    run, _ = elementwise.SETUPS["saxpy"](PROBLEMS["saxpy"].inputs(1000))
    wrong = PROBLEMS["saxpy"].inputs(1000)["x"]
    monkeypatch.setitem(elementwise.SETUPS, "saxpy", lambda given: (run, lambda: wrong))
    assert cli.main(["bench", "saxpy", "--small", "--rounds", "1"]) == 1
    assert "WRONG" in capsys.readouterr().out
