"""Arrays in pools, queues and shared memory of multiprocessing, by each way to start a process."""

import multiprocessing
from multiprocessing import shared_memory

import numpy as np
import pytest

from haulage import SmartArray, cuda
from support import process_work

WAYS = ["spawn", "forkserver", "fork"]
KINDS = {
    "device": lambda host: cuda.to_device(host),
    "SmartArray": SmartArray,
    "mapped": lambda host: _filled(cuda.mapped_array, host),
    "managed": lambda host: _filled(cuda.managed_array, host),
}


def _filled(make, host):
    array = make(host.shape, host.dtype)
    np.asarray(array)[...] = host
    return array


@pytest.fixture(scope="module", params=WAYS)
def pool(request):
    # A child that is forked finds the device in use.
    process_work.doubled(cuda.to_device(np.ones(3)))
    with multiprocessing.get_context(request.param).Pool(2) as made:
        yield made
        made.close()
        made.join()


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_are_arguments_and_results_of_a_pool(pool, kind):
    sent = KINDS[kind](np.arange(1000.0))
    name = type(sent).__name__
    told = pool.apply(process_work.described, (sent,))
    assert told == (name, (1000,), "<f8", 499500.0)
    back = pool.map(process_work.doubled, [sent, sent])
    assert [process_work.described(each)[0] for each in back] == [name, name]
    for each in back:
        assert np.array(each).tolist() == (2 * np.arange(1000.0)).tolist()
    assert np.array(sent)[999] == 999


def test_an_error_comes_back_as_it_was_raised(pool):
    with pytest.raises(ValueError, match="given back"):
        pool.apply(process_work.failed, (cuda.to_device(np.ones(3)),))


@pytest.mark.parametrize("way", WAYS)
def test_arrays_go_through_queues(way):
    context = multiprocessing.get_context(way)
    queue = context.Queue()
    child = context.Process(target=process_work.put, args=(queue, cuda.to_device(np.arange(100.0))))
    child.start()
    back = queue.get(timeout=60)
    child.join()
    queue.close()
    queue.join_thread()
    assert child.exitcode == 0
    assert back.copy_to_host().tolist() == (2 * np.arange(100.0)).tolist()


@pytest.mark.parametrize("way", WAYS)
def test_kernels_of_two_processes_work_on_shared_memory_without_a_copy(way):
    if cuda.get_current_device().kind != "cpu":
        pytest.skip("the current device does not use memory of the host where it is")
    shared = shared_memory.SharedMemory(create=True, size=8000)
    try:
        host = np.ndarray(1000, np.float64, shared.buf)
        host[:] = np.arange(1000)
        process_work.doubled(host)
        child = multiprocessing.get_context(way).Process(
            target=process_work.fill_shared, args=(shared.name, 1000)
        )
        child.start()
        child.join()
        assert child.exitcode == 0
        assert host.tolist() == (4 * np.arange(1000.0)).tolist()
        del host
    finally:
        cuda.synchronize()
        shared.close()
        shared.unlink()


def test_a_forked_child_has_arrays_of_its_own():
    there = cuda.to_device(np.arange(10.0))
    if there.device.kind != "cpu":
        pytest.skip("a GPU's driver does not live on in a forked child")
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def change():
        theirs.send(process_work.doubled(there).copy_to_host().tolist())

    child = context.Process(target=change)
    child.start()
    assert ours.recv() == (2 * np.arange(10.0)).tolist()
    child.join()
    ours.close()
    theirs.close()
    assert there.copy_to_host().tolist() == np.arange(10.0).tolist()
