"""What the processor is and how much memory it has, asked of the operating system."""

import math
import os
import platform
import uuid as uuids
from pathlib import Path

from haulage import config

CPUINFO = Path("/proc/cpuinfo")
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
MACHINE_ID = Path("/etc/machine-id")

_NAMESPACE = uuids.UUID("4b7d1f0e-92c4-5a53-8f4e-6f1f8f0f6c11")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def name() -> str:
    """The processor's trade name where the system tells it, else its architecture."""
    return _told("model name") or platform.processor() or platform.machine() or "CPU"


def uuid() -> str:
    """A name for the machine's processors, the same in each process and after each start.

    It is made from the system's id of the machine and the machine's name, and tells neither.
    """
    machine = MACHINE_ID.read_text().strip() if MACHINE_ID.exists() else ""
    return f"CPU-{uuids.uuid5(_NAMESPACE, f'{machine}/{platform.node()}')}"


def clock_khz() -> int | None:
    """The rate of the processor's clock in kHz as it was when asked; None if that is not told."""
    megahertz = _told("cpu MHz")
    return int(float(megahertz) * 1000) if megahertz else None


def cache_bytes(level: int) -> int | None:
    """Bytes of a core's cache for data of that level, None if the system does not tell."""
    for index in sorted(CACHES.glob("index*")):
        kind = (index / "type").read_text().strip()
        if kind != "Instruction" and int((index / "level").read_text()) == level:
            text = (index / "size").read_text().strip()
            unit = _UNITS.get(text[-1:])
            return int(text[:-1]) * unit if unit else int(text)
    return None


# What the system says of a processor that tells its instructions, on x86-64 and on Arm.
_KINDS = (
    *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features"),
)


def instruction_sets() -> tuple[str, ...]:
    """Which processors these are and what they can, as the system tells it, or nothing."""
    if not CPUINFO.exists():
        return ()
    lines = (line.partition(":") for line in CPUINFO.read_text().splitlines())
    found = {f"{key.strip()}: {value.strip()}" for key, _, value in lines if key.strip() in _KINDS}
    tells = any(line.startswith(("flags:", "Features:")) for line in found)
    return tuple(sorted(found)) if tells else ()


def _told(what: str) -> str | None:
    """What the system says of the first processor under a heading."""
    if CPUINFO.exists():
        for line in CPUINFO.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip().lower() == what.lower() and value.strip():
                return value.strip()
    return None


def architecture() -> str:
    """The instruction set as the system names it, for example `x86_64` or `aarch64`."""
    return platform.machine() or "unknown"


def threads() -> int:
    """Threads that kernels run on: `HAULAGE_NUM_THREADS`, or one for each core that is usable."""
    return config.worker_threads() or cores()


def cores() -> int:
    """Cores that this process may use, the time that its container is given included."""
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    return math.ceil(min(allowed, _container_cores()))


def _container_cores() -> float:
    """How many cores' time the control group has; infinite without a limit."""
    both, quota, period = (
        CGROUP / name for name in ("cpu.max", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")
    )
    if both.exists():
        words = both.read_text().split()
    elif quota.exists() and period.exists():
        words = [quota.read_text().strip(), period.read_text().strip()]
    else:
        return math.inf
    return math.inf if words[0] in ("max", "-1") else int(words[0]) / int(words[1])


def memory() -> tuple[int, int]:
    """(free, total) bytes that this process can have, its container's limit included."""
    free, total = _system_memory()
    limit, used = _container_memory()
    if limit is not None and limit < total:
        free, total = max(0, min(free, limit - used)), limit
    return free, total


def _system_memory() -> tuple[int, int]:
    if MEMINFO.exists():
        fields = {}
        for line in MEMINFO.read_text().splitlines():
            key, _, value = line.partition(":")
            fields[key] = int(value.split()[0]) * 1024
        return fields["MemAvailable"], fields["MemTotal"]
    page = os.sysconf("SC_PAGE_SIZE")
    total = page * os.sysconf("SC_PHYS_PAGES")
    known = "SC_AVPHYS_PAGES" in os.sysconf_names
    return (page * os.sysconf("SC_AVPHYS_PAGES") if known else total), total


def _container_memory() -> tuple[int | None, int]:
    """(limit or None, used) of the control group, page cache that can be dropped left out."""
    for limit_file, used_file, cache_key in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit_path, used_path = CGROUP / limit_file, CGROUP / used_file
        if not (limit_path.exists() and used_path.exists()):
            continue
        text = limit_path.read_text().strip()
        if text == "max":
            return None, 0
        statistics = used_path.parent / "memory.stat"
        cache = 0
        if statistics.exists():
            for line in statistics.read_text().splitlines():
                key, _, value = line.partition(" ")
                if key == cache_key:
                    cache = int(value)
        return int(text), max(0, int(used_path.read_text()) - cache)
    return None, 0
