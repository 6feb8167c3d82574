"""Checked launches: what is told of races, and launches that fail, are recorded or run at once."""

import os
import threading
import time

import numpy as np
import pytest

from haulage import cuda
from haulage.errors import KernelError
from support.checked.marks import findings

RACE = ("race",)


@cuda.jit
def write_one(x, value):
    x[0] = value


@cuda.jit
def write_own_number(x):
    x[0] = cuda.threadIdx.x


@cuda.jit
def fail(x):
    if x[0] == 0:
        raise ValueError("no zeros")


@cuda.jit
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


@cuda.jit
def factorials(x):
    x[cuda.grid(1)] = factorial(cuda.threadIdx.x)


def test_a_race_names_both_threads_and_the_element(way):
    (race,) = findings(lambda: write_own_number[1, 2](np.zeros(3)), RACE)
    assert (race.array, race.index, race.same_value, race.count) == ("x", (0,), False, 1)
    assert {race.access.thread, race.other.thread} == {(0, 0, 0), (1, 0, 0)}
    assert race.access.block == race.other.block == (0, 0, 0)
    assert race.message == "two writes of x by threads of one block, and nothing orders them"


def test_an_array_keeps_its_name_beside_conditional_expressions(way):
    @cuda.jit
    def some(out):
        tile = cuda.shared.array(8, np.float64)
        t = cuda.threadIdx.x
        tile[4 if t > 2 else 0] = t
        cuda.syncthreads()
        out[t] = tile[4 if t > 2 else 0]

    (race,) = findings(lambda: some[1, 8](np.zeros(8)), RACE)
    assert race.array == "tile"


@pytest.mark.parametrize(("before", "same"), [(7, True), (3, True)])
def test_writes_of_one_value_are_told_as_such(way, before, same):
    (race,) = findings(lambda: write_one[4, 8](np.full(1, before), 7), RACE)
    assert race.same_value is same
    assert race.count == 31


def test_other_errors_are_raised_by_the_next_wait(device, way):
    x = cuda.to_device(np.zeros(1))

    def work():
        fail[1, 32](x)
        with pytest.raises(KernelError, match="ValueError: no zeros"):
            cuda.synchronize()
        write_own_number[1, 2](x)

    (race,) = findings(work, RACE)
    assert race.array == "x"


def test_an_error_is_raised_after_launches_that_follow(device):
    x, stream = cuda.to_device(np.zeros(1)), cuda.stream()

    def work():
        fail[1, 32, stream](x)
        write_one[1, 1, stream](x, 7)
        fail[1, 32, stream](x)
        write_own_number[2, 1, stream](x)
        with pytest.raises(KernelError, match=r"kernel fail: .*ValueError: no zeros"):
            stream.synchronize()
        stream.synchronize()

    (race,) = findings(work, RACE)
    assert race.access.kernel == "write_own_number"


def test_kernels_with_recursion_run(way):
    x = np.zeros(6)
    assert findings(lambda: factorials[1, 6](x), RACE) == []
    assert x.tolist() == [1, 1, 2, 6, 24, 120]


def test_launches_of_graphs_run_unchecked(device):
    x = cuda.to_device(np.zeros(2))

    def work():
        with cuda.graph() as graph:
            write_own_number[1, 2, graph.stream](x)
        graph.launch()
        cuda.synchronize()

    assert findings(work, RACE) == []
    assert x.copy_to_host()[0] in (0, 1)


def test_threads_may_launch_side_by_side(device):
    def launches(kernel, *args):
        stream = cuda.stream()
        for _ in range(20):
            kernel[2, 8, stream](*args)
        stream.synchronize()

    def work():
        threads = [
            threading.Thread(target=launches, args=(kernel, cuda.to_device(np.zeros(4)), *more))
            for kernel, more in ((write_one, (7,)), (write_own_number, ()))
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    one, other = sorted(findings(work, RACE), key=lambda each: each.access.kernel)
    assert (one.access.kernel, one.count) == ("write_one", 20 * 15)
    assert (other.access.kernel, other.count) == ("write_own_number", 20 * 15)


@pytest.mark.timeout(60)
def test_callbacks_may_launch_in_the_midst_of_others(device):
    stream, other = cuda.stream(), cuda.stream()
    x, nested = cuda.to_device(np.zeros(1)), cuda.to_device(np.zeros(1))

    def launch(*_):
        time.sleep(0.01)
        write_own_number[1, 2, other](nested)
        other.synchronize()

    def work():
        for _ in range(5):
            stream.add_callback(launch)
            write_one[1, 1, stream](x, 7)
        stream.synchronize()

    (race,) = findings(work, RACE)
    assert (race.access.kernel, race.count) == ("write_own_number", 5)


@pytest.mark.timeout(60)
def test_launches_that_nobody_can_wait_for_run_unchecked(device):
    stream, x = cuda.stream(), cuda.to_device(np.zeros(1))

    def work():
        stream.add_callback(lambda *_: write_own_number[1, 2, stream](x))
        stream.synchronize()
        cuda.synchronize()

    assert findings(work, RACE) == []
    assert x.copy_to_host()[0] in (0, 1)


def test_a_forked_child_checks_its_own_launches(device):
    def work():
        write_one[1, 4](np.zeros(1), 7)
        child = os.fork()
        if not child:
            found = findings(lambda: write_own_number[1, 2](np.zeros(1)), RACE)
            os._exit(len(found))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 1

    (race,) = findings(work, RACE)
    assert race.access.kernel == "write_one"
