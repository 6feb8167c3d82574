"""The lines and arcs that there are in bytecode are those that Python's tracing tells of."""

import pytest

from haulage.compiler.checks.flow import Flow
from support.traced import arcs_of

FILE = "flows.py"
PROGRAMS = {
    "branches": """
def run(a, b):
    if (a > 1
            and b > 1):
        c = (
            a
            + b
        )
    elif a == 1: c = 2
    else:
        c = a if b else 3
    return c
""",
    "loops": """
def run(a, b):
    total = 0
    for i in range(a):
        for j in range(b):
            if j == 2:
                continue
            if i == 2:
                break
            total += j
        else:
            total += 1
    while total > 3: total -= 3
    while True:
        total += 1
        if total > 2:
            break
    return total
""",
    "ends": """
def run(
    a,
    b,
):
    "What it is for."
    if a > b:
        return
    assert a >= 0, "not here"
    pass
    if b:
        a += 1; b += 1
""",
    "in a line": "def run(a, b): return a or b",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_arcs_are_those_of_tracing(name):
    namespace = {}
    exec(compile(PROGRAMS[name], FILE, "exec"), namespace)
    run = namespace["run"]
    flow = Flow(run.__code__)
    told = arcs_of(lambda: [run(a, b) for a in range(5) for b in range(5)], FILE)
    assert set(told) <= set(flow.arcs)
    # All are gone but that of the failed assertion.
    missing = set(flow.arcs) - set(told)
    assert missing == ({(9, -2)} if name == "ends" else set())
    assert flow.lines == {line for _, line in told if line > 0}
