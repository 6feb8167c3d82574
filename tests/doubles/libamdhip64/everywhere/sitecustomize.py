"""Python starts with this where this folder is on PYTHONPATH: each process has the stand-in for
the HIP runtime then, those that programs start as well."""

import sys
from pathlib import Path

_tests = str(Path(__file__).parents[3])
if _tests not in sys.path:
    sys.path.append(_tests)

from doubles import libamdhip64  # noqa: E402

libamdhip64.of_tests()
