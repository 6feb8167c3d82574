"""Importing this module imports Numba; modules that need Numba import this one before its parts.

The package itself comes first: where another thread is still importing Numba, Python waits for it
here, but would let this one go on into half-made submodules.

Numba imports Coverage.py if it is installed, and Coverage.py cannot be imported where the current
folder was deleted. Numba does without it then, as if it were not installed.
"""

import os
import sys


def _current_folder_is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


if "coverage" not in sys.modules and _current_folder_is_gone():
    # None makes `import coverage` an ImportError, which Numba expects.
    sys.modules["coverage"] = None  # type: ignore[assignment]
    try:
        import numba
    finally:
        del sys.modules["coverage"]
else:
    import numba  # noqa: F401
