"""How the commands say no."""

import os


class Refusal(Exception):
    """What was asked cannot be done; the text is the whole answer, and no traceback follows."""


def absolute(path: str, what: str) -> str:
    """The absolute path of one that is named from the current folder.

    Raises:
        Refusal: the current folder is gone.
    """
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise Refusal(f"{what}: the current folder is gone; cd to another first") from None
