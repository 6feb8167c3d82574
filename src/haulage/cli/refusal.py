"""How the commands say no."""


class Refusal(Exception):
    """What was asked cannot be done; the text is the whole answer, and no traceback follows."""
