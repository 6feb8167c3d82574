"""What the processor is and how much memory it has, asked of the operating system."""

import os
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def name() -> str:
    """The processor's trade name where the system tells it, else its architecture."""
    if CPUINFO.exists():
        for line in CPUINFO.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip().lower() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "CPU"


def architecture() -> str:
    """The instruction set as the system names it, for example `x86_64` or `aarch64`."""
    return platform.machine() or "unknown"


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
