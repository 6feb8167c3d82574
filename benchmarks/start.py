"""A fresh process runs one small case and tells how long that took: `python -m benchmarks.start`.

Compiled code is kept on disk where the peer can do that, below the folder that is named.
"""

import importlib
import json
import os
import sys
from time import perf_counter

from benchmarks.peers import HAULAGE, PEERS


def main(name, case, folder):
    """Prints {"import": ms, "all": ms}; the interpreter's and NumPy's own start do not count."""
    os.environ["HAULAGE_CACHE_DIR"] = os.environ["NUMBA_CACHE_DIR"] = folder
    from haulage.cli.bench import caching
    from haulage.cli.bench.problems import PROBLEMS

    caching.CACHE = True

    inputs = PROBLEMS[case].inputs(PROBLEMS[case].small)
    module = HAULAGE.module if name == "haulage" else PEERS[name].module
    began = perf_counter()
    setups = importlib.import_module(module).setups()
    imported = perf_counter()
    run, result = setups[case](inputs)
    run()
    ended = perf_counter()
    result()
    print(json.dumps({"import": (imported - began) * 1e3, "all": (ended - began) * 1e3}))


if __name__ == "__main__":
    main(*sys.argv[1:])
