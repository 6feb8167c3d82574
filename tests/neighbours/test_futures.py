"""Arrays in the executors of concurrent.futures: threads and processes."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import haulage
from haulage import SmartArray, cuda
from support import process_work

MAKE = [cuda.to_device, SmartArray]


@pytest.mark.parametrize("make", MAKE, ids=["device", "SmartArray"])
@pytest.mark.parametrize("way", ["spawn", "fork"])
def test_processes_take_and_give_arrays(make, way):
    context = multiprocessing.get_context(way)
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        sent = [make(np.full(100, float(n))) for n in range(6)]
        back = list(executor.map(process_work.doubled, sent))
        future = executor.submit(process_work.failed, cuda.to_device(np.ones(3)))
        with pytest.raises(ValueError, match="given back"):
            future.result()
    assert [float(np.asarray(each)[99]) for each in back] == [0, 2, 4, 6, 8, 10]
    assert {type(each) for each in back} == {type(sent[0])}


@pytest.mark.parametrize("make", MAKE, ids=["device", "SmartArray"])
def test_threads_use_the_very_arrays(make):
    sent = [make(np.full(1000, float(n))) for n in range(16)]
    with haulage.transfers() as made, ThreadPoolExecutor(4) as executor:
        back = list(executor.map(process_work.doubled, sent))
    assert made.count("device to host") == 0
    assert all(one is other for one, other in zip(sent, back, strict=True))
    assert [float(np.asarray(each)[999]) for each in back] == [2.0 * n for n in range(16)]


def test_a_thread_has_the_device_that_the_program_uses():
    with haulage.use("cpu") as device, ThreadPoolExecutor(1) as executor:
        assert executor.submit(lambda: cuda.to_device(np.ones(3)).device).result() is device
