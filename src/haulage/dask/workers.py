"""Dask's workers and devices: which device a worker has, and what it holds of its memory."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dask.sizeof import sizeof
from dask.utils import format_bytes
from distributed import Client, Worker, WorkerPlugin

from haulage import config
from haulage.backends.cpu_driver import processor
from haulage.backends.cpu_driver.pool import POOL
from haulage.dask import spilling
from haulage.runtime.arrays.array import DeviceRecord
from haulage.runtime.arrays.copying import DeviceNDArrayBase
from haulage.runtime.arrays.host_arrays import HostVisibleNDArray
from haulage.runtime.buffers import pinned_memory
from haulage.runtime.devices.registry import current_device, devices_of, find, use
from haulage.runtime.memory.limits import limit_of
from haulage.runtime.memory.reports import report as report_here
from haulage.runtime.memory.statistics import stats
from haulage.runtime.process import runtime

# The name of the figures in a worker's metrics, which `client.scheduler_info()` has.
METRIC = "haulage"

_THREADS = "HAULAGE_NUM_THREADS"


class DevicePlugin(WorkerPlugin):
    """Gives each worker its device: `client.register_plugin(haulage.dask.DevicePlugin())`.

    Without it each worker process has the device that `HAULAGE_DEVICE` names there, else the best
    one that it sees. What CUDA_VISIBLE_DEVICES says, as dask-cuda sets it for each worker, is
    obeyed by NVIDIA's driver: the first device that it shows is `nvidia:0`.

    The worker whose number is `i` has `devices[i % len(devices)]`. Its number is its name where
    that is one, as those of a `LocalCluster` are; else its place among the workers of its host, as
    the scheduler lists them. A worker on a CPU device whose kernels have not run yet is given its
    share of the host's cores, unless `HAULAGE_NUM_THREADS` is set.

    What is free in the pool of a CPU device goes back to the system when the worker puts a result
    to disk, and while it is paused: Dask watches the memory of the process.

    The figures of `haulage.dask.memory` come with each heartbeat: `client.scheduler_info()
    ["workers"][address]["metrics"]["haulage"]`.

    Args:
        devices: names as in `haulage.use`; or a dictionary of them by worker's name. None: all
            devices of the best kind that a worker sees; the current one where HAULAGE_DEVICE or
            CUDA_VISIBLE_DEVICES is set.
        threads: of the CPU device, for each worker; None: its share.

    Raises:
        TypeError, ValueError: at once: `devices` are no names, or there are none; `threads` is no
            whole number of at least 1.
        DeviceNotFound: at the registration: a worker has no such device.
        RuntimeError: at the registration: two workers of one process are given two devices; kernels
            of a worker have run already, on another number of threads.
    """

    name = "haulage-devices"

    def __init__(
        self,
        devices: Sequence[str] | Mapping[Any, str] | None = None,
        threads: int | None = None,
    ) -> None:
        if isinstance(devices, str) or not (
            devices is None or isinstance(devices, (Sequence, Mapping))
        ):
            raise TypeError(
                f"DevicePlugin(devices={devices!r}): expected a list such as ['cpu'], or a "
                "dictionary by worker's name"
            )
        if devices is not None and not devices:
            raise ValueError("DevicePlugin(devices=...): expected one device at least; it is empty")
        if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int)):
            raise TypeError(f"DevicePlugin(threads={threads!r}): expected a whole number")
        if threads is not None and threads < 1:
            raise ValueError(f"DevicePlugin(threads={threads}): expected 1 or more")
        self.devices = devices
        self.threads = threads

    async def setup(self, worker: Worker) -> None:
        """Dask calls it on each worker, also on those that come later."""
        number, beside = await _place_of(worker)
        device = self._device(worker, number)
        held = _chosen.get(os.getpid())
        if held is not None and held[0] is not device and held[1] != worker.address:
            raise RuntimeError(
                f"worker {worker.name!r} is given {device}, and worker {held[1]} of the same "
                f"process has {held[0]}: a process has one device; make workers of processes of "
                "their own (LocalCluster(processes=True))"
            )
        if device.backend.uses_pool:
            self._share_cores(beside)
        use(device)
        _chosen.clear()
        _chosen[os.getpid()] = device, worker.address
        worker.metrics[METRIC] = figures
        if worker.address not in _ends:
            _ends[worker.address] = spilling.watch(worker)
        _naming[worker.address] = worker
        runtime.current.once(_subscribe)

    def teardown(self, worker: Worker) -> None:
        """Dask calls it when the worker ends, or the plug-in is taken back."""
        worker.metrics.pop(METRIC, None)
        _naming.pop(worker.address, None)
        end = _ends.pop(worker.address, None)
        if end is not None:
            end()
        if _chosen.get(os.getpid(), (None, None))[1] == worker.address:
            _chosen.clear()

    def _device(self, worker: Worker, number: int) -> Any:
        if isinstance(self.devices, Mapping):
            if worker.name not in self.devices:
                raise ValueError(
                    f"DevicePlugin(devices=...): none for worker {worker.name!r}; there are those "
                    f"of {', '.join(map(repr, self.devices))}"
                )
            return find(self.devices[worker.name], f"DevicePlugin: worker {worker.name!r}:")
        if self.devices is not None:
            name = self.devices[number % len(self.devices)]
            return find(name, f"DevicePlugin: worker {worker.name!r}:")
        present = current_device()
        if config.device_choice() or os.environ.get("CUDA_VISIBLE_DEVICES"):
            return present
        alike = devices_of(present.kind)
        return alike[number % len(alike)]

    def _share_cores(self, beside: int) -> None:
        if self.threads is None and os.environ.get(_THREADS):
            return
        threads = self.threads or max(1, processor.cores() // beside)
        if POOL.started:
            if self.threads is not None and POOL.workers + 1 != threads:
                raise RuntimeError(
                    f"DevicePlugin(threads={threads}): kernels have run on {POOL.workers + 1} "
                    "threads in this worker already; register the plug-in before"
                )
            return
        os.environ[_THREADS] = str(threads)


# The device of this process, and the worker that was given it.
_chosen: dict[int, tuple[Any, str]] = {}
# By worker's address: ends that it gives free memory back.
_ends: dict[str, Callable[[], None]] = {}
# The workers of this process whose keys stand in reports.
_naming: dict[str, Worker] = {}


async def _place_of(worker: Worker) -> tuple[int, int]:
    """(the worker's number, how many workers its host has)."""
    known = (await worker.scheduler.identity())["workers"]
    host = _host(worker.address)
    alike = [each for each in known if _host(each) == host]
    if worker.address not in alike:
        alike.append(worker.address)
    name = str(worker.name)
    number = int(name) if name.isascii() and name.isdigit() else alike.index(worker.address)
    return number, len(alike)


def _host(address: str) -> str:
    return address.partition("://")[2].rpartition(":")[0] if ":" in address else address


# ---- what it holds ----------------------------------------------------------------------------


def figures(worker: Worker) -> dict[str, Any]:
    """The figures of one worker, in its process; see `memory`."""
    device = current_device()
    held = stats(device)
    spilled = getattr(worker.data, "spilled_total", None)
    return {
        "device": str(device),
        "in_use": held.in_use,
        "reserved": held.reserved,
        "peak": held.peak,
        "limit": limit_of(device),
        "total": device.memory_info()[1],
        "spilled": 0 if spilled is None else int(spilled.memory),
        "threads": POOL.workers + 1 if POOL.started else None,
    }


class Memory(dict[str, dict[str, Any]]):
    """Figures by worker's address; `print` and notebooks show a table."""

    def __repr__(self) -> str:
        rows = [("worker", "device", "in use", "peak", "limit", "spilled by Dask")]
        for address, one in self.items():
            sizes = (one["in_use"], one["peak"], one["limit"], one["spilled"])
            rows.append((address, one["device"], *map(_in_words, sizes)))
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(n) if at < 2 else cell.rjust(n)
                for at, (cell, n) in enumerate(zip(row, wide, strict=True))
            ).rstrip()
            for row in rows
        )


def _in_words(nbytes: int | None) -> str:
    return "none" if nbytes is None else str(format_bytes(nbytes))


def memory(client: Client) -> Memory:
    """The device memory of each worker, now; it needs no plug-in.

    Returns:
        By worker's address: 'device', its current device; 'in_use', 'reserved' and 'peak' as
        `haulage.memory.stats` has them for that device, in bytes; 'limit' of
        `haulage.memory.limit`, or None; 'total', the bytes of the device; 'spilled', the bytes that
        Dask has put to disk, as they were in memory, of device arrays and of all else; 'threads' of
        the CPU device, or None while no kernel has run.
    """
    return Memory(client.run(_figures))


def _figures(dask_worker: Worker) -> dict[str, Any]:
    return figures(dask_worker)


def report(client: Client) -> dict[str, str]:
    """Who holds device memory in each worker: `haulage.memory.report()`, by worker's address.

    Blocks that are results of tasks are named by the tasks' keys.
    """
    return dict(client.run(_report))


def _report(dask_worker: Worker) -> str:
    runtime.current.once(_subscribe)
    known = dask_worker.address in _naming
    _naming[dask_worker.address] = dask_worker
    try:
        return str(report_here())
    finally:
        if not known:
            del _naming[dask_worker.address]


def _subscribe(to: runtime.Runtime) -> None:
    to.block_names.append(_names)


def _names() -> dict[int, str]:
    """The keys of the results that blocks of memory belong to, by the blocks' generations."""
    names = {}
    for worker in tuple(_naming.values()):
        # Without a look by Dask's own ways, which count as uses, and read back what is on disk.
        data: Any = getattr(worker.data, "fast", worker.data)
        for key, value in tuple(getattr(data, "d", data).items()):
            block = _block_of(value)
            if block is not None:
                names[block.generation] = f"Dask's {key!r}, {format_bytes(sizeof(value))}"
    return names


def _block_of(value: Any) -> Any:
    if isinstance(value, (DeviceNDArrayBase, DeviceRecord)):
        return value.block
    if isinstance(value, HostVisibleNDArray):
        return pinned_memory.block_of(value)
    return None
