"""Which device a worker has, with two GPUs: those of a stand-in for NVIDIA's driver, in workers
that are processes of their own, of a client without a GPU."""

import os

import numpy as np
import pytest

import haulage
from doubles import libcuda
from haulage import cuda
from support.neighbours import neighbour

da = neighbour("dask.array")
distributed = neighbour("distributed")
neighbour("cuda.bindings", "cuda-bindings")

import haulage.dask as hd  # noqa: E402

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed"),
    pytest.mark.skipif(libcuda.compiler() is None, reason="no C compiler for the stand-in"),
]


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    """Processes that are started have two GPUs; this one uses the CPU device."""
    for name in ("HAULAGE_DEVICE", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(libcuda.EVERYWHERE))
    with haulage.use("cpu"):
        yield


def cluster(*environments):
    """A cluster whose workers have these environments, as dask-cuda makes its own."""
    made = {
        number: {"cls": distributed.Nanny, "options": {"nthreads": 1, "env": environment}}
        for number, environment in enumerate(environments)
    }
    scheduler = {"cls": distributed.Scheduler, "options": {"port": 0, "dashboard": False}}
    return distributed.SpecCluster(workers=made, scheduler=scheduler)


def of_worker(dask_worker):
    device = haulage.cuda.get_current_device()
    return dask_worker.name, str(device), device.name, os.environ.get("CUDA_VISIBLE_DEVICES")


def devices(client):
    return [one[1:3] for one in sorted(client.run(of_worker).values())]


def make_scale():
    @cuda.jit
    def scale(x, factor, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] * factor

    return scale


def test_cuda_visible_devices_is_obeyed():
    shown = [{"CUDA_VISIBLE_DEVICES": "0,1"}, {"CUDA_VISIBLE_DEVICES": "1,0"}]
    with cluster(*shown) as made, distributed.Client(made) as client:
        want = [("nvidia:0", "Stand-in GPU 0"), ("nvidia:0", "Stand-in GPU 1")]
        assert devices(client) == want
        # The plug-in does not count the workers where the variable tells their devices.
        client.register_plugin(hd.DevicePlugin())
        assert devices(client) == want


def test_haulage_device_is_obeyed():
    named = [{"HAULAGE_DEVICE": "nvidia:1"}, {"HAULAGE_DEVICE": "cpu"}]
    with cluster(*named) as made, distributed.Client(made) as client:
        client.register_plugin(hd.DevicePlugin())
        assert [name for name, _ in devices(client)] == ["nvidia:1", "cpu:0"]


def test_the_plug_in_gives_workers_the_devices_by_turns():
    with cluster({}, {}, {}) as made, distributed.Client(made) as client:
        assert [name for name, _ in devices(client)] == ["nvidia:0"] * 3
        client.register_plugin(hd.DevicePlugin())
        assert [name for name, _ in devices(client)] == ["nvidia:0", "nvidia:1", "nvidia:0"]


def test_blocks_go_between_workers_with_gpus_and_to_a_client_without():
    a = np.arange(600.0)
    with cluster({}, {}) as made, distributed.Client(made) as client:
        client.register_plugin(hd.DevicePlugin())
        x = hd.from_array(a, chunks=100)
        y = hd.map_blocks(make_scale(), hd.map_blocks(make_scale(), x, 2.0).rechunk(150), 3.0)
        kept = y.persist()
        distributed.wait(kept)
        found = {one["device"]: one["in_use"] for one in hd.memory(client).values()}
        assert set(found) == {"nvidia:0", "nvidia:1"}
        assert sum(found.values()) >= a.nbytes
        whole = kept.compute()
        assert whole.device.kind == "cpu"
        assert np.array_equal(whole.copy_to_host(), 6 * a)


def test_blocks_of_a_gpu_go_to_disk_and_come_back():
    def to_disk(dask_worker):
        while dask_worker.data.fast:
            dask_worker.data.evict()

    a = np.arange(600.0)
    with cluster({}) as made, distributed.Client(made) as client:
        client.register_plugin(hd.DevicePlugin())
        x = hd.from_array(a, chunks=100).persist()
        distributed.wait(x)
        (one,) = hd.memory(client).values()
        assert one["in_use"] >= a.nbytes
        client.run(to_disk)
        (one,) = hd.memory(client).values()
        assert (one["in_use"], one["spilled"]) == (0, a.nbytes)
        assert np.array_equal(hd.to_host(x).compute(), a)
