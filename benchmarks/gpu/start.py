"""A fresh process runs a small kernel that is kept on disk, and prints how many milliseconds it
took from its first import on: `python -m benchmarks.gpu.start PACKAGE FOLDER`."""

import os
import sys
from time import perf_counter


def main(package: str, folder: str) -> None:
    """Print the time."""
    os.environ["HAULAGE_CACHE_DIR"] = os.environ["NUMBA_CACHE_DIR"] = folder
    began = perf_counter()
    if package == "haulage":
        from haulage import cuda
    else:
        from numba import cuda
    from benchmarks.gpu.cached import run

    run(cuda)
    print((perf_counter() - began) * 1e3)


if __name__ == "__main__":
    main(*sys.argv[1:])
