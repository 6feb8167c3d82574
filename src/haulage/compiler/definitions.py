"""Where functions are in a module's text."""


def definition_start(text: str, name: str) -> int:
    """Where the definition of the function `name` begins in a module's text, or -1."""
    for called in (f'@"{name}"(', f"@{name}("):
        place = text.find(called)
        while place >= 0:
            start = text.rfind("\n", 0, place) + 1
            if text.startswith("define ", start):
                return start
            place = text.find(called, place + 1)
    return -1
