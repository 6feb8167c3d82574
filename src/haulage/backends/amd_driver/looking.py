"""Looking for the HIP runtime, and for what keeps it from finding a device."""

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

from haulage.backends.amd_driver.calls import told
from haulage.backends.amd_driver.library import find, version
from haulage.backends.base import Probe
from haulage.backends.libraries import Search, failures, file_of

OLDEST = (5, 0)

# What it answers where it has no device: ROCm 5 also says that the device is none.
_NO_DEVICE = (100, 101)
_AMD = "0x1002"
_KFD = Path("/dev/kfd")


def probe() -> Probe:
    """Look for the runtime and its devices; never raises."""
    found = find()
    refused = functools.partial(Probe, False, found.looked_for)
    if found.library is None:
        card = _cards()
        which = f"no HIP runtime: {failures(found)}"
        if found.broken:
            which = (
                f"the HIP runtime's library cannot be loaded: {found.broken}; install what it "
                "needs, or the runtime anew"
            )
            short = "the HIP runtime cannot be loaded"
            return refused(f"{card}; {which}" if card else which, short)
        if not card:
            return refused(which, "no HIP runtime")
        install = (
            f"{card}, but no HIP runtime: install ROCm (amdgpu-install --usecase=hip, or the "
            "distribution's package libamdhip64), or set ROCM_PATH to its folder"
        )
        # No advice to programs: many processors have such a device, which nobody computes on.
        short = f"{card}, but no HIP runtime"
        return refused(f"{install}; {failures(found)}", short)
    try:
        return _ask(found, found.library)
    except AttributeError as error:
        answer = f"the library is not the HIP runtime it is named after: {error}"
        return refused(answer, "the HIP runtime is something else")


def _ask(found: Search, library: ctypes.CDLL) -> Probe:
    refused = functools.partial(Probe, False, found.looked_for)
    which = file_of(library, "hipInit") or found.attempts[-1][0]
    number, count = ctypes.c_int(), ctypes.c_int()
    status = library.hipInit(0)
    if not library.hipRuntimeGetVersion(ctypes.byref(number)):
        its = version(number.value)
        which += f", the HIP runtime of ROCm {its[0]}.{its[1]}"
        if found.broken:
            which += f" (passed over: {found.broken})"
        if its < OLDEST:
            return refused(
                f"{which}, is too old: Haulage needs ROCm {OLDEST[0]}.{OLDEST[1]} or later",
                f"the HIP runtime is too old: ROCm {its[0]}.{its[1]}",
            )
    if not status:
        status = library.hipGetDeviceCount(ctypes.byref(count))
    if status:
        causes = missing() if status in _NO_DEVICE else []
        answer = f"{which}, answers {status} ({told(library, status)})"
        if not causes:
            short = f"the HIP runtime answers {status} ({told(library, status)})"
            return refused(answer, short)
        short = "no AMD device"
        if _cards() or _KFD.exists():
            # Of the first cause what is so; what may help stands behind the colon.
            short = f"the HIP runtime has no device: {causes[0].split(': ')[0]}"
        return refused(f"{answer}: {'; '.join(causes)}", short)
    return Probe(count.value > 0, found.looked_for, f"{which}, with {count.value} device(s)")


def missing(
    kfd: Path = _KFD,
    render: Path = Path("/dev/dri"),
    drm: Path = Path("/sys/class/drm"),
    is_open: Callable[[str], bool] = lambda path: os.access(path, os.R_OK | os.W_OK),
) -> list[str]:
    """What keeps the runtime from finding a device, as far as the system tells: one sentence each,
    with what to do."""
    if not sys.platform.startswith("linux"):
        return [
            "no AMD device is visible: none is there, its driver is not installed, or "
            "HIP_VISIBLE_DEVICES hides it"
        ]
    card = _cards(drm)
    why = []
    if not kfd.exists():
        why.append(
            f"there is no {kfd}: "
            + (f"{card}, but " if card else "no AMD device is there, ")
            + ("" if card else "or ")
            + "the kernel's module amdgpu is not loaded, or the container was not given the device "
            "(docker run --device=/dev/kfd --device=/dev/dri)"
        )
    elif not is_open(str(kfd)):
        why.append(f"no permission to open {kfd}: {_join(kfd)}")
    nodes = sorted(render.glob("renderD*")) if render.exists() else []
    if kfd.exists() and not nodes:
        why.append(
            f"there is no {render}/renderD*: the container was not given it "
            "(docker run --device=/dev/dri)"
        )
    closed = [node for node in nodes if not is_open(str(node))]
    if nodes and len(closed) == len(nodes):
        why.append(f"no permission to open {closed[0]}: {_join(closed[0])}")
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        if name in os.environ:
            why.append(f"{name}={os.environ[name]} may hide devices")
    if not why:
        why.append(
            "no AMD device is visible: none is there, or this version of ROCm does not have it "
            "(rocminfo and dmesg may tell more)"
        )
    return why


def _join(file: Path) -> str:
    """How to be let to open a file."""
    try:
        group = file.group()
    except (KeyError, OSError):
        group = "render"
    if group == "root":
        group = "render"
    return (
        f"add yourself to its group (sudo usermod -aG {group} $USER) and log in anew; for a "
        f"container, docker run --group-add {group}"
    )


def _cards(drm: Path = Path("/sys/class/drm")) -> str:
    """'an AMD device is there (0x73bf)', by what the system knows of its graphics cards; or
    nothing."""
    found = []
    for vendor in sorted(drm.glob("card*/device/vendor")) if drm.exists() else []:
        try:
            if vendor.read_text().strip() == _AMD:
                found.append((vendor.parent / "device").read_text().strip())
        except OSError:
            continue
    if not found:
        return ""
    several = f"{len(found)} AMD devices are there" if len(found) > 1 else "an AMD device is there"
    return f"{several} ({', '.join(dict.fromkeys(found))})"
