"""Launches of kernels whose threads are counted, and nothing else is checked."""

from typing import Any

from haulage.checking.findings import Findings
from haulage.compiler.checks.counters import COVERAGE
from haulage.runtime.devices.device import Device
from haulage.runtime.launch.loaded import Configuration

ONLY_COVERAGE = frozenset((COVERAGE,))


class CountedLaunch:
    """Launches of one overload in one configuration, that go on as without checks.

    Attributes:
        captured: the arrays of the device that are globals or closure variables of the kernel.
    """

    def __init__(
        self,
        findings: Findings,
        overload: Any,
        device: Device,
        configuration: Configuration,
        version: str,
    ) -> None:
        loaded = overload.load_checked(device, configuration.block, ONLY_COVERAGE, version)
        self._findings = findings
        self.captured = loaded.captured
        self._header, self._start = loaded.prepare(configuration)

    def start(self, stream: int, packed: bytes) -> None:
        """Start one in the stream with this handle, with the bytes of its arguments."""
        self._start(stream, self._header + packed)
        self._findings.checked(0)
