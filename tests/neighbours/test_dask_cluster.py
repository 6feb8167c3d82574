"""Device arrays on workers that are processes of their own."""

import json
import sys
import time
import urllib.request

import numpy as np
import pytest

import haulage
from haulage import SmartArray, cuda
from haulage.cuda.cudadrv.devicearray import DeviceNDArray
from support.neighbours import neighbour

da = neighbour("dask.array")
distributed = neighbour("distributed")

import haulage.dask as hd  # noqa: E402

# As `scheduler_info` and others of Dask's warn by themselves, in some of its versions.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed")


def cluster(workers=2, memory_limit="1GB", **options):
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=2,
        memory_limit=memory_limit,
        **{"dashboard_address": "127.0.0.1:0"} | options,
    )


@pytest.fixture(scope="module")
def client():
    with cluster() as made, distributed.Client(made) as client:
        client.register_plugin(hd.DevicePlugin())
        yield client


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def make_scale():
    # In a function, so that it is pickled with its code: workers cannot import this file.
    @cuda.jit
    def scale(x, factor, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] * factor

    return scale


def test_arrays_travel_between_workers_and_to_the_client(client):
    first, second = list(client.scheduler_info()["workers"])
    host = np.arange(1000.0)

    def make():
        return cuda.to_device(host), SmartArray(host), cuda.to_device(host)[::2]

    def look(made):
        with haulage.transfers() as t:
            found = [float(np.asarray(each).sum()) for each in made]
        return found, [type(each).__name__ for each in made], t.count("host to device")

    made = client.submit(make, workers=[first], pure=False)
    sums, kinds, copies = client.submit(look, made, workers=[second]).result()
    assert sums == [host.sum(), host.sum(), host[::2].sum()]
    assert kinds == ["DeviceNDArray", "SmartArray", "DeviceNDArray"]
    assert copies == 0
    array, smart, part = made.result()
    assert isinstance(array, DeviceNDArray)
    assert np.array_equal(array.copy_to_host(), host)
    assert np.array_equal(smart, host)
    assert np.array_equal(part.copy_to_host(), host[::2])


def test_one_copy_on_the_side_that_receives(client):
    first, second = list(client.scheduler_info()["workers"])

    def watch(dask_worker):
        dask_worker.seen = haulage.transfers()
        dask_worker.seen.__enter__()

    def seen(dask_worker):
        dask_worker.seen.__exit__()
        return [(one.direction, one.nbytes, one.why) for one in dask_worker.seen]

    made = client.submit(lambda: cuda.to_device(np.ones(1000)), workers=[first], pure=False)
    distributed.wait(made)
    client.run(watch)
    client.submit(lambda array: array.size, made, workers=[second]).result()
    found = client.run(seen)
    assert found[first] == []
    why = "Dask (received, or read back from disk)"
    assert found[second] == [("host to device", 8000, why)]


def test_kernels_on_blocks_of_workers(client):
    a = np.random.default_rng(0).random(100_000)
    x = hd.from_array(a, chunks=7_000)
    y = hd.map_blocks(make_scale(), x, 2.0)
    z = hd.map_overlap(make_stencil(), y.rechunk(9_000), depth=1, boundary="periodic")[::3]
    want = 2 * (np.roll(a, 1) + np.roll(a, -1))
    assert np.allclose(hd.to_host(z).compute(), want[::3])
    assert isinstance(y.compute(), DeviceNDArray)
    kept = y.persist()
    distributed.wait(kept)
    assert np.isclose(kept.sum().compute(), 2 * a.sum())


def make_stencil():
    @cuda.jit
    def stencil(padded, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = padded[i] + padded[i + 2]

    return stencil


def test_a_kernel_is_compiled_once_by_each_worker(client):
    @cuda.jit
    def compiled_once(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + 41

    def codes():
        from haulage.dask import kernels

        found = [k for k in kernels._known.values() if k.__name__ == "compiled_once"]
        return len(found), sum(len(kernel.overloads) for kernel in found)

    x = hd.from_array(np.arange(4000.0), chunks=100)
    for more in range(2):
        y = hd.map_blocks(compiled_once, x.rechunk(150) if more else x)
        assert hd.to_host(y).compute()[-1] == 3999 + 41
    assert set(client.run(codes).values()) == {(1, 1)}


def test_a_result_that_is_there_is_not_computed_anew(client):
    x = hd.from_array(np.arange(4000.0), chunks=1000)
    scale = make_scale()
    assert hd.map_blocks(scale, x, 2.0).name == hd.map_blocks(scale, x, 2.0).name
    assert hd.map_blocks(scale, x, 2.0).name != hd.map_blocks(scale, x, 3.0).name


def test_memory_by_worker_and_who_holds_it(client):
    x = hd.from_array(np.zeros(400_000), chunks=100_000).persist()
    distributed.wait(x)
    found = hd.memory(client)
    assert list(found) == list(client.scheduler_info()["workers"])
    assert sum(one["in_use"] for one in found.values()) >= 3_200_000
    for one in found.values():
        assert one["device"] == "cpu:0"
        assert one["peak"] >= one["in_use"]
        assert one["limit"] is None
    head, *rows = repr(found).splitlines()
    assert "in use" in head
    assert len(rows) == 2
    told = "".join(hd.report(client).values())
    assert told.count("Dask's ('to_device-") >= 2
    until(lambda: sum(one["in_use"] for one in heartbeats(client)) >= 3_200_000)
    del x
    until(lambda: sum(one["in_use"] for one in hd.memory(client).values()) < 3_200_000)


def heartbeats(client):
    return [w["metrics"]["haulage"] for w in client.scheduler_info()["workers"].values()]


def test_cores_are_shared_among_the_workers_of_a_host(client):
    def threads():
        from haulage.backends.cpu_driver import processor

        return processor.threads(), processor.cores()

    for mine, cores in client.run(threads).values():
        assert mine == max(1, cores // 2)


def test_what_does_not_fit_goes_to_disk_and_comes_back():
    with cluster(1, "600MB") as made, distributed.Client(made) as client:
        client.register_plugin(hd.DevicePlugin())
        rng = da.random.default_rng(1)
        host = rng.random(75_000_000, chunks=1_000_000)  # 600 MB
        x = hd.to_device(host).persist()
        distributed.wait(x)
        (one,) = hd.memory(client).values()
        assert one["spilled"] > 100_000_000
        assert one["in_use"] + one["spilled"] == x.nbytes
        # The memory of what went to disk is not held any more.
        assert one["peak"] < 500_000_000
        (told,) = hd.report(client).values()
        assert "Dask's ('to_device-" in told
        same = hd.to_host(x) == host
        assert bool(same.all().compute())
        (one,) = hd.memory(client).values()
        assert one["in_use"] + one["spilled"] == x.nbytes


def free_in_pools():
    held = haulage.memory.stats()
    return held.reserved - held.in_use


def test_memory_of_what_goes_to_disk_goes_back_to_the_system():
    def to_disk(dask_worker):
        before = len(dask_worker.data.fast)
        while dask_worker.data.fast:
            dask_worker.data.evict()
        return before, free_in_pools()

    with cluster(1, "2GB") as made, distributed.Client(made) as client:
        client.register_plugin(hd.DevicePlugin())
        x = hd.to_device(da.zeros(10_000_000, chunks=500_000)).persist()  # 20 of 4 MB
        distributed.wait(x)
        ((count, free),) = client.run(to_disk).values()
        # All but that of the last one.
        assert count >= 20
        assert free < 8_000_000
        assert hd.to_host(x).compute().sum() == 0


def test_a_paused_worker_gives_back_what_is_free():
    def pause(dask_worker):
        kept = cuda.to_device(np.zeros(3_000_000))
        del kept
        dask_worker.memory_manager.memory_pause_fraction = False  # or Dask would go on by itself
        dask_worker.status = distributed.Status.paused
        return free_in_pools()

    with cluster(1) as made, distributed.Client(made) as client:
        client.register_plugin(hd.DevicePlugin())
        assert list(client.run(pause).values()) >= [24_000_000]
        until(lambda: list(client.run(free_in_pools).values()) == [0])


def test_devices_by_number_and_by_name():
    with cluster(2) as made, distributed.Client(made) as client:
        client.register_plugin(hd.DevicePlugin(devices=["cpu", "cpu:0"], threads=1))
        assert {one["device"] for one in hd.memory(client).values()} == {"cpu:0"}
        x = hd.map_blocks(make_scale(), hd.from_array(np.ones(8), chunks=2), 2.0)
        assert hd.to_host(x).compute().sum() == 16
        assert {one["threads"] for one in hd.memory(client).values()} <= {1, None}
        with pytest.raises(haulage.errors.DeviceNotFound, match="nvidia"):
            client.register_plugin(hd.DevicePlugin(devices=["nvidia"]))
        with pytest.raises(ValueError, match="none for worker"):
            client.register_plugin(hd.DevicePlugin(devices={"somebody": "cpu"}))
        with pytest.raises(RuntimeError, match="register the plug-in before"):
            client.register_plugin(hd.DevicePlugin(threads=2))


def test_haulage_device_is_obeyed(monkeypatch):
    monkeypatch.setenv("HAULAGE_DEVICE", "cpu:0")
    with cluster(1) as made, distributed.Client(made) as client:
        assert [one["device"] for one in hd.memory(client).values()] == ["cpu:0"]
    monkeypatch.setenv("HAULAGE_DEVICE", "nvidia:5")
    refused = pytest.raises(haulage.errors.DeviceNotFound, match="HAULAGE_DEVICE")
    with cluster(1) as made, distributed.Client(made) as client, refused:
        client.register_plugin(hd.DevicePlugin())


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"devices": "cpu"}, TypeError),
        ({"devices": []}, ValueError),
        ({"threads": 0}, ValueError),
        ({"threads": "all"}, TypeError),
        ({"threads": True}, TypeError),
    ],
)
def test_a_plug_in_that_makes_no_sense_is_refused(given, error):
    with pytest.raises(error, match="DevicePlugin"):
        hd.DevicePlugin(**given)


def test_threads_of_one_worker_in_this_process():
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=4,
            processes=False,
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
        ) as made,
        distributed.Client(made) as client,
    ):
        a = np.random.default_rng(0).random(50_000)
        x = hd.from_array(a, chunks=500)
        y = hd.map_blocks(make_scale(), hd.map_blocks(make_scale(), x, 2.0), 4.0)
        assert np.array_equal(hd.to_host(y).compute(), 8 * a)
        assert client.submit(lambda: haulage.devices()[0].kind).result()


def test_the_page_of_the_dashboard():
    neighbour("bokeh")
    with (
        cluster(2) as made,
        distributed.Client(made) as client,
    ):
        client.register_plugin(hd.DevicePlugin())
        address = hd.dashboard(client)
        assert hd.dashboard(client) == address  # and there is one page, not two
        with urllib.request.urlopen(address, timeout=30) as answer:
            page = answer.read().decode()
        assert "Haulage: device memory" in page
        until(lambda: all("haulage" in w["metrics"] for w in workers(client)))
        columns = columns_of(client)
        assert columns["device"] == ["cpu:0"] * 2
        assert sorted(columns["worker"]) == ["0", "1"]
        json.dumps(columns)


def workers(client):
    return client.scheduler_info()["workers"].values()


def columns_of(client):
    def look(dask_scheduler):
        from haulage.dask.dashboard import rows

        return rows(dask_scheduler)

    return client.run_on_scheduler(look)


def test_without_bokeh_there_is_no_page(client, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed.dashboard.core", None)
    with pytest.raises(RuntimeError, match="bokeh"):
        hd.dashboard(client)


def test_two_workers_of_one_process_share_its_device():
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
        ) as made,
        distributed.Client(made) as client,
    ):
        client.register_plugin(hd.DevicePlugin(devices=["cpu", "cpu:0"]))
        assert [one["device"] for one in hd.memory(client).values()] == ["cpu:0"] * 2
        x = hd.map_blocks(make_scale(), hd.from_array(np.ones(8), chunks=2), 2.0)
        assert hd.to_host(x).compute().sum() == 16
