"""Warnings stand at the line of the program, not at one of Haulage's."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import haulage

SOURCES = Path(haulage.__file__).parent

BEGINNING = """
import os, sys, warnings
import numpy as np
from numba import njit

def told(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    lines = open(sys.argv[0]).read().splitlines()
    for each in caught:
        print(each.category.__name__, lines[each.lineno - 1].strip(), each.filename == sys.argv[0])
"""

KERNEL = """
from haulage import cuda

{globals}

@cuda.jit(cache=True)
def kernel(x):
    x[cuda.grid(1)] = {value}

def work():
    kernel[1, 32](np.zeros(32))

told(work)
"""

# What is run, with which environment, and what is warned of at which line.
PROGRAMS = {
    "a cache that cannot be made": (
        KERNEL.format(globals="", value="1"),
        {"HAULAGE_CACHE_DIR": "/dev/null"},
        "CacheWarning kernel[1, 32](np.zeros(32)) True",
    ),
    "a kernel that is not kept": (
        KERNEL.format(globals="import types; place = types.SimpleNamespace; held = {1: {}}.keys()",
                      value="len(told.__defaults__ or ())"),
        {},
        None,
    ),
    "an option of numba's": (
        """
from haulage import cuda

def work():
    cuda_vectorize = cuda.vectorize(nopython=True)

told(work)
""",
        {},
        "RuntimeWarning cuda_vectorize = cuda.vectorize(nopython=True) True",
    ),
    "a misspelt setting": (
        """
def work():
    from haulage import cuda

told(work)
""",
        {"HAULAGE_DEVISE": "cpu"},
        "RuntimeWarning from haulage import cuda True",
    ),
    "an installation that comes late": (
        """
import haulage
import numba
sys.modules["numba.cuda"] = cuda = type(sys)("numba.cuda")
held = sys.modules["theirs"] = type(sys)("theirs")
held.cuda = cuda

def work():
    haulage.install()

told(work)
""",
        {},
        "RuntimeWarning haulage.install() True",
    ),
}
