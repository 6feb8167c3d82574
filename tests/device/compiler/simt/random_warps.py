"""Random kernels with words of warps, and a plain-Python interpretation of the same text.

A program is a list of lines. As a kernel it is compiled; interpreted, each thread is a generator
that yields its words, and lanes that wait for one another get their results together. In every
place the program knows the mask of the lanes that come there with it, and exchanges values with
these only; so what a lane gets is always defined.
"""

import re
import textwrap

import numpy as np
from hypothesis import strategies as st

from haulage import cuda

WARP = 32
FULL = 0xFFFFFFFF

_HEAD = """
def program(x, out):
    room = cuda.shared.array({threads}, np.int64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
"""
_PLAIN_HEAD = """
def program(x, out, room, t, i):
"""
_START = """\
w, lane = t // 32 * 32, t % 32
a, b, c = x[i], t, 1
m0 = cuda.ballot_sync(0xFFFFFFFF, True)
"""
_END = ["out[i, 0], out[i, 1], out[i, 2] = a, b, c"]


def peer(mask, first):
    """The first lane of `mask` from the lane `first` on, cyclically."""
    for step in range(32):
        lane = (first + step) % 32
        if (mask >> lane) & 1:
            return lane
    return 0


def kernel(lines, threads):
    """The program as a kernel for blocks of `threads` threads."""
    body = textwrap.indent(_START + "\n".join(lines + _END) + "\n", " " * 4)
    names = {"cuda": cuda, "np": np, "peer": peer}
    exec(_HEAD.format(threads=threads) + body, names)
    return cuda.jit(names["program"])


def interpret(lines, threads, blocks, x):
    """What the program, run by Python, leaves in `out`."""
    text = (_START + "\n".join(lines + _END) + "\nyield ('end',)\n").splitlines()
    for number, line in enumerate(text):
        text[number] = re.sub(
            r"cuda\.(\w+)\((.*)\)$", rf"yield ('\1', {number}, \2)".replace(", )", ")"), line
        )
    names = {"peer": peer}
    exec(_PLAIN_HEAD + textwrap.indent("\n".join(text), " " * 4), names)
    out = np.full((threads * blocks, 3), -1)
    values = [int(value) for value in x]
    for block in range(blocks):
        room = [0] * threads
        first = block * threads
        _run([names["program"](values, out, room, t, first + t) for t in range(threads)])
    return out


def _run(threads):
    """Run a block's generators to their ends; each yields (word, line, arguments)."""
    at = {t: next(thread) for t, thread in enumerate(threads)}

    def go_on(results):
        for t, result in results.items():
            at[t] = next(threads[t], ("end",)) if result is None else _send(threads[t], result)

    while at := {t: state for t, state in at.items() if state[0] != "end"}:
        ready = {}
        for first in range(0, len(threads), WARP):
            lanes = {t - first: at[t] for t in range(first, first + WARP) if t in at}
            ready |= {first + lane: result for lane, result in _of_warp(lanes).items()}
        if not ready:
            assert len(at) == len(threads), "threads wait for those that ended"
            assert {state[0] for state in at.values()} == {"syncthreads"}, at
            ready = dict.fromkeys(at)
        go_on(ready)


def _send(thread, result):
    try:
        return thread.send(result)
    except StopIteration:
        return ("end",)


def _of_warp(lanes):
    """Results by lane for those lanes of a warp that can go on; `lanes` has the words of all."""
    waiting = {lane: state for lane, state in lanes.items() if state[0] != "syncthreads"}
    results = {}
    for mask in {state[2] & FULL for state in waiting.values() if state[0] != "activemask"}:
        group = {
            lane: state
            for lane, state in waiting.items()
            if state[0] != "activemask" and state[2] & FULL == mask
        }
        if all(lane in group for lane in lanes if mask >> lane & 1):
            results |= {lane: _result(lane, group) for lane in group}
    if results:
        return results
    here = {lane: state[1] for lane, state in waiting.items() if state[0] == "activemask"}
    first = [lane for lane, line in here.items() if line == min(here.values())]
    return dict.fromkeys(first, sum(1 << lane for lane in first))


def _signed(mask):
    return mask - (mask >> 31 << 32)


def _result(lane, group):
    word, _, _, *arguments = group[lane]
    given = {other: state[3] if len(state) > 3 else None for other, state in group.items()}
    true = sum(1 << other for other, value in given.items() if value)
    alike = sum(1 << other for other, value in given.items() if value == given[lane])
    number = arguments[1] if len(arguments) > 1 else 0
    sources = {
        "shfl_sync": number,
        "shfl_up_sync": lane - number if lane >= number else lane,
        "shfl_down_sync": lane + number if lane + number < WARP else lane,
        "shfl_xor_sync": lane ^ number,
    }
    if word in sources:
        return given.get(sources[word], 0)
    everybody = sum(1 << other for other in group)
    return {
        "syncwarp": None,
        "ballot_sync": _signed(true),
        "any_sync": true != 0,
        "all_sync": true == everybody,
        "eq_sync": true in (0, everybody),
        "match_any_sync": _signed(alike),
        "match_all_sync": (_signed(alike) if alike == everybody else 0, alike == everybody),
    }[word]


# A statement is a list of lines with `{m}` for the mask, a branch or a loop a tuple.
names = st.sampled_from("abc")
values = st.sampled_from(("a", "b", "c", "t", "w", "lane", "7", "32", "x[i]"))
comparisons = st.builds(
    lambda left, sign, right: f"{left} {sign} {right}",
    values,
    st.sampled_from(("<", "<=", "==", "!=")),
    values,
)
votes = st.sampled_from(("any_sync", "all_sync", "eq_sync"))
moves = st.sampled_from(
    (
        ("shfl_up_sync", "max(lane - {n}, 0)"),
        ("shfl_down_sync", "min(lane + {n}, 31)"),
        ("shfl_xor_sync", "lane ^ {n}"),
    )
)
statements = st.one_of(
    st.builds(
        lambda name, left, sign, right: [f"{name} = ({left} {sign} {right}) % 997"],
        names,
        values,
        st.sampled_from("+-*"),
        values,
    ),
    st.builds(
        lambda name, value, first: [
            f"k = peer({{m}}, {first})",
            f"{name} = cuda.shfl_sync({{m}}, {value}, k)",
        ],
        names,
        values,
        values,
    ),
    st.builds(
        lambda name, value, move, number: [
            f"e = cuda.{move[0]}({{m}}, {value}, {number})",
            f"if ({{m}} >> ({move[1].replace('{n}', str(number))})) & 1:",
            f"    {name} = e",
        ],
        names,
        values,
        moves,
        st.integers(0, 31),
    ),
    st.builds(
        lambda name, condition: [
            f"e = cuda.ballot_sync({{m}}, {condition})",
            f"{name} = e % 997",
        ],
        names,
        comparisons,
    ),
    st.builds(
        lambda name, word, condition: [
            f"q = cuda.{word}({{m}}, {condition})",
            "if q:",
            f"    {name} += 1",
        ],
        names,
        votes,
        comparisons,
    ),
    st.builds(
        lambda name, value: [
            f"e = cuda.match_any_sync({{m}}, {value} % 3)",
            f"{name} = e % 997",
        ],
        names,
        values,
    ),
    st.builds(
        lambda name, value: [
            f"e, q = cuda.match_all_sync({{m}}, {value} % 2)",
            "if q:",
            f"    {name} = e % 997",
        ],
        names,
        values,
    ),
    st.builds(
        lambda name, value, first: [
            f"room[t] = {value}",
            "cuda.syncwarp({m})",
            f"{name} = room[w + peer({{m}}, {first})]",
            "cuda.syncwarp({m})",
        ],
        names,
        values,
        values,
    ),
)
active = st.builds(lambda name: ["e = cuda.activemask()", f"{name} = e % 997"], names)
block_exchanges = st.builds(
    lambda name, value: [
        f"room[t] = {value}",
        "cuda.syncthreads()",
        f"{name} = room[0] + {value}",
        "cuda.syncthreads()",
    ],
    names,
    values,
)


def _branches(inner):
    parts = st.lists(inner, min_size=1, max_size=3)
    return st.tuples(st.just("if"), comparisons, parts, st.one_of(st.just([]), parts))


def _loops(inner):
    counts = st.sampled_from(("3", "a % 4", "lane % 3", "t // 32", "x[i] % 5"))
    return st.tuples(st.just("loop"), counts, st.lists(inner, min_size=1, max_size=3))


# Lanes in different turns of a loop may count as active together, so loops do not ask.
in_loops = st.recursive(
    statements, lambda inner: st.one_of(_branches(inner), _loops(inner)), max_leaves=5
)
anywhere = st.recursive(st.one_of(statements, active, _loops(in_loops)), _branches, max_leaves=6)
leaving = st.tuples(st.just("leave"), comparisons)


def _lines(parts, depth=0):
    mask, inner = f"m{depth}", f"m{depth + 1}"
    lines = []
    for part in parts:
        if isinstance(part, list):
            lines += [line.replace("{m}", mask) for line in part]
        elif part[0] == "if":
            _, condition, then, otherwise = part
            lines += [f"p{depth} = {condition}", f"{inner} = cuda.ballot_sync({mask}, p{depth})"]
            lines += [f"if p{depth}:", *_indented(_lines(then, depth + 1))]
            if otherwise:
                other = [f"{inner} = {mask} & ~{inner}", *_lines(otherwise, depth + 1)]
                lines += ["else:", *_indented(other)]
        elif part[0] == "loop":
            _, count, body = part
            left = f"n{depth}"
            turn = [
                f"p{depth} = {left} > 0",
                f"o{depth} = cuda.ballot_sync({inner}, p{depth})",
                f"if not p{depth}:",
                "    break",
                f"{inner} = o{depth}",
                *_lines(body, depth + 1),
                f"{left} -= 1",
            ]
            lines += [f"{left} = {count}", f"{inner} = {mask}", "while True:", *_indented(turn)]
        else:
            lines += [f"if {part[1]}:", *_indented([*_END, "return"])]
            lines += [f"{mask} = cuda.ballot_sync({mask}, True)"]
    return lines


def _indented(lines):
    return ["    " + line for line in lines]


programs = st.builds(
    lambda first, then: _lines([*first, *then]),
    st.lists(st.one_of(anywhere, block_exchanges), min_size=1, max_size=3),
    st.lists(st.one_of(anywhere, leaving), max_size=3),
)
