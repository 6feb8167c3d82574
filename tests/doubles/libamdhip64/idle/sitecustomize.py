"""Python starts with this where this folder is on PYTHONPATH: the HIP runtime is a stand-in whose
functions do next to nothing, in processes that programs start as well."""

import sys
from pathlib import Path

_tests = str(Path(__file__).parents[3])
if _tests not in sys.path:
    sys.path.append(_tests)

from doubles import libamdhip64  # noqa: E402

libamdhip64.idle_one()
