"""`haulage bench` before anything runs: statistics, problems and the command line."""

import math

import numpy as np
import pytest

from haulage import cli
from haulage.cli.bench import chosen_names, formulas, statistics
from haulage.cli.bench.problems import PROBLEMS
from haulage.cli.refusal import Refusal


def test_a_ratio_is_that_of_the_medians_and_lies_in_its_interval() -> None:
    ours, theirs = [1.0, 2.0, 3.0, 2.0, 2.0], [4.0, 4.0, 4.0, 100.0, 4.0]
    found = statistics.ratio(theirs, ours)
    assert found.value == 2
    assert found.low <= 2 <= found.high


def test_times_that_never_vary_leave_no_doubt() -> None:
    assert statistics.ratio([3.0] * 9, [2.0] * 9) == statistics.Estimate(1.5, 1.5, 1.5)
    assert statistics.median([7.0]) == statistics.Estimate(7, 7, 7)


def test_noise_widens_the_interval() -> None:
    rng = np.random.default_rng(0)
    quiet, noisy = 1 + 0.01 * rng.random(15), 1 + rng.random(15)
    narrow = statistics.ratio(quiet, [1.0] * 15)
    wide = statistics.ratio(noisy, [1.0] * 15)
    assert wide.high - wide.low > 10 * (narrow.high - narrow.low)


def test_a_ratio_needs_the_same_rounds_of_both() -> None:
    with pytest.raises(ValueError, match="2 and 1"):
        statistics.ratio([1.0, 2.0], [1.0])


def test_the_geometric_mean_of_a_ratio_and_its_inverse_is_1() -> None:
    assert math.isclose(statistics.geometric_mean([4.0, 0.25]), 1)
    with pytest.raises(ValueError, match="no values"):
        statistics.geometric_mean([])


def test_a_turn_calls_until_its_time_is_over_but_a_long_call_once() -> None:
    calls = []
    per_call = statistics.turn(lambda: calls.append(0), seconds=0.001)
    assert len(calls) > 10
    assert per_call > 0
    calls.clear()
    statistics.turn(lambda: calls.append(0), seconds=0)
    assert len(calls) == 1


@pytest.mark.parametrize("name", PROBLEMS)
def test_numpys_answer_is_right_and_a_spoilt_one_is_not(name: str) -> None:
    problem = PROBLEMS[name]
    inputs = problem.inputs(problem.small)
    expected = problem.expected(inputs)
    assert problem.compare(expected, inputs, expected).right
    if expected.size:
        spoilt = expected.copy()
        spoilt.flat[-1] += expected.dtype.type(1)
        assert not problem.compare(spoilt, inputs, expected).right
        with pytest.raises(ValueError, match=f"{name}: got the shape"):
            problem.compare(expected[:0], inputs, expected)


def test_few_points_of_the_mandelbrot_set_are_in_doubt_and_those_are() -> None:
    problem = PROBLEMS["mandelbrot"]
    inputs = problem.inputs(256)
    in_float32 = problem.expected(inputs)
    doubtful = np.isinf(problem.allowed(inputs, in_float32))
    in_float64 = problem.expected({name: a.astype(np.float64) for name, a in inputs.items()})
    assert doubtful.mean() < 0.03
    assert (in_float32 != in_float64).any()
    assert doubtful[in_float32 != in_float64].all()


def test_the_error_function_is_that_of_the_standard_library() -> None:
    x = np.linspace(-4, 4, 101)
    assert np.abs(formulas.erf(x) - [math.erf(value) for value in x]).max() < 2e-7


def test_names_are_chosen_whole_or_by_a_part() -> None:
    names = ["scan", "matmul-512", "matmul-1024", "scan-more"]
    assert chosen_names([], names) == names
    assert chosen_names(["matmul"], names) == ["matmul-512", "matmul-1024"]
    assert chosen_names(["scan"], names) == ["scan"]
    with pytest.raises(Refusal, match="nothing is named sort"):
        chosen_names(["sort"], names)


def test_the_list_names_every_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(PROBLEMS)


def test_an_unknown_name_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "sort"]) == 2
    assert capsys.readouterr().err.startswith("haulage: bench: nothing is named sort")


def test_a_name_that_is_nearly_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "saxpi"]) == 2
    assert capsys.readouterr().err == (
        "haulage: bench: nothing is named saxpi. Did you mean 'saxpy'?\n"
    )
