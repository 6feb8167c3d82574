"""The environments of the peers, below `.peers`: `python -m benchmarks peers --make`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks import debian
from benchmarks.peers import Peer

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".peers"

# OpenCL's loader is part of pyopencl; what it is to load stands in a file that names a library.
PACKAGES: dict[str, list[str]] = {
    # Numba and rich are for Haulage itself on Intel's OpenCL.
    "intel": [
        *("pyopencl", "intel-opencl-rt", "intel-cmplr-lib-rt", "numpy>=2.1"),
        *("numba>=0.66,<0.69", "rich>=13"),
    ],
    "pocl": ["pyopencl", "numpy>=2.1"],
    "taichi": ["taichi", "numpy>=2.1"],
    "warp": ["warp-lang", "numpy>=2.1"],
}


def python(peer: Peer) -> Path:
    """The Python that a peer runs in."""
    return HOME / peer.environment / "bin" / "python" if peer.environment else Path(sys.executable)


def missing(peer: Peer) -> str | None:
    """Why a peer cannot run here, as far as can be told without starting it; None if it can."""
    if peer.environment is None or (HOME / peer.environment / "ready").exists():
        return None
    failed = HOME / peer.environment / "failed"
    if failed.exists():
        return failed.read_text(encoding="utf-8").strip()
    return "not installed: python -m benchmarks peers --make"


def make(name: str) -> str | None:
    """Make an environment anew; returns why it could not be made, or None.

    The reason is kept beside it, so that later runs name it.
    """
    home = HOME / name
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    command = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    done = subprocess.run([*command, *PACKAGES[name]], capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        return _failed(home, f"pip: {(lines or done.stderr.splitlines())[-1]}")
    if name == "pocl":
        reason = debian.unpack(home / "root")
        if reason is not None:
            return _failed(home, reason)
    if name == "intel":
        # A folder: some loaders take no name of a file.
        (home / "vendors").mkdir()
        driver = home / "lib" / "libintelocl.so"
        (home / "vendors" / "intel.icd").write_text(f"{driver}\n", encoding="utf-8")
    (home / "ready").touch()
    return None


def variables(peer: Peer) -> dict[str, str]:
    """The environment variables of a peer's process: those of this one, and its own."""
    ours = dict(os.environ)
    # pip compiles the modules of other packages; those of this checkout do so themselves.
    ours.pop("PYTHONDONTWRITEBYTECODE", None)
    paths = [str(ROOT / "src"), str(ROOT)]
    if peer.environment is None and "PYTHONPATH" in ours:
        paths.append(ours["PYTHONPATH"])
    ours["PYTHONPATH"] = os.pathsep.join(paths)
    ours.update(peer.variables)
    if peer.environment == "intel":
        home = HOME / "intel"
        ours["LD_LIBRARY_PATH"] = str(home / "lib")
        ours["OCL_ICD_VENDORS"] = str(home / "vendors")
    if peer.environment == "pocl":
        ours.update(debian.variables(HOME / "pocl" / "root"))
    return ours


def _failed(home: Path, reason: str) -> str:
    (home / "failed").write_text(reason, encoding="utf-8")
    return reason
