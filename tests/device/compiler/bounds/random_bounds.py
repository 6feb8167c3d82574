"""Random kernels whose indices may be out of bounds, and what plain Python does in their place.

A kernel reads the arrays `x` (1-d) and `z` (2-d), writes ones into `y`, and leaves a sum of what
each of its threads read in `out`. Each index is made of the thread's and the block's, of counters
of loops, and of two integers that a launch gives, `n` and `m`.
"""

import textwrap
from types import SimpleNamespace

import numpy as np

from haulage import cuda

HEAD = """
def kernel(x, z, y, n, m, out):
    i, j = cuda.grid(2)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    s = 0
"""
FOOT = "    out[i, j] = s\n"


def source(random):
    """The text of a random kernel."""
    lines = _body(random, ["i", "j", "t", "b", "n", "m"], 3)
    return HEAD + textwrap.indent("\n".join(lines), "    ") + "\n" + FOOT


def compiled(text):
    """The kernel, which checks its indices."""
    scope = {"cuda": cuda}
    exec(text, scope)
    return cuda.jit(scope["kernel"], boundscheck=True)


def interpreted(text, grid, block, args):
    """Let Python run the threads one after the other; returns whether one of them was at an index
    that is out of bounds."""
    place = SimpleNamespace()
    scope = {"cuda": place}
    exec(text, scope)
    failed = False
    for bx, by, tx, ty in np.ndindex(*grid, *block):
        place.grid = lambda _, at=(bx * block[0] + tx, by * block[1] + ty): at
        place.threadIdx = SimpleNamespace(x=tx, y=ty)
        place.blockIdx = SimpleNamespace(x=bx, y=by)
        try:
            scope["kernel"](*args)
        except IndexError:
            failed = True
    return failed


def _body(random, names, depth):
    lines = []
    for _ in range(random.randint(1, 3)):
        lines += _statement(random, names, depth)
    return lines


def _statement(random, names, depth):
    kind = random.random()
    if depth == 0 or kind < 0.4:
        return [_access(random, names)]
    inside = textwrap.indent
    if kind < 0.65:
        lines = _body(random, names, depth - 1)
        return [f"if {_condition(random, names)}:", *(inside(line, "    ") for line in lines)]
    counter = f"k{depth}"
    lines = _body(random, [*names, counter], depth - 1)
    body = [inside(line, "    ") for line in lines]
    if kind < 0.85:
        low = random.choice(["0", "0", "1", "t", "i", "n - m", "-2"])
        high = random.choice(["n", "m", "5", "t + 1", "n + 1", "n - 1", "x.size", "z.shape[1]"])
        step = random.choice(["", "", ", 2", ", 3"])
        return [f"for {counter} in range({low}, {high}{step}):", *body]
    if kind < 0.89:
        lines = _body(random, [*names, counter, f"d{depth}"], depth - 1)
        return [
            f"{counter}, d{depth} = {random.choice(['4', '2'])}, {random.choice(['1', '3'])}",
            f"while {counter} > 0:",
            *(inside(line, "    ") for line in lines),
            f"    {counter} //= 2",
            f"    d{depth} {random.choice(['*= 2', '+= 3'])}",
        ]
    if kind < 0.94:
        return [
            f"{counter} = {random.choice(['8', '4', 'm'])}",
            f"while {counter} > 0:",
            *body,
            f"    {counter} {random.choice(['//= 2', '-= 1'])}",
        ]
    low, step = random.choice(["i", "t", "0"]), random.choice(["3", "8", "m + 1"])
    return [
        f"{counter} = {low}",
        f"while {counter} < {random.choice(['n', 'x.size', '9'])}:",
        *body,
        f"    {counter} += {step}",
    ]


def _access(random, names):
    kind = random.random()
    if kind < 0.4:
        return f"s += x[{_index(random, names)}]"
    if kind < 0.75:
        return f"s += z[{_index(random, names)}, {_index(random, names)}]"
    return f"y[{_index(random, names)}] = 1"


def _index(random, names):
    kind = random.random()
    if kind < 0.5:
        return random.choice(names)
    if kind < 0.85:
        one, other = random.choice(names), random.choice([*names, "1", "2"])
        times = random.choice(["", "", "2 * ", "3 * ", f"{random.choice(names)} * "])
        return f"{times}{one} {random.choice('+-')} {other}"
    if kind < 0.9:
        return f"({random.choice(names)} + {random.choice(names)}) % {random.choice(['4', '7'])}"
    if kind < 0.95:
        sign, divisor = random.choice(["//", "%"]), random.choice(["2", "3", "4", "max(n, 1)"])
        return f"{random.choice(names)} {sign} {divisor}"
    word, bound = random.choice(["min", "max"]), random.choice(["0", "3", "n - 1", "x.size - 1"])
    return f"{word}({random.choice(names)}, {bound})"


def _condition(random, names):
    bounds = ["n", "m", "n - 1", "x.size", "z.shape[0]", "z.shape[1]", "3", "y.size"]
    tests = []
    for _ in range(random.randint(1, 2)):
        sign = random.choice(["<", "<", "<", "<=", ">", ">=", "!=", "=="])
        other = random.choice(bounds if random.random() < 0.7 else ["0", "1", *names])
        tests.append(f"{random.choice(names)} {sign} {other}")
    return random.choice([" and ", " or "]).join(tests)
