"""`examples/jacobi.py` on each device: what its three programs copy, and that they agree."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import haulage

ALSO_FAR = True
pytestmark = pytest.mark.usefixtures("device")

UP, DOWN = "host to device", "device to host"
EXAMPLE = Path(__file__).parents[3] / "examples" / "jacobi.py"

SIZE, STEPS, EVERY = 64, 40, 10
PLATE, CHANGES, LOOKS = SIZE * SIZE * 8, SIZE * 8, STEPS // EVERY
# The plate there; at each look what a kernel has found since the last one; the result back.
FEWEST = [(UP, PLATE), *[(DOWN, CHANGES)] * LOOKS, (DOWN, PLATE)]


@pytest.fixture(scope="module")
def jacobi():
    spec = importlib.util.spec_from_file_location("jacobi", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ways(t):
    return [(one.direction, one.nbytes) for one in t]


def test_smart_arrays_make_the_fewest_transfers_which_are_those_made_by_hand(jacobi):
    start = jacobi.plate(SIZE)
    with haulage.transfers() as smart:
        result = jacobi.with_smart_arrays(start, STEPS, EVERY)
    with haulage.transfers() as by_hand:
        expected = jacobi.by_hand(start, STEPS, EVERY)
    assert ways(smart) == FEWEST
    assert ways(by_hand) == FEWEST
    assert np.array_equal(result, expected)
    assert np.allclose(result, jacobi.with_numpy(start, STEPS), rtol=1e-13, atol=0)


def test_host_arrays_are_copied_as_often_as_explain_says_of_smart_arrays(jacobi, by_copies):
    start = jacobi.plate(SIZE)
    before = haulage.explain().data
    expected = jacobi.with_smart_arrays(start, STEPS, EVERY)
    after = haulage.explain().data
    given = {name: after[name] - before[name] for name in ("launches", "as_host_arrays")}
    assert given["launches"] == 2 * STEPS + 3 * LOOKS
    with by_copies(), haulage.transfers() as t:
        result = jacobi.with_host_arrays(start, STEPS, EVERY)
    assert t.count(UP) == t.count(DOWN) == given["launches"]
    assert t.nbytes == given["as_host_arrays"]
    assert np.array_equal(result, expected)


def test_the_programs_end_when_little_changes(jacobi, monkeypatch):
    monkeypatch.setattr(jacobi, "ENOUGH", 1.0)
    start = jacobi.plate(SIZE)
    with haulage.transfers() as t:
        results = [program(start, 1000, EVERY) for program in list(jacobi.PROGRAMS.values())[:2]]
    looks = t.count(DOWN) // 2 - 1
    assert 1 < looks < 20
    assert t.count(UP) == 2
    for result in results:
        assert np.allclose(result, jacobi.with_numpy(start, looks * EVERY), rtol=1e-13, atol=0)


def test_the_program_says_what_each_copied(jacobi, monkeypatch, capsys):
    words = ["--size", str(SIZE), "--steps", str(STEPS), "--every", str(EVERY)]
    monkeypatch.setattr("sys.argv", ["jacobi.py", *words])
    jacobi.main()
    told = capsys.readouterr().out
    nbytes = sum(each for _, each in FEWEST)
    assert f"  SmartArrays: {len(FEWEST)} copies, {nbytes:,} bytes, " in told
    assert f"  device arrays by hand: {len(FEWEST)} copies, {nbytes:,} bytes, " in told
    assert "The three results are equal." in told
    assert f"given to kernels {2 * STEPS + 3 * LOOKS} times" in told
