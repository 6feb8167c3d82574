"""The shared tree and the scan in C, by the machine's own compiler: how near Haulage is to that."""

import ctypes
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

_SOURCE = Path(__file__).parent / "ideal.c"
_COMPILER = os.environ.get("CC", "cc")
_FLAGS = ["-O3", "-march=native", "-fopenmp", "-fPIC", "-shared"]


def about():
    """The compiler's first words about itself, and how it is called."""
    told = subprocess.run([_COMPILER, "--version"], capture_output=True, text=True, check=True)
    return f"{told.stdout.splitlines()[0]}, {' '.join(_FLAGS[:3])}"


def _library():
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "ideal.so"
        subprocess.run([_COMPILER, *_FLAGS, str(_SOURCE), "-o", str(made)], check=True)
        return ctypes.CDLL(str(made))


def _blocks(name, threads, results):
    def setup(given):
        x = given["x"]
        out = np.empty(results(x.size), np.float32)
        function = getattr(_library(), name)
        function.restype = None
        function.argtypes = [np.ctypeslib.ndpointer(np.float32)] * 2 + [ctypes.c_long]
        return lambda: function(x, out, x.size // threads), lambda: out

    return setup


def setups():
    """A setup for each of the two."""
    return {
        "reduce-tree": _blocks("reduce_tree", 256, lambda size: size // 256),
        "scan": _blocks("scan", 512, lambda size: size),
    }
