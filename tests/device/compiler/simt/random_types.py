"""Random kernels over all number types, and an interpretation of the same text with NumPy scalars.

Every variable has a type that an assignment converts to; between, expressions are of one of five
classes: int64, uint64, float16, float32 and float64. NumPy's scalars have the same meaning for each
of their operations (integers wrap, a float operation rounds once), so results are the same to the
last bit.
Values stay where every conversion is defined: floats are held within bounds, divisors off zero.
There are no data races, as in `random_kernels`; an atomic operation's order does not matter.
"""

import itertools
import math
import textwrap

import numpy as np
from hypothesis import strategies as st
from numba import njit

from haulage import cuda

TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
CONVERSIONS = {code: np.dtype(code).type for code in TYPES}
WORDS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
FLOATS = ("f2", "f4", "f8")
CLASSES = ("i8", "u8", *FLOATS)
# What variables are held within, so that a product of three overflows nowhere.
BOUNDS = {"f2": "30", "f4": "1e5", "f8": "1e5"}
ATOMIC = ("i4", "u4", "i8", "u8")

_PARAMETERS = ", ".join(
    [f"x_{code}" for code in TYPES]
    + [f"out_{code}" for code in TYPES]
    + [f"total_{code}" for code in (*ATOMIC, "f4", "f8")]
)
_HEAD = "".join(
    [
        f"def program({_PARAMETERS}):\n",
        *(
            f"    room_{code} = cuda.shared.array({{threads}}, np.{np.dtype(code)})\n"
            for code in TYPES
        ),
        *(f"    own_{code} = cuda.local.array(4, np.{np.dtype(code)})\n" for code in TYPES),
        "    t = cuda.threadIdx.x\n    i = cuda.grid(1)\n",
    ]
)
_PLAIN_HEAD = (
    f"def program({_PARAMETERS}, "
    + ", ".join(f"{room}_{code}" for room in ("room", "own") for code in TYPES)
    + ", t, i):\n"
)
_START = "n = {threads}\nu = 3\nz = t > 3\n" + "".join(
    f"v_{code} = x_{code}[i]\nfor s in range(4):\n    own_{code}[s] = {code}(s)\n" for code in TYPES
)
_END = "".join(f"out_{code}[i] = v_{code}\n" for code in TYPES)


def _swap_bits(a, b):
    return (a & 0x5555555555555555) | (b & 0x2AAAAAAAAAAAAAAA)


def _chosen(first, a, b):
    if first:
        return a
    return b


def _collatz(start):
    steps = 0
    while start > 1 and steps < 20:
        start = start // 2 if start % 2 == 0 else 3 * start + 1
        steps += 1
    return steps


def kernel(lines, threads):
    """The program as a kernel for blocks of `threads` threads."""
    text = _START.format(threads=threads) + "\n".join(lines) + "\n" + _END
    names = {
        "cuda": cuda,
        "np": np,
        "sqrt": math.sqrt,
        "floor": np.floor,
        "popc": cuda.popc,
        "clz": cuda.clz,
        "swap_bits": njit(_swap_bits),
        "chosen": _chosen,
        "collatz": cuda.jit(device=True)(_collatz),
        **CONVERSIONS,
    }
    exec(_HEAD.format(threads=threads) + textwrap.indent(text, " " * 4), names)
    return cuda.jit(names["program"])


class _Atomic:
    """What the atomic words do to an element."""

    add = staticmethod(lambda a, b: a + b)
    sub = staticmethod(lambda a, b: a - b)
    and_ = staticmethod(lambda a, b: a & b)
    or_ = staticmethod(lambda a, b: a | b)
    xor = staticmethod(lambda a, b: a ^ b)
    max = staticmethod(max)
    min = staticmethod(min)

    def __init__(self, name):
        self._operation = getattr(self, name)

    def __call__(self, array, index, value):
        array[index] = self._operation(array[index], value)


def _plain_names():
    def conversion(code):
        return lambda value: np.asarray(value).astype(code)[()]

    class Atomics:
        pass

    for name in ("add", "sub", "and_", "or_", "xor", "max", "min"):
        setattr(Atomics, name, staticmethod(_Atomic(name)))

    class Words:
        atomic = Atomics

    return {
        "np": np,
        "cuda": Words,
        "sqrt": np.sqrt,
        "floor": np.floor,
        "popc": lambda value: (int(value) & 0xFFFFFFFFFFFFFFFF).bit_count(),
        "clz": lambda value: 64 - (int(value) & 0xFFFFFFFFFFFFFFFF).bit_length(),
        "swap_bits": _swap_bits,
        "chosen": _chosen,
        "collatz": _collatz,
        **{code: conversion(code) for code in TYPES},
    }


def interpret(lines, threads, blocks, xs, totals):
    """The outputs of the program run by Python; `totals` are changed in place."""
    text = _START.format(threads=threads) + "\n".join(lines) + "\n" + _END + "yield\n"
    text = text.replace("cuda.syncthreads()", "yield")
    names = _plain_names()
    exec(_PLAIN_HEAD + textwrap.indent(text, " " * 4), names)
    outs = [np.zeros(threads * blocks, code) for code in TYPES]
    with np.errstate(all="ignore"):
        for block in range(blocks):
            rooms = [np.zeros(threads, code) for code in TYPES]
            alive = [
                names["program"](
                    *xs,
                    *outs,
                    *totals,
                    *rooms,
                    *[np.zeros(4, code) for code in TYPES],
                    np.int64(t),
                    block * threads + t,
                )
                for t in range(threads)
            ]
            while alive:
                alive = [thread for thread in alive if next(thread, "ended") != "ended"]
    return outs


# ---- expressions of one class ------------------------------------------------------------------

_int_leaves = st.one_of(
    st.sampled_from([f"v_{code}" for code in WORDS]),
    st.sampled_from([f"x_{code}[i]" for code in WORDS]),
    st.sampled_from([f"own_{code}[v_u1 % 4]" for code in WORDS]),
)


def _binary(operators, inner):
    return st.builds(
        lambda left, operator, right: f"({left} {operator} {right})",
        inner,
        st.sampled_from(operators),
        inner,
    )


def _integers(class_, inner, floats):
    return st.one_of(
        _binary(("+", "-", "*", "&", "|", "^"), inner),
        st.builds(
            lambda a, o, b, sign: f"({a} {o} ({b} % {class_}(7) + {class_}({sign}))) ",
            inner,
            st.sampled_from(("//", "%")),
            inner,
            st.sampled_from((1, 2) if class_ == "u8" else (1, 2, -9)),
        ),
        st.builds(
            lambda a, o, b: f"({a} {o} ({b} & {class_}(63)))",
            inner,
            st.sampled_from(("<<", ">>")),
            inner,
        ),
        st.builds(lambda a: f"(~{a})", inner),
        st.builds(
            lambda word, a, b: f"{word}({a}, {b})", st.sampled_from(("min", "max")), inner, inner
        ),
        st.builds(lambda a, b: f"({a} if z else {b})", inner, inner),
        st.builds(lambda a, b: f"chosen(z, {a}, {b})", inner, inner),
        *(
            [
                st.builds(lambda a: f"(-{a})", inner),
                st.builds(lambda a, b: f"swap_bits({a}, {b})", inner, inner),
                st.builds(lambda a: f"i8(popc({a}))", inner),
                st.builds(lambda a: f"i8(clz({a}))", inner),
                st.builds(lambda a: f"i8(collatz({a} % i8(30)))", inner),
                st.builds(lambda f: f"i8(min(max({f}, f8(-1e6)), f8(1e6)))", floats),
            ]
            if class_ == "i8"
            else []
        ),
    )


def _floats(class_, inner):
    return st.one_of(
        _binary(("+", "-", "*"), inner),
        st.builds(lambda a, b: f"({a} / (abs({b}) + {class_}(1)))", inner, inner),
        st.builds(lambda a: f"sqrt(abs({a}))", inner),
        # NumPy's functions give a float32 for a float16 there, a float16 here.
        st.builds(lambda a: f"{class_}(floor({a}))", inner),
        st.builds(lambda a: f"(-{a})", inner),
        st.builds(
            lambda word, a, b: f"{word}({a}, {b})", st.sampled_from(("min", "max")), inner, inner
        ),
        st.builds(lambda a, b: f"({a} if z else {b})", inner, inner),
    )


_float_leaves = {
    class_: st.one_of(
        st.sampled_from(
            [f"{class_}(1.5)"]
            + [
                f"{class_}({name})"
                for of in FLOATS[: FLOATS.index(class_) + 1]
                for name in (f"v_{of}", f"x_{of}[i]", f"own_{of}[v_u2 % 4]")
            ]
        ),
        st.sampled_from(
            [f"{class_}(v_{code} % {code}(30))" for code in ("i1", "u1", "i2", "u2")]
            if class_ == "f2"
            else [f"{class_}(v_{code})" for code in ("i1", "u1", "i2", "u2")]
        ),
    )
    for class_ in FLOATS
}
expressions = {
    class_: st.recursive(
        _float_leaves[class_],
        lambda inner, class_=class_: _floats(class_, inner),
        max_leaves=3,
    )
    for class_ in FLOATS
}
for _class in ("i8", "u8"):
    expressions[_class] = st.recursive(
        st.builds(
            lambda leaf, class_: f"{class_}({leaf})",
            st.one_of(_int_leaves, st.integers(0, 100).map(str)),
            st.just(_class),
        ),
        lambda inner, class_=_class: _integers(class_, inner, expressions["f8"]),
        max_leaves=4,
    )


def _assigned(code, class_):
    if code in WORDS:
        return expressions["i8" if class_ in FLOATS else class_].map(lambda text: f"{code}({text})")
    bound = BOUNDS[code]
    return expressions[code].map(
        lambda text: f"min(max({text}, {code}(-{bound})), {code}({bound}))"
    )


values = st.sampled_from(TYPES).flatmap(
    lambda code: st.sampled_from(CLASSES).flatmap(
        lambda class_: st.tuples(st.just(code), _assigned(code, class_))
    )
)
conditions = st.sampled_from(CLASSES).flatmap(
    lambda class_: st.builds(
        lambda left, comparison, right: f"{left} {comparison} {right}",
        expressions[class_],
        st.sampled_from(("<", "<=", "==", "!=", ">", ">=")),
        expressions[class_],
    )
)

# ---- statements --------------------------------------------------------------------------------

assignments = values.map(lambda value: [f"v_{value[0]} = {value[1]}"])
atomics = st.one_of(
    st.sampled_from(ATOMIC).flatmap(
        lambda code: st.builds(
            lambda word, at, value: [
                f"cuda.atomic.{word}(total_{code}, {at} % 3, {code}({value}))"
            ],
            st.sampled_from(("add", "sub", "and_", "or_", "xor", "max", "min")),
            st.sampled_from(("v_u1", "v_u2", "v_u4", "t")),
            expressions["i8"],
        )
    ),
    # Sums of small whole numbers are exact in any order.
    st.builds(
        lambda code, word: [f"cuda.atomic.{word}(total_{code}, v_u1 % 3, {code}(v_i1))"],
        st.sampled_from(("f4", "f8")),
        st.sampled_from(("add", "sub")),
    ),
)
plain = st.one_of(
    assignments,
    assignments,
    values.map(lambda value: [f"own_{value[0]}[v_u1 % 4] = {value[1]}"]),
    conditions.map(lambda condition: [f"z = {condition}"]),
    st.builds(
        lambda a, b: [f"v_{a}, v_{b} = {a}(v_{b}), {b}(v_{a})"],
        st.sampled_from(WORDS),
        st.sampled_from(WORDS),
    ),
)


def _indented(lines):
    return [" " * 4 + line for line in lines]


def _lines(statements, most):
    return st.lists(statements, min_size=1, max_size=most).map(
        lambda parts: list(itertools.chain.from_iterable(parts))
    )


def _branch(condition, then, otherwise):
    return [f"if {condition}:", *_indented(then), "else:", *_indented(otherwise)]


def _loop(count, body, leave, number):
    lines = [f"for k{number} in range({count}):", *_indented(body)]
    if leave:
        lines += _indented([f"if {leave[1]}:", f"    {leave[0]}"])
    return lines


divergent = st.recursive(
    st.one_of(plain, plain, plain, atomics),
    lambda inner: st.one_of(
        st.builds(_branch, conditions, _lines(inner, 3), _lines(inner, 2)),
        st.builds(
            _loop,
            st.sampled_from(("3", "v_u1 % 5", "u", "v_i2 % 4")),
            _lines(inner, 3),
            st.one_of(st.none(), st.tuples(st.sampled_from(("break", "continue")), conditions)),
            st.integers(0, 9),
        ),
    ),
    max_leaves=4,
)
exchanges = st.builds(
    lambda code, to, shift: [
        f"room_{code}[t] = v_{code}",
        "cuda.syncthreads()",
        f"v_{to} = {to}(room_{code}[(t + {shift}) % n])",
        "cuda.syncthreads()",
    ],
    st.sampled_from(WORDS),
    st.sampled_from(WORDS),
    st.integers(0, 5),
) | st.builds(
    lambda code, shift: [
        f"room_{code}[t] = v_{code}",
        "cuda.syncthreads()",
        f"v_{code} = room_{code}[(t + {shift}) % n]",
        "cuda.syncthreads()",
    ],
    st.sampled_from(FLOATS),
    st.integers(0, 5),
)
common = st.integers(0, 6).map(lambda step: [f"u = (u * 3 + {step}) % 7"])
together = st.recursive(
    st.one_of(divergent, exchanges, common),
    lambda inner: st.one_of(
        st.builds(
            _branch,
            st.integers(0, 5).map(lambda bound: f"u > {bound}"),
            _lines(inner, 3),
            _lines(inner, 2),
        ),
        st.builds(
            _loop, st.sampled_from(("2", "u")), _lines(inner, 3), st.none(), st.integers(0, 9)
        ),
    ),
    max_leaves=6,
)


def _one_word_each(lines):
    """Of each total's atomic lines those with its first word: the order of others would matter."""
    words, kept = {}, []
    for line in lines:
        if "cuda.atomic." in line:
            word, total = (
                line.split("cuda.atomic.")[1].split("(")[0],
                line.split("(")[1].split(",")[0],
            )
            same = {"add": "sum", "sub": "sum"}.get(word, word)
            if words.setdefault(total, same) != same:
                line = line.split("cuda.atomic.")[0] + "pass"
        kept.append(line)
    return kept


programs = _lines(together, 6).map(_one_word_each)


def inputs(threads, blocks, seed):
    """Arrays with a value of each type for each thread, and the totals to start with."""
    rng = np.random.default_rng(seed)
    n = threads * blocks
    xs = [
        rng.normal(0, 7 if code == "f2" else 100, n).astype(code)
        if code in FLOATS
        else rng.integers(np.iinfo(code).min, np.iinfo(code).max, n, code, endpoint=True)
        for code in TYPES
    ]
    return xs, [np.full(3, 5, code) for code in (*ATOMIC, "f4", "f8")]
