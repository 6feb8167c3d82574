"""Python processes that this one starts get Haulage's words too.

A folder with a `sitecustomize` module is put in front of PYTHONPATH. Python imports that module
when it starts; it installs Haulage, takes its folder off `sys.path`, and gives way to the
`sitecustomize` that would have been found without it.
"""

import os

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "for_children")
_VARIABLE = "PYTHONPATH"


def reach() -> None:
    """Let processes started from now on get Haulage's words."""
    os.environ[_VARIABLE] = os.pathsep.join([FOLDER, *_others()])


def leave() -> None:
    """Undo `reach`. Where that was not called nothing happens."""
    if FOLDER in _folders():
        others = _others()
        if others:
            os.environ[_VARIABLE] = os.pathsep.join(others)
        else:
            del os.environ[_VARIABLE]


def _others() -> list[str]:
    return [folder for folder in _folders() if folder != FOLDER]


def _folders() -> list[str]:
    text = os.environ.get(_VARIABLE, "")
    return text.split(os.pathsep) if text else []
