"""Random kernels, and a plain-Python interpretation of the same text.

A program is a list of lines. As a kernel its exchanges wait at barriers; interpreted, each thread
is a generator that yields there, and the threads of a block run in turn. Programs have no data
races: between two barriers a thread writes only its own element of the shared array, or all read;
between two barriers of a wavefront only elements of that wavefront's threads are read. Each thread
has two elements of `bag` for itself, by indices that are a constant step apart or worked out.
"""

import itertools
import textwrap
from math import prod
from types import SimpleNamespace

import numpy as np
from hypothesis import strategies as st

from haulage import cuda, roc

VARIABLES = ("a", "b", "c")
WAVE = 64

_HEAD = """
def program(x, out, totals):
    room = cuda.shared.array({threads}, np.int64)
    bag = cuda.shared.array(2 * {threads}, np.int64)
    own = cuda.local.array(4, np.int64)
    t = cuda.threadIdx.x + {x} * (cuda.threadIdx.y + {y} * cuda.threadIdx.z)
    i = cuda.blockIdx.x * {threads} + t
"""
_PLAIN_HEAD = """
def program(x, out, totals, room, bag, own, t, i):
"""
_START = """\
n = {threads}
a, b, c, u, f = x[i], t, 1, 3, 1.0
for slot in range(4):
    own[slot] = slot * t
bag[2 * t] = bag[2 * t + 1] = 1
"""
_END = """\
out[i, 0], out[i, 1], out[i, 2], out[i, 3], out[i, 4] = a, b, c, u, f
"""


# Behind it a program has no line that all threads come to.
_LAST = "# the end"


def _text(lines, threads):
    end = "" if lines[-1:] == [_LAST] else _END
    return _START.format(threads=threads) + "\n".join(lines) + "\n" + end


def kernel(lines, shape):
    """The program as a kernel for blocks with `shape` threads along x, y and z."""
    threads = prod(shape)
    body = textwrap.indent(_text(lines, threads), " " * 4)
    names = {"cuda": cuda, "roc": roc, "np": np}
    exec(_HEAD.format(threads=threads, x=shape[0], y=shape[1]) + body, names)
    return cuda.jit(names["program"])


def interpret(lines, threads, blocks, x):
    """(out, totals) of the program run by Python."""
    text = _text(lines, threads) + "yield\n"
    text = text.replace("cuda.syncthreads()", "yield").replace("roc.wavebarrier()", "yield 'wave'")
    names = {"cuda": SimpleNamespace(atomic=_Atomic)}
    exec(_PLAIN_HEAD + textwrap.indent(text, " " * 4), names)
    out, totals = np.zeros((threads * blocks, 5)), np.zeros(3, np.int64)
    values = [int(value) for value in x]
    for block in range(blocks):
        room, bag = [0] * threads, [0] * 2 * threads
        _run(
            [
                names["program"](values, out, totals, room, bag, [0] * 4, t, block * threads + t)
                for t in range(threads)
            ]
        )
    return out, totals


class _Atomic:
    """The atomic words, of which each gives the old value."""

    @staticmethod
    def add(array, index, value):
        array[index] += value
        return array[index] - value

    @staticmethod
    def max(array, index, value):
        old = array[index]
        array[index] = max(old, value)
        return old

    @staticmethod
    def exch(array, index, value):
        old, array[index] = array[index], value
        return old

    @staticmethod
    def cas(array, index, old, value):
        found = array[index]
        if found == old:
            array[index] = value
        return found


def _run(threads):
    """Run a block's generators; each yields None at a barrier and 'wave' at a wavefront's."""
    at = {t: next(thread, "ended") for t, thread in enumerate(threads)}
    while at := {t: state for t, state in at.items() if state != "ended"}:
        waves = {t // WAVE for t in at} - {t // WAVE for t, state in at.items() if state is None}
        # Wavefronts whose threads all wait for one another; if none is left, the whole block.
        for t in [t for t in at if t // WAVE in waves] or list(at):
            at[t] = next(threads[t], "ended")


def _indented(lines):
    return [" " * 4 + line for line in lines]


variables = st.sampled_from(VARIABLES)
operands = st.sampled_from(
    (
        *VARIABLES,
        "u",
        "t",
        "7",
        "x[i]",
        "own[a % 4]",
        "own[2]",
        "bag[2 * t + 1]",
        "bag[2 * t + b % 2]",
    )
)
comparisons = st.sampled_from(("<", "<=", "==", "!=", ">"))

assignments = st.builds(
    lambda name, left, operator, right: [f"{name} = ({left} {operator} {right}) % 997"],
    variables,
    operands,
    st.sampled_from("+-*"),
    operands,
)
plain = st.one_of(
    assignments,
    st.builds(lambda name: [f"own[b % 4] = {name}"], variables),
    st.just(["own[1] = own[3] + 1"]),
    st.just(["f = f * 0.5 + a"]),
    st.just(["cuda.atomic.add(totals, a % 3, 1)"]),
    st.builds(
        lambda index, name: [f"bag[2 * t + {index}] = {name} % 97"],
        st.sampled_from(("0", "1", "a % 2")),
        variables,
    ),
    st.builds(
        lambda start, word, index, name: [
            f"{start}cuda.atomic.{word}(bag, 2 * t + {index}, {name})"
        ],
        st.sampled_from(("", "", "a = ", "c = ")),
        st.sampled_from(("add", "max", "exch")),
        st.sampled_from(("0", "1", "b % 2")),
        st.sampled_from(("1", "t", "u", "b % 5")),
    ),
    st.just(["c = cuda.atomic.cas(bag, 2 * t + a % 2, 1, b % 7)"]),
)
exchanges = st.builds(
    lambda source, target, shift: [
        f"room[t] = {source}",
        "cuda.syncthreads()",
        f"{target} = room[(t + {shift}) % n]",
        "cuda.syncthreads()",
    ],
    variables,
    variables,
    st.integers(0, 5),
)
# What all threads have in common stays so: it is made of nothing that differs.
common = st.one_of(
    st.builds(lambda step: [f"u = (u * 3 + {step}) % 7"], st.integers(0, 6)),
    st.builds(
        lambda name: [
            f"room[t] = {name}",
            "cuda.syncthreads()",
            "u = room[n - 1] % 5",
            "cuda.syncthreads()",
        ],
        variables,
    ),
)


def _branch(condition, then, otherwise):
    return [f"if {condition}:", *_indented(then), "else:", *_indented(otherwise)]


def _loop(number, count, body, leave):
    lines = [f"for k{number} in range({count}):", *_indented(body)]
    if leave:
        lines += _indented([f"if {leave}:", "    break"])
    return lines


bounds = st.builds(
    lambda value, o, number: f"{value} {o} {number}",
    st.sampled_from(("t", "i", "t - 3", "2 * t + 1", "-t", "i % 8", "n - t")),
    st.sampled_from(("<", "<=", ">", ">=", "==", "!=")),
    st.sampled_from(("0", "1", "5", "31", "u", "u - 9", "n - 1", "40")),
)
varying_conditions = st.one_of(
    st.builds(lambda a, o, b: f"{a} {o} {b}", operands, comparisons, operands),
    bounds,
    st.builds(lambda low, high: f"{low} and {high}", bounds, bounds),
)
uniform_conditions = st.builds(lambda o, b: f"u {o} {b}", comparisons, st.integers(0, 5))
numbers = st.integers(0, 9)


def _lines(statements, most):
    return st.lists(statements, min_size=1, max_size=most).map(
        lambda parts: list(itertools.chain.from_iterable(parts))
    )


# Control flow in which threads go different ways holds no barrier.
divergent = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.builds(_branch, varying_conditions, _lines(inner, 3), _lines(inner, 3)),
        st.builds(
            _loop,
            numbers,
            st.sampled_from(("4", "a % 5", "u")),
            _lines(inner, 3),
            st.one_of(st.none(), varying_conditions),
        ),
    ),
    max_leaves=5,
)
# Threads may leave for good, also before barriers, and in loops that the others go on with.
leaving = st.builds(
    lambda condition: [f"if {condition}:", *_indented([*_END.splitlines(), "return"])],
    varying_conditions,
)
together = st.recursive(
    st.one_of(divergent, exchanges, common, leaving),
    lambda inner: st.one_of(
        st.builds(_branch, uniform_conditions, _lines(inner, 3), _lines(inner, 3)),
        st.builds(
            _loop, numbers, st.sampled_from(("3", "u", "2 + u")), _lines(inner, 3), st.none()
        ),
    ),
    max_leaves=7,
)
# Behind the last barrier of all, threads may part as they like.
alone = st.recursive(
    st.one_of(divergent, leaving),
    lambda inner: st.one_of(
        st.builds(
            _loop,
            numbers,
            st.sampled_from(("3", "u", "a % 6")),
            _lines(inner, 3),
            st.one_of(st.none(), varying_conditions),
        ),
        st.builds(_branch, varying_conditions, _lines(inner, 3), _lines(inner, 3)),
    ),
    max_leaves=5,
)
# Some threads have nothing more to do, and the others still wait for one another.
guarded = st.builds(
    lambda condition, body: [
        *_END.splitlines(),
        f"if {condition}:",
        *_indented([*body, *_END.splitlines()]),
        _LAST,
    ],
    varying_conditions,
    _lines(together, 3),
)


def _with_room(lines):
    """The program; if threads may leave before they write to the room, it is cleared first."""
    parts = _LAST in lines or any("return" in line for line in lines)
    return ["room[t] = 0", "cuda.syncthreads()", *lines] if parts else lines


programs = st.builds(
    lambda first, last: _with_room(first + last),
    _lines(together, 4),
    st.one_of(st.just([]), _lines(alone, 4), guarded),
)

# `w` is the thread's wavefront, `m` how many threads that has, and `v` what they have in common.
_WAVE_START = [
    "room[t] = 0",
    "cuda.syncthreads()",
    f"w = t // {WAVE}",
    f"m = min({WAVE}, n - w * {WAVE})",
    "v = w",
]
wave_exchanges = st.builds(
    lambda source, target, shift: [
        f"room[t] = {source}",
        "roc.wavebarrier()",
        f"{target} = room[w * {WAVE} + (t + {shift}) % m]",
        "roc.wavebarrier()",
    ],
    variables,
    variables,
    st.integers(0, 33),
)
wave_common = st.one_of(
    st.builds(lambda step: [f"v = (v * 3 + w + {step}) % 7"], st.integers(0, 6)),
    st.builds(
        lambda name: [
            f"room[t] = {name}",
            "roc.wavebarrier()",
            f"v = room[w * {WAVE} + m - 1] % 5",
            "roc.wavebarrier()",
        ],
        variables,
    ),
)
wave_conditions = st.builds(
    lambda name, o, b: f"{name} {o} {b}", st.sampled_from("wvu"), comparisons, st.integers(0, 4)
)


def _by_waves(statements, most):
    """Control flow in which wavefronts go different ways, but no wavefront's threads."""
    return st.recursive(
        statements,
        lambda inner: st.one_of(
            st.builds(_branch, wave_conditions, _lines(inner, 3), _lines(inner, 3)),
            st.builds(_branch, wave_conditions, _lines(inner, 3), st.just(["pass"])),
            st.builds(
                _loop,
                numbers,
                st.sampled_from(("3", "u", "v", "w", "w + 1")),
                _lines(inner, 3),
                st.one_of(st.none(), wave_conditions),
            ),
        ),
        max_leaves=most,
    )


in_waves = _by_waves(st.one_of(wave_exchanges, wave_common, wave_exchanges, divergent), 5)
of_blocks = st.recursive(
    st.one_of(in_waves, exchanges, common),
    lambda inner: st.one_of(
        st.builds(_branch, uniform_conditions, _lines(inner, 3), _lines(inner, 3)),
        st.builds(_loop, numbers, st.sampled_from(("3", "u")), _lines(inner, 3), st.none()),
    ),
    max_leaves=5,
)
# Behind the block's last barrier threads may leave for good, and their wavefront goes on.
wave_programs = st.builds(
    lambda first, then, last: _WAVE_START + first + then + last,
    st.one_of(st.just([]), _lines(of_blocks, 3)),
    st.one_of(_lines(in_waves, 2), _lines(_by_waves(st.one_of(in_waves, leaving), 5), 3)),
    st.one_of(st.just([]), _lines(alone, 2)),
)
