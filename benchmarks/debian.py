"""PoCL out of Debian's packages, unpacked into a folder: nothing is installed on the system.

The wheel on the package index (3.0) cannot compile on processors that are newer than its LLVM.
"""

import platform
import shutil
import subprocess
from pathlib import Path

PACKAGE = "pocl-opencl-icd"


def unpack(root: Path) -> str | None:
    """Fetch the package, and what it needs that the system lacks, into `root`.

    Returns why that could not be done, or None.
    """
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return "it comes from Debian's packages, and there is no apt-get here"
    archives = root / "archives"
    archives.mkdir(parents=True)
    try:
        for name in _lacking():
            _output("apt-get", "download", name, cwd=archives)
        for archive in archives.glob("*.deb"):
            _output("dpkg-deb", "-x", str(archive), str(root))
    except subprocess.CalledProcessError as failed:
        return f"{' '.join(failed.cmd[:3])}: {' '.join(failed.stderr.split()[-20:])}"
    shutil.rmtree(archives)
    if not _library(root):
        return f"{PACKAGE} came without libpocl.so.2"
    (root / "pocl.icd").write_text(f"{_library(root)}\n", encoding="utf-8")
    return None


def variables(root: Path) -> dict[str, str]:
    """What a process needs to find PoCL in `root`."""
    folders = [*root.glob("usr/lib/*-linux-gnu"), *root.glob("usr/lib/llvm-*/lib")]
    found = {
        "OCL_ICD_VENDORS": str(root / "pocl.icd"),
        "LD_LIBRARY_PATH": ":".join(map(str, folders)),
        # Else a kernel that was compiled in an earlier run would be taken from disk.
        "POCL_KERNEL_CACHE": "0",
    }
    processor = _processor()
    return found | ({"POCL_LLVM_CPU_NAME": processor} if processor else {})


def _lacking() -> list[str]:
    """The package and all that it depends on, but for what is installed."""
    told = _output(
        *("apt-cache", "depends", "--recurse", "--no-recommends", "--no-suggests"),
        *("--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances", PACKAGE),
    )
    names = sorted({line for line in told.splitlines() if line and line[0].isalnum()})
    known = _output("dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n")
    there = {line.split()[0] for line in known.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in there and not name.endswith("-cross")]


def _library(root: Path) -> Path | None:
    return next(root.glob("usr/lib/*-linux-gnu/libpocl.so.2"), None)


def _processor() -> str | None:
    """A processor with this one's vectors that every LLVM knows: newer ones count as generic."""
    if platform.machine() != "x86_64":
        return None
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return "skylake-avx512" if "avx512vl" in flags else "haswell" if "avx2" in flags else None


def _output(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
    return done.stdout
