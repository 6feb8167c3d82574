"""What Python's tracing tells of functions while they run."""

import sys
from collections import Counter


def arcs_of(work, file):
    """The arcs that functions of a file went while `work()` ran, with counts, as coverage.py has
    them: lines one after the other, -L for the beginning and the end of a function of line L."""
    arcs = Counter()

    def begin(frame, event, arg):
        first = -frame.f_code.co_firstlineno
        told = [first]

        def follow(frame, event, arg):
            if event == "line":
                arcs[told[0], frame.f_lineno] += 1
                told[0] = frame.f_lineno
            elif event == "return":
                arcs[told[0], first] += 1
            return follow

        return follow if frame.f_code.co_filename == file else None

    before = sys.gettrace()
    sys.settrace(begin)
    try:
        work()
    finally:
        sys.settrace(before)
    return arcs
