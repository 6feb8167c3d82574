"""What the run was made on: processor, system, versions."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def facts() -> dict[str, str | float]:
    """The machine in words; no name of it, of a user or of a folder."""
    found: dict[str, str | float] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0,
    }
    for name in ("numpy", "numba", "llvmlite"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    told = dict(line.split(":", 1) for line in lines if ":" in line)
    told = {key.strip(): value.strip() for key, value in told.items()}
    flags = told.get("flags", "")
    widest = next((name for name in ("avx512f", "avx2", "avx") if f" {name} " in f" {flags} "), "")
    family = f"family {told['cpu family']}" if "cpu family" in told else ""
    parts = ", ".join(part for part in (family, widest) if part)
    return told.get("model name", platform.machine()) + (f" ({parts})" if parts else "")
