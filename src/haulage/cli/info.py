"""`haulage info`: the devices of this machine, and what Haulage would run on and with."""

import argparse
import platform
import sys
import warnings
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from haulage import __version__, config
from haulage.backends.cpu_driver import processor
from haulage.compiler.gpu.amd import device_library
from haulage.errors import HaulageError
from haulage.platforms import PLATFORMS, Platform, add_installed
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device, devices_of, probe_of, why_current

# Their versions are read from their metadata: importing Numba takes half a second.
_PACKAGES = ("numpy", "numba", "llvmlite", "cuda-bindings", "nvidia-nvvm")


@dataclass(frozen=True)
class Fact:
    """One line of the answer; `good` colours it on a terminal, None leaves it plain."""

    name: str
    text: str
    good: bool | None = None


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this command to the command line."""
    parser = commands.add_parser(
        "info",
        help="the devices found, why others were not, versions and settings",
        description="Show the devices that were found and, for each kind that was not, why; the "
        "device in force and why; and versions. Ends with status 1 if the device that "
        "HAULAGE_DEVICE names is not there.",
    )
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="show everything: what was looked for and what came back, the drivers, all versions, "
        "worker threads, the cache folder",
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Print all facts; returns 1 if the device that is asked for is not there, else 0."""
    verbose: bool = chosen.verbose
    add_installed()
    in_force = _in_force()
    sections = {
        "devices": [fact for row in PLATFORMS.values() for fact in _devices(row, verbose)],
        "in force": [in_force],
        "versions": _versions(verbose),
    }
    if verbose:
        sections["settings"] = _settings()
    if sys.stdout.isatty():
        _print_tables(sections)
    else:
        _print_lines(sections)
    if not verbose:
        print("haulage info --verbose tells what was looked for, all versions and the settings")
    return 1 if in_force.good is False else 0


def _devices(row: Platform, verbose: bool) -> list[Fact]:
    probe = probe_of(row.name)
    if not probe.available and not verbose:
        return [Fact(row.name, f"not present: {probe.short or probe.answer}", False)]
    if not probe.available:
        looked_for = ", ".join(probe.looked_for) or "nothing"
        return [Fact(row.name, f"not found; looked for {looked_for}: {probe.answer}", False)]
    try:
        found = [_device(row, device) for device in devices_of(row.name)]
    except HaulageError as error:
        return [Fact(row.name, f"{probe.answer}, and does not start: {error}", False)]
    if not found:
        return [Fact(row.name, f"the driver is there and has no device: {probe.answer}", False)]
    driver = [Fact(row.name, probe.answer)] if verbose else []
    return [*driver, *found]


def _device(row: Platform, device: Device) -> Fact:
    try:
        what = device.properties
    except HaulageError as error:
        return Fact(str(device), str(error), False)
    if device.refusal:
        return Fact(str(device), f"{what.name} ({what.architecture}): {device.refusal}", False)
    try:
        free, total = device.memory_info()
    except HaulageError as error:
        return Fact(str(device), f"{what.name} ({what.architecture}): {error}", False)
    return Fact(
        str(device),
        f"{what.name} ({what.architecture}), {what.multiprocessors} {row.units}, "
        f"{free / 1e9:.1f} of {total / 1e9:.1f} GB free",
        True,
    )


def _in_force() -> Fact:
    try:
        with warnings.catch_warnings():
            # What they tell stands with the devices.
            warnings.simplefilter("ignore", RuntimeWarning)
            device = current_device()
    except HaulageError as missing:
        return Fact("none", str(missing), False)
    return Fact(str(device), why_current(), True)


def _versions(verbose: bool) -> list[Fact]:
    if not verbose:
        return [
            Fact("haulage", __version__),
            Fact("python", platform.python_version()),
            *(Fact(package, _version(package)) for package in ("numpy", "numba")),
        ]
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    found = [
        Fact("haulage", f"{__version__} ({Path(__file__).parents[1]})"),
        Fact("python", f"{platform.python_version()} ({sys.executable}) on {system}"),
    ]
    found += [Fact(package, _version(package)) for package in _PACKAGES]
    return [*found, _ocml()]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _ocml() -> Fact:
    """AMD's library of mathematics, which is no package."""
    try:
        file = device_library.find()
    except HaulageError as error:
        return Fact(device_library.FILE, str(error), False)
    if file is None:
        return Fact(
            device_library.FILE, f"not found: {device_library.MISSED}: {device_library.missing()}"
        )
    return Fact(device_library.FILE, str(file))


def _settings() -> list[Fact]:
    threads = processor.threads()
    return [
        Fact("worker threads", f"{threads} (HAULAGE_NUM_THREADS; every usable core by default)"),
        Fact("adversarial mode", _adversary()),
        Fact("memory", f"{_memory()} (HAULAGE_MEMORY; pool by default)"),
        Fact("cache folder", _cache_folder()),
    ]


def _adversary() -> str:
    seed = config.adversary_seed()
    return f"{'off' if seed is None else f'on, seed {seed}'} (HAULAGE_ADVERSARY; off by default)"


def _memory() -> str:
    if not config.pools_memory():
        return "driver: the device's driver gives each array's"
    return "pool: what is freed is kept for the next arrays"


def _cache_folder() -> str:
    try:
        folder = config.cache_folder()
    except RuntimeError as error:
        return f"none: {error} (HAULAGE_CACHE_DIR)"
    return f"{folder} ({_contents(folder)})"


def _contents(folder: Path) -> str:
    if not folder.is_dir():
        return "not made yet"
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    return f"{len(sizes)} files, {sum(sizes) / 1e6:.1f} MB"


def _print_lines(sections: dict[str, list[Fact]]) -> None:
    width = max(len(fact.name) for facts in sections.values() for fact in facts)
    for title, facts in sections.items():
        print(title)
        for fact in facts:
            print(f"  {fact.name:<{width}}  {fact.text}")


def _print_tables(sections: dict[str, list[Fact]]) -> None:
    console = Console()
    width = max(len(fact.name) for facts in sections.values() for fact in facts)
    for title, facts in sections.items():
        table = Table(title=title, title_justify="left", title_style="bold", show_header=False)
        table.add_column(min_width=width, no_wrap=True)
        table.add_column(overflow="fold")
        for fact in facts:
            colour = {True: "green", False: "yellow", None: ""}[fact.good]
            table.add_row(Text(fact.name, style=colour), Text(fact.text))
        console.print(table)
