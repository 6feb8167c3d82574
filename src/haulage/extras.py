"""How to get what Haulage can do without: the extras of pyproject.toml."""


def how_to_install(extra: str) -> str:
    """The command that installs an extra, and where it works: Haulage is on no package index."""
    return f"pip install '.[{extra}]' in the checkout of Haulage"
