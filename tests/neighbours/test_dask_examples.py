"""The examples for Dask, as commands: on their own cluster and on one that runs already."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.neighbours import neighbour

neighbour("dask.array")
neighbour("distributed")
neighbour("matplotlib")

pytestmark = pytest.mark.heavy

EXAMPLES = Path(__file__).parents[2] / "examples"
GRAY_SCOTT = ["dask_gray_scott.py", "--size", "64", "--steps", "96", "--strips", "4", "--keep", "4"]
K_MEANS = ["dask_kmeans.py", "--size", "2", "--steps", "4", "--block", "100000"]
# More points than the memory limit of a worker holds, which is itself 315 MiB of it.
SPILLING = ["dask_kmeans.py", "--size", "80", "--steps", "2", "--memory-limit", "480MiB"]


def run(words, *more, expected=0):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / words[0]), *words[1:], *more],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout


def results(told):
    return re.findall(r"result ([0-9a-f]{16})", told)


@pytest.fixture
def scheduler(tmp_path):
    """The address of a scheduler with two workers, all started by Dask's commands."""
    file = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    worker = [*dask, "worker", "--scheduler-file", file, "--nthreads", "1", "--no-dashboard"]
    commands = [
        [*dask, "scheduler", "--scheduler-file", file, "--port", "0", "--no-dashboard"],
        *[[*worker, "--host", "127.0.0.1", "--local-directory", tmp_path / n] for n in "ab"],
    ]
    commands[0] += ["--host", "127.0.0.1"]
    log = tmp_path / "log"
    with log.open("w") as to:
        started = [
            subprocess.Popen([*map(str, each)], stdout=to, stderr=subprocess.STDOUT)
            for each in commands
        ]
    try:
        until = time.monotonic() + 60
        while not (file.exists() and file.stat().st_size):
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        yield re.search(r'"address": "([^"]*)"', file.read_text())[1]
    finally:
        for each in reversed(started):
            each.terminate()
        for each in reversed(started):
            each.wait(30)


@pytest.mark.parametrize("words", [GRAY_SCOTT, K_MEANS], ids=["Gray-Scott", "k-means"])
def test_a_killed_worker_changes_no_bit(words, tmp_path):
    picture = tmp_path / "picture.png"
    told = run(words, "--kill", "--tries", "2", "--out", str(picture))
    assert len(results(told)) == 3
    assert len(set(results(told))) == 1
    pids = re.findall(r"killed tcp://\S+, process (\d+), which held [1-9]", told)
    assert len(set(pids)) == 2
    assert "2 of 2 results with a killed worker are equal bit for bit." in told
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("words", [GRAY_SCOTT, K_MEANS], ids=["Gray-Scott", "k-means"])
def test_on_a_running_cluster_with_the_same_bits_as_on_one_of_their_own(words, scheduler):
    told = run(words, "--scheduler", scheduler, "--kill")
    assert "1 of 1 results with a killed worker are equal bit for bit." in told
    alone = run(words, "--workers", "1")
    assert set(results(alone)) == set(results(told))


def test_k_means_puts_to_disk_what_workers_cannot_hold():
    told = run(SPILLING, "--workers", "1")
    size, on_disk = re.search(
        r"([\d.]+) MiB of points, at most ([\d.]+) MiB on disk", told
    ).groups()
    assert float(size) > 480
    assert 100 < float(on_disk) <= float(size) + 20


def test_gray_scott_computes_what_numpy_does():
    code = (
        "import numpy as np, dask, dask_gray_scott as g\n"
        "dask.config.set(scheduler='sync')\n"
        "start = g.seeded(80)\n"
        "got = g.strips_of(start, 3, 4).compute()\n"
        "expected = g.with_numpy(start, 4 * g.STEPS_OF_TASK)\n"
        "np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6)\n"
        "assert abs(expected - start).max() > 0.1\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=EXAMPLES, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr


def test_k_means_adds_up_what_numpy_does():
    code = (
        "import numpy as np, dask, dask_kmeans as k\n"
        "dask.config.set(scheduler='sync')\n"
        "points = k.points_of(1, 300_000)\n"
        "centres = k.points_of_block(0, k.CENTRES)\n"
        "got = k.sums_of(points, centres).compute()\n"
        "p = np.concatenate([k.points_of_block(i, n) for i, n in enumerate(points.chunks[0])])\n"
        "nearest = ((p[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)\n"
        "for at in range(k.CENTRES):\n"
        "    mine = p[nearest == at].astype(float)\n"
        "    assert got[:, at, 2].sum() == len(mine)\n"
        "    np.testing.assert_allclose(got[:, at, :2].sum(axis=0), mine.sum(axis=0), rtol=1e-9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=EXAMPLES, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr


def test_strips_that_are_too_narrow_are_refused():
    done = subprocess.run(
        [sys.executable, EXAMPLES / "dask_gray_scott.py", "--size", "64", "--strips", "9"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 2
    assert "a strip needs 16 rows at least" in done.stderr
