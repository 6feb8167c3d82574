"""The compiled part of Haulage: one extension module for each thing that it has.

docs/building.md tells how it is built.
"""

import os
import sys

from haulage._core import freshness


def _check() -> None:
    """That the extension is there, and was built of the sources beside it.

    Raises:
        ImportError: it is not.
    """
    refused = freshness.refusal_of_this_python()
    if refused:
        raise ImportError(refused)
    folder = os.path.dirname(os.path.abspath(__file__))
    python = ".".join(map(str, sys.version_info[:2]))
    remedy = "run `make .venv/.ready` or `pip install -e .` in the checkout of Haulage."
    try:
        from haulage._core.built import SOURCES
    except ModuleNotFoundError:
        raise ImportError(
            f"The compiled part of Haulage is not there for Python {python} in {folder}: {remedy}"
        ) from None
    sources = freshness.digest(folder)
    if sources is not None and sources != SOURCES:
        raise ImportError(
            f"The compiled part of Haulage for Python {python} in {folder} was built of other "
            f"sources than those that lie there now: {remedy}"
        )


_check()
