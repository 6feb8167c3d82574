"""The kinds of devices: for each one its driver (a `Backend`) and its code (a `Target`).

This is the only place that pairs the two. Classes are named as text and imported when they are
needed. The order is the order of preference.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from haulage.backends.base import Backend, Probe
from haulage.errors import Unsupported
from haulage.runtime import device


@dataclass(frozen=True)
class Platform:
    """One kind of device.

    `backend` and `target` name a class and a function that makes targets, as 'module:name'. Where
    they are None this version of Haulage cannot run that kind of device, and `missing` says so.
    """

    name: str
    maker: str
    backend: str | None
    target: str | None
    missing: str = ""

    def probe(self) -> Probe:
        """Look for the driver; says what was looked for and what came back. Never raises."""
        if self.backend is None:
            return Probe(False, (f"a back end for {self.maker}",), self.missing)
        return _imported(self.backend).probe()

    def new_backend(self) -> Backend:
        """The driver, ready for calls."""
        if self.backend is None:
            raise Unsupported(self.missing)
        return _imported(self.backend)()

    def target_maker(self) -> Callable[..., Any]:
        """The function that makes this platform's `Target`."""
        if self.target is None:
            raise Unsupported(self.missing)
        return _imported(self.target)


@cache
def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


PLATFORMS: dict[str, Platform] = {
    platform.name: platform
    for platform in (
        Platform(
            "nvidia",
            "NVIDIA GPUs",
            None,
            None,
            "this version of Haulage has no back end for NVIDIA GPUs yet",
        ),
        Platform(
            "amd",
            "AMD GPUs",
            None,
            None,
            "this version of Haulage has no back end for AMD GPUs yet",
        ),
        Platform(
            "cpu",
            "this computer's processor",
            "haulage.backends.cpu:CPUBackend",
            "haulage.targets.cpu:host",
        ),
    )
}

for _platform in PLATFORMS.values():
    device.register(device.Driver(_platform.name, _platform.probe, _platform.new_backend))
