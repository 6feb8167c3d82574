"""The kernels of `haulage bench` give NumPy's results, and the command tells them; those of the
benchmarks on GPUs give theirs too."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.gpu import kernels as of_gpus

from haulage import cli, cuda
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


def test_kernels_of_the_benchmarks_on_gpus_give_numpys_results(way: str) -> None:
    made, n = of_gpus.make(cuda), 64
    x = np.random.default_rng(7).standard_normal((n, n)).astype(np.float32)
    y, out = x[::-1].copy(), np.zeros_like(x)
    for count, nothing in made.launches.items():
        nothing[1, 1](*[x] * count)
    made.saxpy[n, n](np.float32(2), x.ravel(), y.ravel(), out.ravel())
    assert np.allclose(out, 2 * x + y, atol=1e-6)
    tiles = n // of_gpus.TILE
    made.transpose[(tiles, tiles), (of_gpus.TILE, of_gpus.ROWS)](x, out)
    assert (out == x.T).all()
    sums = np.zeros(4, np.float32)
    made.reduction[4, of_gpus.BLOCK](x.ravel(), sums)
    assert np.isclose(sums.sum(), x.sum(), atol=1e-3)
    out[:] = 0
    made.stencil[(2, 16), (32, 4)](x, out)
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    inner = x[1:-1, 1:-1]
    assert np.allclose(out[1:-1, 1:-1], inner + 0.1 * (around - 4 * inner), atol=1e-5)
    side = of_gpus.SIDE
    made.matmul[(n // side, n // side), (side, side)](x, y, out)
    assert np.allclose(out, x @ y, atol=1e-4)
