"""Ray: device arrays and SmartArrays as arguments and results of tasks, in actors, in its store."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import haulage
from haulage import SmartArray, cuda
from support.neighbours import neighbour

ray = neighbour("ray")
pytestmark = pytest.mark.heavy

MAKE = {"device": cuda.to_device, "SmartArray": SmartArray}


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    yield
    ray.shutdown()


def kernels():
    """Made here, so that Ray, which knows no module of the tests, sends the code along."""

    @cuda.jit
    def double(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    return double


# Small results go with the message, those of more than 100 KB by shared memory.
@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize("kind", MAKE)
def test_tasks_take_and_give_arrays(kind, size):
    double = kernels()

    @ray.remote
    def work(array, others):
        double[(array.size + 255) // 256, 256](array)
        return type(array).__name__, os.getpid(), [array, *others]

    sent = MAKE[kind](np.arange(float(size)))
    name, process, (first, second) = ray.get(work.remote(sent, [sent]))
    assert name == type(sent).__name__
    assert process != os.getpid()
    assert type(first) is type(second) is type(sent)
    assert np.array_equal(np.asarray(first), 2 * np.arange(float(size)))
    assert np.array_equal(np.asarray(second), np.arange(float(size)))
    assert np.array_equal(np.asarray(sent), np.arange(float(size)))


@pytest.mark.parametrize("kind", MAKE)
def test_actors_keep_arrays(kind):
    double = kernels()

    @ray.remote
    class Keeper:
        def __init__(self, array):
            self.array = array

        def doubled(self):
            with haulage.transfers() as made:
                double[4, 256](self.array)
            return made.count()

        def now(self):
            return self.array

    keeper = Keeper.remote(MAKE[kind](np.ones(1000)))
    copies = ray.get([keeper.doubled.remote() for _ in range(3)])
    # A SmartArray goes to the device with the first kernel, and stays.
    assert copies == ([0, 0, 0] if kind == "device" else [1, 0, 0])
    back = ray.get(keeper.now.remote())
    assert type(back).__name__ == {"device": "DeviceNDArray"}.get(kind, kind)
    assert np.asarray(back).tolist() == [8] * 1000
    ray.kill(keeper)


@pytest.mark.parametrize("kind", MAKE)
def test_the_store_gives_each_an_array_of_its_own(kind):
    sent = MAKE[kind](np.arange(100_000.0))
    there = ray.put(sent)
    first, second = ray.get(there), ray.get(there)
    first[0] = 7
    assert (np.asarray(second)[0], np.asarray(sent)[0]) == (0, 0)
    assert np.asarray(ray.get(there))[0] == 0
    assert np.asarray(first)[0] == 7


def test_an_array_is_copied_once_on_each_side():
    sent = cuda.to_device(np.arange(100_000.0))
    with haulage.transfers() as put:
        there = ray.put(sent)
    in_place = sent.device.properties.host_memory_is_device_memory
    assert put.count() == (0 if in_place else 1)
    with haulage.transfers() as got:
        ray.get(there)
    assert [(one.direction, one.why) for one in got] == [("host to device", "unpickling")]


def test_errors_of_kernels_and_arrays_come_back():
    @ray.remote
    def fail(array):
        array.close()
        return array.copy_to_host()

    with pytest.raises(ValueError, match="given back"):
        ray.get(fail.remote(cuda.to_device(np.ones(3))))


def test_records_and_mapped_arrays_go_too():
    @ray.remote
    def same(array):
        return array

    record = cuda.to_device(np.array([(1, 2.5)], "i4,f8"))[0]
    assert ray.get(same.remote(record)).f1 == 2.5
    mapped = cuda.mapped_array(4)
    mapped[...] = 3
    back = ray.get(same.remote(mapped))
    assert (type(back), back.tolist()) == (type(mapped), [3] * 4)


def test_haulage_may_be_imported_before_ray_or_after_it_or_in_the_task_alone():
    program = """
        import sys
        import {first}
        import {second}
        import numpy as np, ray
        ray.init(address={address!r}, logging_level="ERROR", log_to_driver=False)

        @ray.remote
        def make(n):
            from haulage import cuda
            return cuda.to_device(np.full(n, 3.0))

        assert {loaded}
        print(ray.get(make.remote(5)).copy_to_host().tolist())
    """
    address = ray.get_runtime_context().gcs_address
    for first, second, loaded in (
        ("haulage", "ray", "'haulage' in sys.modules"),
        ("ray", "haulage", "'haulage' in sys.modules"),
        ("ray", "numpy", "'haulage' not in sys.modules"),
    ):
        script = program.format(first=first, second=second, loaded=loaded, address=address)
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True
        )
        assert done.stdout == "[3.0, 3.0, 3.0, 3.0, 3.0]\n", done.stderr
