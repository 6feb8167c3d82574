"""Programs for `haulage check` that say themselves what is found, without a kernel."""

import textwrap

# What such a program begins with: `found(kind, line)` is a finding at a line of it.
HEAD = """
import os, sys
from haulage.checking.findings import Access, Finding, Place
from haulage.runtime.process import runtime

def found(kind="race", line=3, other=None, kernel="k", file=__file__, **more):
    access = Access(Place(file, line), "write", kernel, (0, 0, 0), (line, 0, 0))
    if other is not None:
        more["other"] = Access(Place(file, other), "read", kernel, (0, 0, 0), (other, 0, 0))
    made = Finding(kind, f"a {kind} in {kernel}", access, **more)
    runtime.current.checker.findings.checked(100)
    runtime.current.checker.findings.add(made)
"""


def program(path, text):
    """A file with such a program; its own lines begin at line 13."""
    path.write_text(HEAD.removeprefix("\n") + textwrap.dedent(text), encoding="utf-8")
    return path
