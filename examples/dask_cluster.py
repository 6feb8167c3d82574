"""What the two examples for Dask share: a cluster, a progress bar, and a worker that is killed.

All of it runs in the program that asks. What workers run stands in the examples' own files, whose
kernels and functions are sent to them, so that a cluster on other machines needs Haulage alone.
"""

import argparse
import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask
import numpy as np
from dask.utils import format_bytes
from distributed import Client, LocalCluster, get_task_stream
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import haulage.dask as hd


def parser(description: str, memory: str) -> argparse.ArgumentParser:
    """The options of both examples; `memory` is the default limit of a worker."""
    made = argparse.ArgumentParser(description=description)
    add = made.add_argument
    add("--scheduler", metavar="ADDRESS", help="of a running cluster, as tcp://host:8786")
    add("--workers", type=whole, default=2, help="processes, without --scheduler (default: 2)")
    add(
        "--memory-limit",
        default=memory,
        help=f"of each worker, without --scheduler (default: {memory})",
    )
    add("--out", metavar="FILE", help="where the picture goes, as picture.png")
    add("--kill", action="store_true", help="kill a worker in the middle, and compare the results")
    add("--tries", type=whole, default=1, help="how often, with --kill (default: 1)")
    return made


def whole(text: str) -> int:
    """A whole number of 1 or more, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number of 1 or more")
    return int(text)


@contextmanager
def connected(chosen: argparse.Namespace) -> Iterator[Client]:
    """A client of the scheduler that was named, else of a cluster that ends with this block."""
    if chosen.scheduler:
        with Client(chosen.scheduler) as client:
            client.register_plugin(hd.DevicePlugin())
            yield client
        return
    with (
        # 15 s after a worker was lost, LocalCluster gives up its nanny if a worker of that name is
        # being replaced just then: so it would with one kill soon after another.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 day"}),
        LocalCluster(
            n_workers=chosen.workers,
            threads_per_worker=1,
            memory_limit=chosen.memory_limit,
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster) as client,
    ):
        client.register_plugin(hd.DevicePlugin())
        yield client


def told(client: Client) -> str:
    """A line on the workers and their memory limits."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    limits = sum(each["memory_limit"] for each in workers)
    return f"{len(workers)} workers, memory limits of {format_bytes(limits)} in all"


class Steps:
    """A bar on a terminal, ten lines elsewhere: `with Steps("rounds", 40) as bar: bar.at(1)`."""

    def __init__(self, what: str, count: int) -> None:
        self.what = what
        self.count = count
        self.lines = 0
        self.bar = Progress(
            TextColumn(what),
            BarColumn(),
            TextColumn("{task.completed} of {task.total}  {task.fields[note]}"),
            TimeElapsedColumn(),
            disable=not sys.stdout.isatty(),
        )
        self.task = self.bar.add_task(what, total=count, note="")

    def __enter__(self) -> "Steps":
        self.bar.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.bar.stop()

    def at(self, done: int, note: str = "") -> None:
        """`done` of them are, and what else there is to say."""
        self.bar.update(self.task, completed=done, note=note)
        if self.bar.disable and done * 10 // self.count > self.lines:
            self.lines = done * 10 // self.count
            print(f"{self.what}: {done} of {self.count}  {note}".rstrip(), flush=True)

    def say(self, line: str) -> None:
        """A line, above the bar."""
        if self.bar.disable:
            print(line, flush=True)
        else:
            self.bar.console.print(line, highlight=False)


def kill_one(client: Client, *, timeout: float = 60.0) -> str:
    """Kill the worker that holds the most results, by SIGKILL; says which it was.

    Raises:
        TimeoutError: no worker held a result for `timeout` seconds.
    """
    until = time.monotonic() + timeout
    while True:
        held = client.has_what()
        address = max(held, key=lambda each: len(held[each]), default=None)
        if address is not None and held[address]:
            break
        if time.monotonic() > until:
            raise TimeoutError(f"no worker held a result for {timeout} s: there is none to kill")
        time.sleep(0.01)
    pid = client.run(os.getpid, workers=[address])[address]
    if client.cluster is not None:
        os.kill(pid, signal.SIGKILL)
    else:
        # It may be on another machine: the process does it to itself, and cannot answer.
        client.run(os.kill, pid, signal.SIGKILL, workers=[address], on_error="ignore")
    return f"killed {address}, process {pid}, which held {len(held[address])} results"


def digest(result: np.ndarray) -> str:
    """A hash of all bits."""
    return hashlib.blake2b(np.ascontiguousarray(result), digest_size=8).hexdigest()


def with_and_without_a_kill(
    client: Client, run: Callable[[bool], np.ndarray], kill: bool, tries: int
) -> tuple[np.ndarray, bool]:
    """`run(False)`, and if asked `run(True)`, which kills a worker, some times.

    Returns:
        The first result, and whether all have the same bits.
    """
    began = time.perf_counter()
    with get_task_stream(client) as tasks:
        result = run(False)
    first = len(tasks.data)
    print(f"{time.perf_counter() - began:.1f} s, {first} tasks, result {digest(result)}")
    equal = 0
    for at in range(1, tries + 1 if kill else 1):
        count = len(client.scheduler_info(n_workers=-1)["workers"])
        began = time.perf_counter()
        with get_task_stream(client) as tasks:
            again = run(True)
        same = digest(again) == digest(result)
        equal += same
        print(
            f"try {at}: {time.perf_counter() - began:.1f} s, {len(tasks.data)} tasks, result "
            f"{digest(again)}, {'equal bit for bit' if same else 'NOT EQUAL'}",
            flush=True,
        )
        if not _are_back(client, count):
            print(f"The killed worker is not replaced; {told(client)}.")
    if kill:
        print(f"{equal} of {tries} results with a killed worker are equal bit for bit.")
    return result, not kill or equal == tries


def _are_back(client: Client, count: int, timeout: float = 20.0) -> bool:
    """Wait for the worker that replaces the killed one; workers without a nanny get none."""
    try:
        client.wait_for_workers(count, timeout=timeout)
    except TimeoutError:
        return False
    return True
