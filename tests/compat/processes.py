"""Runs test modules, each in a process of its own, which may crash or hang.

The processes are forks of this one, which has imported Numba and Haulage already: that is a second
a module. A module whose process ended early goes on, in a new one, after the test it ended in.
"""

import contextlib
import dataclasses
import faulthandler
import json
import os
import resource
import selectors
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tests_of_numba as numbas

# Whether code for GPUs is to be made of the kernels too, as for `pytest --codegen`; whose, if not
# all; and where each process leaves what came of it.
CODEGEN, MAKER = "HAULAGE_TEST_CODEGEN", "HAULAGE_TEST_CODEGEN_FOR"
FOLDER = "HAULAGE_TEST_CODEGEN_FOLDER"

# Bytes that a process may take: one test takes half of the memory that the device says it has.
ROOM = min(32 << 30, max(4 << 30, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4))


@dataclass
class Outcome:
    """What became of a test function: `passed`, `failed` or `skipped`, and why."""

    module: str
    end: str
    why: str
    seconds: float


@dataclass
class _Module:
    """A module on its way: what its process has said so far."""

    name: str
    listed: list[str] = field(default_factory=list)
    done: dict[str, Outcome] = field(default_factory=dict)
    current: str | None = None
    pid: int = 0
    since: float = 0.0
    late: bool = False
    unread: bytes = b""

    def hear(self, line: bytes) -> None:
        name, word, why, seconds = json.loads(line)
        self.since = time.monotonic()
        if word == "listed":
            self.listed.append(name)
        elif word == "begun":
            self.current = name
        else:
            self.done[name] = Outcome(self.name, word, why, seconds)
            self.current = None


def run(
    modules: Sequence[str],
    wanted: Callable[[str], bool],
    jobs: int,
    limit: float,
    ended: Callable[[str, dict[str, Outcome]], None],
) -> None:
    """Run the modules, `jobs` at a time; `ended(module, outcomes)` is called for each.

    A test that takes longer than `limit` seconds fails.
    """
    waiting = [_Module(name) for name in modules]
    running: dict[int, _Module] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    module = waiting.pop(0)
                    pipe = _start(module, wanted)
                    running[pipe] = module
                    selector.register(pipe, selectors.EVENT_READ)
                for key, _ in selector.select(timeout=1.0):
                    module = running[key.fd]
                    if not _read(key.fd, module):
                        selector.unregister(key.fd)
                        os.close(key.fd)
                        del running[key.fd]
                        if _finish(module, limit):
                            ended(module.name, module.done)
                        else:
                            waiting.insert(0, module)
                for module in running.values():
                    if time.monotonic() - module.since > limit and not module.late:
                        module.late = True
                        _kill(module)
        finally:
            for module in running.values():
                _kill(module)


def _start(module: _Module, wanted: Callable[[str], bool]) -> int:
    """Begin or go on with a module in a new process; returns where that reports to."""
    done = set(module.done)
    reading, writing = os.pipe()
    sys.stdout.flush()
    module.since, module.late, module.current, module.unread = time.monotonic(), False, None, b""
    module.listed = []
    module.pid = os.fork()
    if module.pid:
        os.close(writing)
        return reading
    try:
        os.close(reading)
        _child(module.name, lambda name: name not in done and wanted(name), writing)
    finally:
        # Without the end of this program, which is the parent's.
        os._exit(1)


def _child(name: str, wanted: Callable[[str], bool], writing: int) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, resource.getrlimit(resource.RLIMIT_AS)[1]))
    with tempfile.TemporaryFile() as log, open(writing, "wb", buffering=0) as pipe:
        # What tests print, also from native code.
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        faulthandler.enable()

        def report(*said: object) -> None:
            pipe.write(json.dumps(said).encode() + b"\n")

        kernels = _collector(name)
        numbas.run(name, wanted, report)
        if kernels is not None:
            outcome = kernels.stop()
            said = dataclasses.asdict(outcome)
            Path(os.environ[FOLDER], f"{name}.{os.getpid()}.json").write_text(json.dumps(said))
        os._exit(0)


def _collector(name: str) -> Any:
    """Of the code for GPUs of the kernels in this process; None if that is not wanted."""
    wanted = os.environ.get(CODEGEN, "none")
    if wanted == "none":
        return None
    from codegen.collector import ARCHITECTURES, Collector

    maker = os.environ.get(MAKER)
    made = Collector(all_of_them=wanted == "all", kinds=[maker] if maker else ARCHITECTURES)
    made.where = lambda: name
    made.start()
    return made


def _read(pipe: int, module: _Module) -> bool:
    """Hear what a module's process said; False if it has ended."""
    data = os.read(pipe, 1 << 16)
    *lines, module.unread = (module.unread + data).split(b"\n")
    for line in lines:
        module.hear(line)
    return bool(data)


def _finish(module: _Module, limit: float) -> bool:
    """Whether a module whose process ended is through; what it ended in has then failed."""
    _, status = os.waitpid(module.pid, 0)
    # What its tests started and left behind.
    _kill(module)
    code = os.waitstatus_to_exitcode(status)
    if code == 0 and module.current is None:
        return True
    if module.late:
        why = f"not ended after {limit:g} seconds"
    elif code < 0:
        why = f"its process was ended by {signal.Signals(-code).name}"
    else:
        why = f"its process ended with exit status {code}"
    stopped = [module.current] if module.current else module.listed
    for name in stopped or numbas.written_in(module.name):
        module.done.setdefault(name, Outcome(module.name, "failed", why, 0.0))
    return module.current is None


def _kill(module: _Module) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(module.pid, signal.SIGKILL)
