"""What is counted of the ways of threads: as often as Python itself would go them."""

import types

import numpy as np
import pytest

from device.checking.random_flows import Program
from haulage import cuda
from haulage.checking.session import Session
from haulage.errors import KernelError
from support.traced import arcs_of

ONLY = frozenset(("coverage",))


def covered(work, checks=ONLY):
    """The functions that `work()` launched, by name, and what was found besides."""
    session = Session(checks)
    session.begin()
    try:
        work()
    finally:
        session.end()
    functions = {each.name: each for each in session.coverage(alive=False) if each.threads}
    return functions, list(session.findings)


def lines_from(function):
    """Counts by lines behind the one that the function begins in."""
    return {line - function.line: count for line, count in function.lines.items()}


@cuda.jit(device=True)
def halved(n, odd=None):
    if n % 2 == 0:
        return n // 2
    if odd is not None:
        return odd
    return n


@cuda.jit
def rows(x, y):
    tile = cuda.shared.array(32, np.int64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t] = i
    cuda.syncthreads()
    total = 0
    for k in range(t % 3):
        total += halved(tile[(t + k) % 32])
    cuda.syncthreads()
    if i < x.size:
        x[i] = total


@cuda.jit
def scaled(x, factor):
    i = cuda.grid(1)
    if factor is None:
        x[i] = i
    else:
        x[i] = i * factor


@cuda.jit
def factorial(n):
    if n < 2:
        return 1
    return n * factorial(n - 1)


@cuda.jit
def factorials(x):
    x[cuda.threadIdx.x] = factorial(cuda.threadIdx.x)


@cuda.jit
def copied(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]


@pytest.mark.parametrize("seed", [3, 12, 45])
def test_threads_are_counted_as_python_goes(tmp_path, seed):
    file = tmp_path / "kernels.py"
    file.write_text(Program(seed).text)
    compiled = compile(file.read_text(), str(file), "exec")
    threads, given = 24, np.arange(20) * 7 % 23

    thread = types.SimpleNamespace(number=0)
    stand_in = types.SimpleNamespace(
        jit=lambda function=None, **_: function or (lambda each: each),
        grid=lambda _: thread.number,
        syncthreads=lambda: None,
    )
    plain = {"cuda": stand_in}
    text = file.read_text().replace("from haulage import cuda", "pass")
    exec(compile(text, str(file), "exec"), plain)
    expected = np.zeros(20, np.int64)
    values = np.array([int(each) for each in given], object)

    def as_python():
        for thread.number in range(threads):
            plain["kernel"](values, expected)

    namespace = {}
    exec(compiled, namespace)
    found = np.zeros(20, np.int64)
    functions, _ = covered(lambda: namespace["kernel"][3, 8](given, found))
    counted = {}
    for each in functions.values():
        for arc, count in each.arcs.items():
            if count:
                counted[arc] = counted.get(arc, 0) + count
    assert counted == arcs_of(as_python, str(file))
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("checks", [ONLY, frozenset(("coverage", "race", "bounds"))])
def test_kernels_with_barriers_are_counted_exactly(way, checks):
    blocks = 50
    functions, found = covered(lambda: rows[blocks, 32](np.zeros(1000), np.zeros(1)), checks)
    assert found == []
    kernel, function = functions["rows"], functions["halved"]
    turns = sum(t % 3 for t in range(32)) * blocks
    assert (kernel.is_kernel, function.is_kernel) == (True, False)
    assert (kernel.threads, function.threads) == (32 * blocks, turns)
    lines = lines_from(kernel)
    assert (lines[7], lines[8], lines[10], lines[11]) == (32 * blocks + turns, turns, 1600, 1000)
    calls = lines_from(function)
    assert calls[2] == turns
    assert calls[3] + calls[6] == turns
    assert function.missing == function.partly == []
    assert [line - function.line for line in function.left_out] == [5]


def test_signatures_are_counted_together():
    x = np.zeros(8)

    def work(*factors):
        for factor in factors:
            scaled[2, 4](x, factor)

    (alone,) = covered(lambda: work(None))[0].values()
    assert lines_from(alone) == {2: 8, 3: 8, 4: 8}
    # What the first signature leaves out is in the code of the others.
    (both,) = covered(lambda: work(None, 2, 2.5))[0].values()
    assert lines_from(both) == {2: 24, 3: 24, 4: 8, 6: 16}
    assert both.left_out == []


def test_functions_that_call_themselves_are_counted():
    functions, _ = covered(lambda: factorials[1, 6](np.zeros(6)))
    assert lines_from(functions["factorial"]) == {2: 16, 3: 6, 4: 10}


def test_launches_of_graphs_are_counted(device):
    x = cuda.to_device(np.zeros(8))

    def work():
        with cuda.graph() as graph:
            copied[1, 8, graph.stream](x, x)
        for _ in range(3):
            graph.launch()
        cuda.synchronize()

    for checks in (ONLY, ONLY | {"race"}):
        assert covered(work, checks)[0]["copied"].threads == 24


@cuda.jit
def fail(x):
    if x[0] == 0:
        raise ValueError("no zeros")


def test_errors_of_kernels_are_left_to_the_program(device):
    session = Session(ONLY)
    session.begin()
    try:
        fail[1, 8](cuda.to_device(np.zeros(1)))
        session.settle()
        (function,) = [each for each in session.coverage(alive=False) if each.name == "fail"]
        assert lines_from(function) == {2: 8, 3: 8}
        with pytest.raises(KernelError, match="no zeros"):
            cuda.synchronize()
    finally:
        session.end()


def test_many_workers_lose_no_thread():
    functions, _ = covered(lambda: copied[4000, 64](np.zeros(200_000), np.zeros(200_000)))
    assert lines_from(functions["copied"]) == {2: 256_000, 3: 256_000, 4: 200_000}


def test_sessions_have_what_was_done_while_they_were_open():
    x = np.zeros(8)
    outer, inner = Session(ONLY), Session(ONLY)
    outer.begin()
    copied[1, 8](x, x)
    inner.begin()
    copied[1, 16](x, x)
    inner.end()
    copied[1, 32](x, x)
    outer.end()
    copied[1, 64](x, x)
    threads = []
    for session in (outer, inner):
        (found,) = [each for each in session.coverage(alive=False) if each.name == "copied"]
        threads.append(found.threads)
    assert threads == [56, 16]
