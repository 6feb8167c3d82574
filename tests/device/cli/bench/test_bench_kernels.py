"""The kernels of `haulage bench` give NumPy's results, and the command tells them; those of the
benchmarks on GPUs give theirs too."""

import importlib.util
import inspect
import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[4]))

from benchmarks.gpu import kernels as of_gpus

from haulage import cli, cuda
from haulage.cli.bench.kernels import Setup, setups
from haulage.cli.bench.problems import PROBLEMS
from haulage.cli.rounding import Agreement

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


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
    agreement = _agreement(name, setups()[name])
    assert agreement.right, agreement


def _agreement(name: str, setup: Setup) -> Agreement:
    problem = PROBLEMS[name]
    inputs = problem.inputs(problem.small)
    run, result = setup(inputs)
    run()
    run()
    return problem.compare(result(), inputs, problem.expected(inputs))


# A kernel, a part of its text, and what it is by mistake.
_MISTAKES = [
    ("saxpy", "i < out.size", "i < out.size - 1"),
    ("saxpy", "+ y[i]", "+ y[i - 1]"),
    ("stencil", "x < u.shape[1] - 1", "x < u.shape[1] - 2"),
    ("stencil", "u[y, x + 1]", "u[y, x]"),
    ("black-scholes", "-RATE32 * t", "-RATE32"),
    ("black-scholes", "strike[i], years[i]", "strike[i - 1], years[i]"),
    ("mandelbrot", "y < out.shape[0]", "y < out.shape[0] - 1"),
    ("mandelbrot", "n < ITERATIONS", "n < ITERATIONS - 1"),
    ("mandelbrot", "<= float32(4)", "<= float32(3.9)"),
    ("matmul-512", "range(SIDE)", "range(SIDE - 1)"),
    ("matmul-512", "range(0, a.shape[1], SIDE)", "range(SIDE, a.shape[1], SIDE)"),
    ("matmul-naive", "range(a.shape[1])", "range(a.shape[1] - 1)"),
    ("matmul-naive", "row < c.shape[0]", "row < c.shape[0] - 1"),
    ("transpose", "range(0, TILE, ROWS):\n        out", "range(ROWS, TILE, ROWS):\n        out"),
    ("nbody", "range(BODIES)", "range(BODIES - 1)"),
    ("nbody", "range(0, bodies.shape[0], BODIES)", "range(BODIES, bodies.shape[0], BODIES)"),
    ("reduce-tree", "if t < step", "if t < step - 1"),
    ("reduce-tree", "room[t] = x[i] if i < x.size", "room[t] = x[i] if t < 255"),
    ("reduce-warp", "value = x[i] if i < x.size", "value = x[i] if t > 0"),
    ("reduce-warp", "BLOCK // 32 else", "BLOCK // 32 - 1 else"),
    ("scan", "room[SPAN - 1] = float32(0)", "room[SPAN - 1] = x[start]"),
    ("scan", "room[right] += value", "room[right] = value"),
    ("histogram-shared", "cuda.atomic.add(mine, data[i], 1)", "mine[data[i]] = mine[data[i]] | 1"),
    ("histogram-shared", "range(cuda.grid(1), ", "range(cuda.grid(1) + 1, "),
    ("histogram-global", "i < data.size", "i < data.size - 1"),
    ("random-draw", "range(out.shape[0])", "range(out.shape[0] - 1)"),
    ("random-draw", "uniform_float32(states, i)", "normal_float32(states, i)"),
    ("reduce-float32", "lambda a, b: a + b", "lambda a, b: a + b - (b % 2) * 2.0**-6"),
    ("reduce-float64", "lambda a, b: a + b", "lambda a, b: a + b - (b % 2) * 2.0**-6"),
]


@pytest.mark.parametrize(("name", "text", "mistake"), _MISTAKES)
def test_a_mistake_in_a_kernel_is_noticed(
    name: str, text: str, mistake: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of = sys.modules[setups()[name].__module__]
    source = inspect.getsource(of)
    assert text in source
    # A file, as kernels are compiled from the text of their functions.
    spoilt = tmp_path / "spoilt_kernels.py"
    spoilt.write_text(source.replace(text, mistake))
    spec = importlib.util.spec_from_file_location("spoilt_kernels", spoilt)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not _agreement(name, module.SETUPS[name]).right


def test_every_check_of_a_kernel_has_such_a_mistake() -> None:
    assert {name for name, _, _ in _MISTAKES} >= set(_KERNELS) - {"random-states"}


def test_one_missing_element_of_ten_million_is_noticed() -> None:
    problem = PROBLEMS["reduce-float32"]
    inputs = problem.inputs(problem.size)
    expected = problem.expected(inputs)
    assert problem.compare(inputs["x"].sum(keepdims=True), inputs, expected).right
    assert not problem.compare(inputs["x"][1:].sum(keepdims=True), inputs, expected).right


def test_the_command_prints_a_line_or_an_object_for_each_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["bench", "saxpy", "launch-3", "--small", "--rounds", "2"]
    assert cli.main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["name", "ms", "interval", "GB/s", "GFLOP/s", "result"]
    assert [line.split()[0] for line in lines[2:]] == ["saxpy", "launch-3"]
    for line in lines[2:]:
        assert line.index("ok: ") == lines[1].index("result")
    assert cli.main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in told["timed"]] == ["saxpy", "launch-3"]
    assert all(entry["right"] and entry["rounds"] == 2 for entry in told["timed"])


def test_no_terminal_is_too_narrow_for_the_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for columns in ("40", "140"):
        monkeypatch.setenv("COLUMNS", columns)
        assert cli.main(["bench", "saxpy", "--small", "--rounds", "1"]) == 0
        told = capsys.readouterr().out
        assert "…" not in told
        assert "interval" in told
        assert " <= " in told
        assert ("━" in told) == (columns == "140")


def test_a_wrong_result_is_told_and_is_the_exit_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from haulage.cli.bench.kernels import elementwise

    run, _ = elementwise.SETUPS["saxpy"](PROBLEMS["saxpy"].inputs(1000))
    wrong = PROBLEMS["saxpy"].inputs(1000)["x"]
    monkeypatch.setitem(elementwise.SETUPS, "saxpy", lambda given: (run, lambda: wrong))
    assert cli.main(["bench", "saxpy", "--small", "--rounds", "1"]) == 1
    told = capsys.readouterr().out
    assert "WRONG: " in told
    assert " is not <= " in told


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
