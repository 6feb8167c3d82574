"""The kinds of devices: for each one its driver (a `Backend`) and its code (a `Target`).

This is the only place that pairs the two. Classes are named as text and imported when they are
needed. The order is the order of preference; OpenCL's devices on the processor come last of all.

Pickles of arrays name what they are loaded by as parts of this module: a process that has imported
nothing else then knows the kinds of devices. Where arrays are it is imported already, or a pickler
that sends what it finds in no module, as Ray's, would send the code.
"""

import importlib
import operator
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from haulage.backends.base import Backend, Probe
from haulage.errors import Unsupported, warn
from haulage.runtime import composition
from haulage.runtime.arrays.array import array_anew, record_anew
from haulage.runtime.arrays.host_arrays import host_array_anew
from haulage.runtime.devices import registry
from haulage.runtime.devices.registry import Protocols
from haulage.runtime.protocols.dlpack_structs import (
    CPU,
    CUDA,
    CUDA_HOST,
    CUDA_MANAGED,
    ROCM,
    ROCM_HOST,
)

# The group of the entry points by which other distributions add kinds of devices.
ENTRY_POINTS = "haulage.platforms"


@dataclass(frozen=True)
class Platform:
    """One kind of device.

    `looks`, `backend`, `target` and `processor` name a function that looks for the driver, the
    driver's class, a function that makes targets and one that says what processor they are for, as
    'module:name'. Where the latter three are None, this version of Haulage can look for such a
    device but not run on it. `own_code` names what makes the code of a driver's own kernels for an
    architecture, which it then takes. `check` names a function that raises a ValueError for
    architectures that no code can be made for; None where it can for all. `likely` names a function
    that says, without calls of the driver, whether a device may be there that is preferred to those
    of the kinds behind; None: one may be.

    `body` names the class that kernels are compiled by (a `compiler.body.Body`), and
    `function_assembly` a function that gives the assembly of a device function alone (see
    `compiler.emit.function_assembly`); None where functions are parts of kernels only. Names of
    architectures match `architectures`, a regular expression, and `example` is one.
    `takes_hints` says that options of `jit` which change no result (`lineinfo`, `max_registers`
    and such) make other code there, `checks_kernels` that kernels can be checked there and stop in
    a debugger, `has_sass` that its code has NVIDIA's assembly. `units` are what its blocks run on.
    `protocols` is what other packages call its
    memory and streams.
    """

    name: str
    maker: str
    looks: str
    backend: str | None = None
    target: str | None = None
    processor: str | None = None
    own_code: str | None = None
    check: str | None = None
    likely: str | None = None
    body: str | None = None
    function_assembly: str | None = None
    architectures: str = ""
    example: str = ""
    takes_hints: bool = True
    checks_kernels: bool = False
    protocols: Protocols = field(default_factory=Protocols)

    units: str = "multiprocessors"
    has_sass: bool = False

    def probe(self) -> Probe:
        """Look for the driver; says what was looked for and what came back. Never raises."""
        return _imported(self.looks)()

    def is_likely(self) -> bool:
        """Whether it is worth looking for the driver where no device is named."""
        return self.likely is None or bool(_imported(self.likely)())

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

    def body_class(self) -> Any:
        """What kernels are compiled by: a class of `Body`."""
        return _imported(self._named(self.body))

    def options_of_code(self, options: Any) -> Any:
        """Those of `jit`'s options (`compiler.options.Options`) that its code depends on."""
        return options if self.takes_hints else options.without_hints()

    def assembly_of_function(self, function: Any, signature: Any, target: Any) -> str:
        """Assembly of a device function for arguments of types `signature`, as if no kernel inlined
        it.

        Raises:
            Unsupported: its functions are parts of kernels only.
        """
        if self.function_assembly is None:
            raise Unsupported(
                f"function {function.__qualname__}: it has no code of its own on {self.maker}; "
                "inspect_asm of a kernel that calls it shows what becomes of it"
            )
        text: str = _imported(self.function_assembly)(function, signature, target)
        return text

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
            "NVIDIA's GPUs",
            "haulage.backends.nvidia_driver.looking:probe",
            "haulage.backends.nvidia:NVIDIABackend",
            target="haulage.targets.nvidia:target",
            processor="haulage.compiler.gpu.nvidia.identity:identity",
            check="haulage.targets.nvidia_architectures:check_architecture",
            body="haulage.compiler.gpu.nvidia.emit:PTXBody",
            function_assembly="haulage.compiler.gpu.nvidia.function:function_assembly",
            architectures=r"sm_.*",
            example="sm_90",
            has_sass=True,
            protocols=Protocols(CUDA, CUDA_HOST, CUDA_MANAGED, cuda=True),
        ),
        Platform(
            "amd",
            "AMD's GPUs",
            "haulage.backends.amd_driver.looking:probe",
            "haulage.backends.amd:AMDBackend",
            target="haulage.targets.amd:target",
            processor="haulage.compiler.gpu.amd.identity:identity",
            own_code="haulage.compiler.gpu.amd.own_kernels:code",
            check="haulage.targets.amd_architectures:check_architecture",
            body="haulage.compiler.gpu.amd.emit:AMDBody",
            architectures=r"gfx.*",
            example="gfx942",
            protocols=Protocols(ROCM, ROCM_HOST, default_streams=(0,)),
        ),
        Platform(
            "opencl",
            "OpenCL devices",
            "haulage.backends.opencl_driver.looking:probe",
            "haulage.backends.opencl:OpenCLBackend",
            target="haulage.targets.opencl:target",
            processor="haulage.compiler.gpu.opencl.identity:identity",
            check="haulage.targets.opencl:check_architecture",
            body="haulage.compiler.gpu.opencl.emit:OpenCLBody",
            architectures=r"spirv.*",
            example="spirv64",
            takes_hints=False,
            units="compute units",
            likely="haulage.backends.opencl_driver.presence:is_likely",
        ),
        Platform(
            "cpu",
            "this computer's processor",
            "haulage.backends.cpu:CPUBackend.probe",
            "haulage.backends.cpu:CPUBackend",
            "haulage.targets.cpu:target",
            "haulage.backends.cpu_driver.identity:identity",
            body="haulage.compiler.emit:CPUBody",
            function_assembly="haulage.compiler.emit:function_assembly",
            architectures="host",
            example="host",
            units="worker threads",
            takes_hints=False,
            checks_kernels=True,
            protocols=Protocols(CPU),
        ),
    )
}


def platform_of(kind: str) -> Platform:
    """The platform of a kind of device, or of code."""
    return PLATFORMS[kind]


def checks_kernels(name: str) -> bool:
    """Whether kernels can be checked on a device that is named as in `HAULAGE_DEVICE`."""
    platform = PLATFORMS.get(name.strip().lower().partition(":")[0])
    return platform is not None and platform.checks_kernels


def platform_for(architecture: str) -> Platform:
    """The platform that an architecture such as 'host', 'sm_90' or 'gfx942' belongs to.

    Raises:
        ValueError: there is none with such names.
    """
    for look in (lambda: None, add_installed):
        look()
        known = [platform for platform in PLATFORMS.values() if platform.architectures]
        for platform in known if isinstance(architecture, str) else ():
            if re.fullmatch(platform.architectures, architecture):
                return platform
    *others, last = [f"{platform.example!r} ({platform.maker})" for platform in known]
    expected = f"{', '.join(others)} or {last}"
    raise ValueError(f"target {architecture!r}: expected an architecture's name, as {expected}")


def target_named(architecture: str, warp_size: int) -> Any:
    """The `Target` of an architecture, for warps of that many lanes.

    Raises:
        ValueError: there is none of that name.
    """
    return platform_for(architecture).new_target(architecture, warp_size)


def current_target(warp_size: int) -> Any:
    """The `Target` of the current device, for warps of that many lanes."""
    here = registry.current_device()
    return PLATFORMS[here.kind].device_target(here.properties.architecture, warp_size)


def _register(platform: Platform) -> None:
    PLATFORMS[platform.name] = platform
    registry.register(
        registry.Driver(
            platform.name,
            platform.probe,
            platform.new_backend if platform.backend else None,
            platform.refusal,
            platform.protocols,
            platform.checks_kernels,
            platform.is_likely,
        )
    )


@cache
def add_installed() -> None:
    """Add the kinds of devices that installed distributions have as entry points of the group
    `haulage.platforms`: each is a `Platform`, and its name is the entry point's.

    They are looked for when a name is not known or all devices are listed, so that programs which
    need none do not wait for it, and come behind ours: a program uses one by its name. One that
    cannot be loaded, or has a name that is taken, is left out with a warning.
    """
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS):
        told = f"the entry point {point.name} = {point.value} of {ENTRY_POINTS} is left out"
        try:
            platform = point.load()
        except Exception as error:
            warn(f"{told}: {type(error).__name__}: {error}")
            continue
        if not isinstance(platform, Platform) or platform.name != point.name:
            warn(f"{told}: expected a haulage.platforms.Platform named {point.name!r}")
        elif platform.name in PLATFORMS:
            warn(f"{told}: there is a platform {platform.name!r} already")
        else:
            _register(platform)


composition.start()
registry.further.append(add_installed)
for _platform in tuple(PLATFORMS.values()):
    _register(_platform)

for _made in (array_anew, record_anew, host_array_anew):
    _made.__module__ = __name__
