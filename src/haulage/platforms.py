"""The kinds of devices: for each one its driver (a `Backend`) and its code (a `Target`).

This is the only place that pairs the two. Classes are named as text and imported when they are
needed. The order is the order of preference.

Pickles of arrays name what they are loaded by as parts of this module: a process that has imported
nothing else then knows the kinds of devices. Where arrays are it is imported already, or a pickler
that sends what it finds in no module, as Ray's, would send the code.
"""

import importlib
import operator
from dataclasses import dataclass
from functools import cache
from typing import Any

from haulage.backends.base import Backend, Probe
from haulage.errors import Unsupported
from haulage.runtime import composition
from haulage.runtime.arrays.array import array_anew, record_anew
from haulage.runtime.arrays.host_arrays import host_array_anew
from haulage.runtime.devices import registry


@dataclass(frozen=True)
class Platform:
    """One kind of device.

    `looks`, `backend`, `target` and `processor` name a function that looks for the driver, the
    driver's class, a function that makes targets and one that says what processor they are for, as
    'module:name'. Where the latter three are None, this version of Haulage can look for such a
    device but not run on it. `own_code` names what makes the code of a driver's own kernels for an
    architecture, which it then takes. `check` names a function that raises a ValueError for
    architectures that no code can be made for; None where it can for all.
    """

    name: str
    maker: str
    looks: str
    backend: str | None = None
    target: str | None = None
    processor: str | None = None
    own_code: str | None = None
    check: str | None = None

    def probe(self) -> Probe:
        """Look for the driver; says what was looked for and what came back. Never raises."""
        return _imported(self.looks)()

    def new_backend(self) -> Backend:
        """The driver, ready for calls."""
        made = _imported(self._named(self.backend))
        if self.own_code is None:
            return made()
        # What it needs is imported when there is something to make.
        named = self.own_code
        return made(lambda architecture: _imported(named)(architecture))

    def new_target(self, architecture: str, warp_size: int) -> Any:
        """The `Target` of one of this platform's architectures, for warps of that many lanes."""
        return _imported(self._named(self.target))(architecture, warp_size)

    def refusal(self, architecture: str) -> str:
        """Why no code can be made for a device's architecture; nothing if it can."""
        if self.check is None:
            return ""
        try:
            _imported(self.check)(architecture)
        except ValueError as error:
            expected = str(error).partition(": ")[2]
            return f"no code can be made for {architecture}: {expected}"
        return ""

    def device_target(self, architecture: str, warp_size: int) -> Any:
        """The `Target` of a device's architecture.

        Raises:
            Unsupported: no code can be made for it.
        """
        why = self.refusal(architecture)
        if why:
            raise Unsupported(f"{why}; choose another device, as with HAULAGE_DEVICE=cpu")
        return self.new_target(architecture, warp_size)

    def identity(self, architecture: str) -> tuple[str, ...]:
        """What code for an architecture depends on in the processor it is for, and in the libraries
        for that; found without making a target."""
        said: tuple[str, ...] = _imported(self._named(self.processor))(architecture)
        return said

    def _named(self, name: str | None) -> str:
        if name is None:
            raise Unsupported(f"this version of Haulage cannot run on {self.maker}")
        return name


@cache
def _imported(name: str) -> Any:
    module, _, attributes = name.partition(":")
    return operator.attrgetter(attributes)(importlib.import_module(module))


PLATFORMS: dict[str, Platform] = {
    platform.name: platform
    for platform in (
        Platform(
            "nvidia",
            "NVIDIA GPUs",
            "haulage.backends.nvidia_driver.looking:probe",
            "haulage.backends.nvidia:NVIDIABackend",
            target="haulage.targets.nvidia:target",
            processor="haulage.compiler.gpu.nvidia.identity:identity",
            check="haulage.targets.nvidia_architectures:check_architecture",
        ),
        Platform(
            "amd",
            "AMD GPUs",
            "haulage.backends.amd_driver.looking:probe",
            "haulage.backends.amd:AMDBackend",
            target="haulage.targets.amd:target",
            processor="haulage.compiler.gpu.amd.identity:identity",
            own_code="haulage.compiler.gpu.amd.own_kernels:code",
            check="haulage.targets.amd_architectures:check_architecture",
        ),
        Platform(
            "cpu",
            "this computer's processor",
            "haulage.backends.cpu:CPUBackend.probe",
            "haulage.backends.cpu:CPUBackend",
            "haulage.targets.cpu:target",
            "haulage.backends.cpu_driver.identity:identity",
        ),
    )
}


def current_target(warp_size: int) -> Any:
    """The `Target` of the current device, for warps of that many lanes."""
    here = registry.current_device()
    return PLATFORMS[here.kind].device_target(here.properties.architecture, warp_size)


composition.start()
for _platform in PLATFORMS.values():
    registry.register(
        registry.Driver(
            _platform.name,
            _platform.probe,
            _platform.new_backend if _platform.backend else None,
            _platform.refusal,
        )
    )

for _made in (array_anew, record_anew, host_array_anew):
    _made.__module__ = __name__
