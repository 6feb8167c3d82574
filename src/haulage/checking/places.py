"""Lines of the program, as findings name them."""

import os

from haulage.checking.findings import Place
from haulage.runtime.process import call_sites
from haulage.runtime.process.call_sites import CallSite


def place_of(call_site: CallSite) -> Place | None:
    """The innermost line of a call site; None: nobody knows it."""
    if not call_site:
        return None
    site = call_sites.site(call_site)
    return Place(site.filename, site.line)


def from_root(file: str, folder: str) -> str:
    """The name of a file, which is from a folder on, from the root on; text that is in no file
    keeps its name in <>."""
    return file if file.startswith("<") else os.path.normpath(os.path.join(folder, file))


def place_of_program() -> Place | None:
    """The line of the program that runs now."""
    return place_of(call_sites.current())
