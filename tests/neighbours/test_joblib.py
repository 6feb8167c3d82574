"""joblib: its back ends, files, and caches of results."""

import numpy as np
import pytest

import haulage
from haulage import SmartArray, cuda
from support import process_work
from support.neighbours import neighbour

joblib = neighbour("joblib")

MAKE = {"device": cuda.to_device, "SmartArray": SmartArray}


@pytest.fixture(scope="module", autouse=True)
def _workers_end():
    yield
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)


# Arrays of more than 1 MB are given to processes as files that they map.
@pytest.mark.parametrize("size", [1000, 300_000])
@pytest.mark.parametrize("backend", ["loky", "multiprocessing", "threading"])
@pytest.mark.parametrize("kind", MAKE)
def test_every_back_end_takes_and_gives_arrays(kind, backend, size):
    sent = [MAKE[kind](np.full(size, float(n))) for n in range(4)]
    run = joblib.Parallel(n_jobs=2, backend=backend)
    back = run(joblib.delayed(process_work.doubled)(each) for each in sent)
    assert [type(each) for each in back] == [type(sent[0])] * 4
    assert [float(np.asarray(each)[-1]) for each in back] == [0, 2, 4, 6]
    # Only threads have the same arrays.
    changed = [0, 2, 4, 6] if backend == "threading" else [0, 1, 2, 3]
    assert [float(np.asarray(each)[-1]) for each in sent] == changed


def test_what_worker_processes_raise_comes_back():
    run = joblib.Parallel(n_jobs=2, backend="loky")
    with pytest.raises(ValueError, match="given back"):
        run(joblib.delayed(process_work.failed)(cuda.to_device(np.ones(3))) for _ in range(2))


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("compress", [0, 3])
def test_arrays_are_kept_in_files(kind, compress, tmp_path):
    array = MAKE[kind](np.asfortranarray(np.arange(12.0).reshape(3, 4)))
    joblib.dump(array, tmp_path / "array", compress=compress)
    back = joblib.load(tmp_path / "array")
    assert type(back) is type(array)
    assert back.strides == array.strides
    assert np.array_equal(np.asarray(back), np.arange(12.0).reshape(3, 4))


@pytest.mark.parametrize("kind", MAKE)
def test_a_mapped_file_becomes_memory_of_the_array(kind, tmp_path):
    joblib.dump(MAKE[kind](np.arange(5.0)), tmp_path / "array")
    back = process_work.doubled(joblib.load(tmp_path / "array", mmap_mode="r"))
    assert np.asarray(back).tolist() == [0, 2, 4, 6, 8]
    assert np.asarray(joblib.load(tmp_path / "array")).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", MAKE)
def test_equal_arrays_have_one_hash(kind):
    make, host = MAKE[kind], np.arange(1000.0)
    assert joblib.hash(make(host)) == joblib.hash(make(host.copy()))
    others = [host + 1, host.astype("f4"), host.reshape(10, 100), -host]
    assert len({joblib.hash(make(each)) for each in (host, *others)}) == 5


@pytest.mark.parametrize("kind", MAKE)
def test_results_are_remembered_by_what_the_arrays_hold(kind, tmp_path):
    make, calls = MAKE[kind], []

    def work(array):
        calls.append(1)
        return make(np.asarray(array) * 2)

    remembered = joblib.Memory(tmp_path, verbose=0).cache(work)
    array = make(np.arange(10.0))
    for _ in range(2):
        assert np.asarray(remembered(array)).tolist() == (2 * np.arange(10.0)).tolist()
    assert len(calls) == 1
    process_work.doubled(array)
    assert np.asarray(remembered(array))[9] == 36
    assert len(calls) == 2


def test_threads_copy_nothing():
    sent = [cuda.to_device(np.ones(10)) for _ in range(4)]
    with haulage.assert_no_transfers():
        joblib.Parallel(n_jobs=2, backend="threading")(
            joblib.delayed(process_work.doubled)(each) for each in sent
        )
