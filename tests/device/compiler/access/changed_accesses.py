"""Lines of kernels with a few changes, by which they write more, less or something else."""

import re

from hypothesis import strategies as st

_PLACES = ("cuda.grid(1)", "cuda.threadIdx.x", "cuda.blockIdx.x", "cuda.grid(1) + 1", "0", "k")
_SIZES = ("x.size", "x.size - 1", "x.size + 1", "n", "n - 1", "y.size", "len(x)", "m.shape[0]")
_STEPS = ("cuda.gridsize(1)", "cuda.blockDim.x", "cuda.gridDim.x", "1", "2", "cuda.gridsize(1) + 1")
_OPERATORS = ("<", "<=", ">", ">=", "!=", "==")

# What a piece of text can become. Loops have to end, so their steps stay above 0.
_CHANGES = (
    (r"cuda\.grid\(1\)", _PLACES),
    (r"\bx\.size( - 1)?|\bx\.shape\[0\]|\blen\(x\)|(?<= )n\b", _SIZES),
    (r"cuda\.gridsize\(1\)", _STEPS),
    (r"(?<!while )\bi (<|>=|>|<=) ", tuple(f"i {each} " for each in _OPERATORS)),
    (r"(?<=while i )<", ("<=",)),
    (r"\bj (<|>=) ", tuple(f"j {each} " for each in _OPERATORS)),
    (r"threadIdx|blockIdx", ("threadIdx", "blockIdx")),
    (r"blockDim|gridDim", ("blockDim", "gridDim")),
    (r"(?<=Idx)\.[xy]|(?<=Dim)\.[xy]", (".x", ".y")),
    (r"(?<=shape)\[[01]\]", ("[0]", "[1]")),
    (r"\b(and|or)\b", ("and", "or")),
    (r"\bnot ", ("",)),
    (r"\breturn\b", ("pass",)),
    (r"x\[i\] =", ("x[i + 1] =", "x[i] +=", "x[i // 2] =", "x[-i] =", "y[i] =", "x[j] =")),
    (r"m\[i, j\] =", ("m[j, i] =", "m[i, i] =", "m[i, j] +=", "m[i, 0] =", "m[i, j + 1] =")),
    (r"m\[p, q\] =", ("m[q, p] =", "m[p, p] =", "m[p, q] +=", "m[p, q + 1] =", "m[p, 0] =")),
    (r"\bx\[", ("y[",)),
    (r"y\[i\] > 0", ("i > 0", "x[i] > 0", "i < n", "k > 1", "i != 3")),
    (r"(?<=, )(i|j)(?=, m)", ("i", "j", "0", "i + 1")),
    (r"\b(a|b)(?=\):)", ("a", "b", "1", "2")),
    (r"i, j = ", ("j, i = ",)),
    (r"\Z", ("\ny[0] = x[1]", "\nx[0] = 1", "\nz = x if n > 3 else y\nz[0] = 2")),
    (r"\A", ("if k == 1:\n    return\n", "if cuda.threadIdx.x > 2:\n    return\n")),
)


@st.composite
def changed(draw, patterns):
    """One of some lines, with one to three changes."""
    lines = draw(st.sampled_from(patterns))
    for _ in range(draw(st.integers(1, 3))):
        possible = [
            (found, others) for pattern, others in _CHANGES for found in re.finditer(pattern, lines)
        ]
        found, others = draw(st.sampled_from(possible))
        lines = lines[: found.start()] + draw(st.sampled_from(others)) + lines[found.end() :]
    return lines
