"""Python starts with this where this folder is on PYTHONPATH: NVIDIA's driver is a stand-in whose
functions do next to nothing, in processes that programs start as well."""

import sys
from pathlib import Path

_tests = str(Path(__file__).parents[3])
if _tests not in sys.path:
    sys.path.append(_tests)

from doubles import libcuda  # noqa: E402

libcuda.idle_one()
