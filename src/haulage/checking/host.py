"""The checks of the host's part: which are made, and how they begin and end in a process."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from haulage import forks
from haulage._core.memory import live_blocks
from haulage.checking import host_arrays, host_memory, seam
from haulage.checking.findings import FREED, LEAK, STREAM, UNINITIALIZED, Finding, Findings
from haulage.checking.seam import Watched
from haulage.checking.streams import Field, StreamCheck, fields
from haulage.checking.touched import Touched
from haulage.checking.written import WrittenMemory
from haulage.runtime.devices.device import Device
from haulage.runtime.process import runtime

if TYPE_CHECKING:
    from haulage.backends.base import Backend
    from haulage.runtime.memory import Block

# Which kinds of findings each check of the host's part makes.
_MAKES = {"stream": (STREAM,), "memory": (FREED, LEAK), "init": (UNINITIALIZED,)}


class HostChecks:
    """Makes the checks "stream" and "memory" of `haulage.checking.names.CHECKS`, and of "init"
    what is about the host and the memory of devices.

    It is told what happens as the observer of memory, and by drivers that it stands in front of.
    """

    def __init__(self, findings: Findings, checks: frozenset[str]) -> None:
        self.checks = checks
        self.findings = findings
        self._numbers: dict[tuple[int, int], int] = {}
        self._watched: dict[int, Watched] = {}
        self._devices: list[Device] = []
        self.memory = host_memory.MemoryCheck(_Chosen(self))
        self.streams = StreamCheck(_Chosen(self), self.memory.used)
        self.written = WrittenMemory(_Chosen(self))
        self.pinned_type: type[np.ndarray] = host_arrays.PinnedArray

    def makes(self, kind: str) -> bool:
        """Whether a kind of findings is asked for."""
        return any(kind in _MAKES[check] for check in self.checks & _MAKES.keys())

    # ---- begin and end --------------------------------------------------------------------------

    def begin(self) -> None:
        """Check what follows.

        Raises:
            RuntimeError: the process is traced.
        """
        now = runtime.current
        if now.observer is not None:
            raise RuntimeError(
                "streams and memory of a program that is traced cannot be checked; check it "
                "without `haulage trace`, or leave out the checks stream, memory and init"
            )
        now.observer = now.host_checker = self
        for block in live_blocks():
            self._known(block, is_new=False)
        for device in _found():
            self._watch(device)
        host_arrays.begin(self.streams.used_by_host)

    def end(self) -> None:
        """Check no more."""
        self.streams.is_over = True
        host_arrays.end()
        now = runtime.current
        now.observer = now.host_checker = None
        while self._devices:
            device = self._devices.pop()
            backend: Any = device.backend
            device.backend = backend.backend
            device.queues = device.backend.queues

    def program_ends(self) -> None:
        """The program is at its end: what it did not give back is a leak."""
        if self.makes(LEAK):
            for finding in host_memory.leaks(self.memory):
                self.findings.add(finding)

    # ---- what is told: see `observing.HostChecker` and `observing.Observer` ---------------------

    def found(self, device: Device) -> None:
        self._watch(device)

    def _watch(self, device: Device) -> None:
        device.backend = self._in_front_of(device.backend)
        # So that nobody asks its streams but by the driver.
        device.queues = None
        self._devices.append(device)

    def _in_front_of(self, backend: "Backend") -> Any:
        made = self._watched.get(id(backend))
        if made is None:
            made = Watched(backend, self._numbers, self.streams, self.memory, self.written)
            self._watched[id(backend)] = made
        return made

    def launching(
        self,
        device: Device,
        overload: Any,
        configuration: Any,
        header: bytes,
        captured: Sequence[Any],
        start: Callable[[int, bytes], None],
        *,
        is_checked: bool,
    ) -> Callable[[int, bytes], None]:
        if not isinstance(device.backend, Watched):
            self._watch(device)  # one that is not of the process's own devices
        backend: Any = device.backend
        number = backend.number_of(device.id)
        if not is_checked:
            start = partial(self._unchecked, start, fields(overload, len(header)))
        touched = Touched(overload, device, configuration, len(header))
        return self.streams.launching(number, overload, header, captured, touched, start)

    def _unchecked(
        self,
        start: Callable[[int, bytes], None],
        used: Callable[[bytes], list[Field]],
        stream: int,
        packed: bytes,
    ) -> None:
        """Start a launch of whose threads nobody is told."""
        self.written.not_seen(region.extent[0] for _, _, region, _ in used(packed))
        start(stream, packed)
        self.findings.checked(0)

    def unseen(self) -> AbstractContextManager[object]:
        return seam.unseen()

    def used_after_close(self, block: "Block") -> None:
        self.memory.used_after_close(block)

    def freed_again(self, block: "Block") -> None:
        self.memory.freed_again(block)

    # Work is seen at the driver; whoever is asked hands it on as it is.
    inside = True

    def allocated(self, block: "Block") -> None:
        self._known(block, is_new=True)

    def _known(self, block: "Block", *, is_new: bool) -> None:
        self.memory.allocated(block)
        self.streams.allocated(block)
        if "init" in self.checks:
            self.written.allocated(block, is_new=is_new)

    def freed(self, block: "Block") -> None:
        self.written.freed(block)
        self.streams.freed(block)
        self.memory.freed(block)

    def around(
        self,
        device: Device,
        stream: int,
        kind: str,
        name: str,
        nbytes: int,
        call: Callable[..., Any],
        *args: Any,
    ) -> Any:
        return call(*args)

    def compiling(self, kernel: str, work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)

    def waited(self, wait: Callable[..., Any], *args: Any) -> Any:
        return wait(*args)


class _Chosen(Findings):
    """Hands on the findings of the kinds that are asked for."""

    def __init__(self, checks: HostChecks) -> None:
        super().__init__()
        self._checks = checks

    def add(self, finding: Finding) -> bool:
        return self._checks.makes(finding.kind) and self._checks.findings.add(finding)


def _found() -> list[Device]:
    return [device for found in runtime.current.found.values() for device in found]


_changing = forks.lock()


def follow(checks: frozenset[str], findings: Findings | None) -> None:
    """Make those of `checks` that are the host's from now on, and give what is found to `findings`.

    Raises:
        RuntimeError: the process is traced.
    """
    own = checks & _MAKES.keys()
    with _changing:
        made = runtime.current.host_checker
        if isinstance(made, HostChecks):
            if own and findings is not None:
                if "init" not in own:
                    made.written.forget()
                made.checks, made.findings = own, findings
            else:
                made.end()
        elif own and findings is not None:
            HostChecks(findings, own).begin()
