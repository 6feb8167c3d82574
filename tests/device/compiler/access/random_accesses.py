"""Random kernels that write arrays in many ways, of which most leave something out.

`x` and `y` are read; `u`, `v`, `w` may be written, and `m` of two axes may be too; `n` and `c` are
whole numbers. So that the order in which threads run makes no difference, what is written is made
from the index that it is written to.
"""

import itertools
import textwrap

from hypothesis import strategies as st

from haulage import cuda

PARAMETERS = "x, y, u, v, w, m, n, c"

_HEAD = """\
t, b, d, g = cuda.threadIdx.x, cuda.blockIdx.x, cuda.blockDim.x, cuda.gridDim.x
i, j = cuda.grid(2)
"""


def kernel(lines):
    """The kernel of these lines."""
    names = {"cuda": cuda}
    body = textwrap.indent(_HEAD + "\n".join(lines), " " * 4)
    exec(f"def program({PARAMETERS}):\n{body}\n", names)
    return cuda.jit(names["program"])


def _indented(lines):
    return [" " * 4 + line for line in lines]


sizes = st.sampled_from(
    ("n", "u.size", "len(v)", "w.shape[0]", "x.size", "n - 1", "u.size - 1", "n + 1", "m.shape[0]")
)
sizes_of_two = st.sampled_from(("m.shape[0]", "m.shape[1]", "n", "m.shape[1] - 1"))
places = st.sampled_from(("i", "i", "i", "t", "b", "b * d + t", "t * d + b", "t + d * b", "j"))
other_places = st.sampled_from(("i + 1", "i // 2", "2 * i", "i - 1", "-i", "t + 1", "0", "c", "n"))
comparisons = st.sampled_from(("<", "<", "<", "<=", ">", ">=", "==", "!="))

guards = st.one_of(
    st.builds(lambda i, n: f"{i} < {n}", places, sizes),
    st.builds(lambda i, n: f"{n} > {i}", places, sizes),
    st.builds(lambda i, o, n: f"{i} {o} {n}", places, comparisons, sizes),
    st.builds(lambda i, o, n: f"not {i} {o} {n}", places, comparisons, sizes),
    st.builds(lambda i, o, k: f"{i} {o} {k}", places, comparisons, st.integers(-1, 4)),
    st.builds(lambda i, n: f"0 <= {i} < {n}", places, sizes),
    st.builds(lambda i, n: f"{i} + 1 < {n}", places, sizes),
    st.builds(lambda i: f"x[{i}] > 0", places),
    st.sampled_from(("c", "c > 2", "n > c", "j == 0", "t == 0", "b == 0", "i == j", "n > 0")),
)
conditions = st.recursive(
    guards,
    lambda inner: st.one_of(
        st.builds(lambda a, b: f"({a}) and ({b})", inner, inner),
        st.builds(lambda a, b: f"({a}) or ({b})", inner, inner),
        st.builds(lambda a, b, o: f"bool({a}) {o} bool({b})", inner, inner, st.sampled_from("&|")),
        st.builds(lambda a: f"not ({a})", inner),
    ),
    max_leaves=3,
)
values = st.sampled_from(("1", "2.5", "{i}", "x[{i}]", "y[{i}] + 1", "n", "x.size", "c"))


def _store(array, index, value, how):
    value = value.format(i=index)
    return [f"{array}[{index}] {how} {value}"]


# Statements that write by an index, which may be a loop's.
def stores(index):
    return st.one_of(
        st.builds(
            _store,
            st.sampled_from("uvw"),
            st.just(index),
            values,
            st.sampled_from(("=", "=", "=", "=", "+=")),
        ),
        st.just([f"u[{index}] = v[{index}]"]),
        st.just(["z = u if c else v", f"z[{index}] = 3"]),
        st.just(["z = w[1:]", f"z[{index}] = 4"]),
        st.just(["z = w", f"z[{index}] = 4"]),
    )


plain = st.one_of(
    places.flatmap(stores),
    places.flatmap(stores),
    st.builds(lambda i: [f"w[{i}] = 5"], other_places),
    st.builds(lambda a, b: [f"m[{a}, {b}] = 1"], places, places),
    st.sampled_from((["m[i, j] = 2"], ["m[j, i] = 2"], ["m[i, j] = x[i]"], ["m[i, i] = 2"])),
    st.just(["pass"]),
)


def _block(statements):
    return st.lists(statements, min_size=1, max_size=2).map(
        lambda parts: list(itertools.chain.from_iterable(parts))
    )


def _if(condition, then, otherwise):
    return [
        f"if {condition}:",
        *_indented(then),
        *(["else:", *_indented(otherwise)] if otherwise else []),
    ]


leaving = st.builds(lambda condition: [f"if {condition}:", "    return"], conditions)

starts = st.sampled_from(
    (
        *(("i", "d * g"), ("t", "d"), ("b", "g"), ("0", "1"), ("i", "cuda.gridsize(1)")),
        *(("t", "d * g"), ("i + 1", "d * g"), ("c", "1"), ("0", "2")),
    )
)


def _for(start, stop, name, body, more):
    return [f"for {name} in range({start[0]}, {stop}, {start[1]}):", *_indented([*body, *more])]


def _while(start, stop, name, comparison, body, more, middle):
    first, step = start
    if middle == "counted before":
        body = [f"{name} += {step}", *body, *more]
    elif middle == "left amid":
        body = [f"if {name} + {step} >= {stop}:", "    break", *body, *more, f"{name} += {step}"]
    else:
        body = [*body, *more, f"{name} += {step}"]
    return [f"{name} = {first}", f"while {name} {comparison} {stop}:", *_indented(body)]


def _in_loop(name):
    """What is done with the variable of a loop."""
    one = st.one_of(
        stores(name),
        stores(name),
        st.builds(lambda p: [f"m[{p}, {name}] = 3"], places),
        st.builds(lambda p: [f"m[{name}, {p}] = 3"], places),
        st.builds(
            lambda o, k: [f"w[{name} {o}] = 6"], st.sampled_from(("+ 1", "- 1", "// 2")), st.just(0)
        ),
    )
    guarded = st.builds(
        _if,
        st.one_of(
            st.builds(lambda n: f"{name} < {n}", sizes),
            st.builds(lambda o, k: f"{name} {o} {k}", comparisons, st.integers(0, 3)),
            conditions,
        ),
        _block(one),
        st.one_of(st.just([]), _block(one)),
    )
    return st.one_of(one, one, guarded)


ends = st.one_of(
    st.just([]),
    st.just([]),
    st.just([]),
    st.builds(
        lambda name, o, k, word: [f"if {name} {o} {k}:", f"    {word}"],
        st.sampled_from(("p", "i", "x[p]")),
        comparisons,
        st.integers(0, 4),
        st.sampled_from(("break", "return")),
    ),
)
within = st.builds(
    lambda start, stop, body: [
        f"for q in range({start[0]}, {stop}, {start[1]}):",
        *_indented(body),
    ],
    st.sampled_from((("j", "cuda.gridsize(2)[1]"), ("0", "1"), ("t", "d"), ("j", "1"))),
    sizes_of_two,
    st.sampled_from(
        (["m[p, q] = 7"], ["m[q, p] = 7"], ["m[i, q] = 7"], ["if q > 0:", "    m[p, q] = 7"])
    ),
)
loops = st.one_of(
    st.builds(
        _for,
        starts,
        st.one_of(sizes, sizes_of_two),
        st.just("p"),
        st.one_of(_block(_in_loop("p")), within),
        ends,
    ),
    st.builds(
        _while,
        starts,
        st.one_of(sizes, sizes_of_two),
        st.just("p"),
        st.sampled_from(("<", "<", "<", "<=")),
        st.one_of(_block(_in_loop("p")), within),
        ends,
        st.sampled_from(("", "", "", "counted before", "left amid")),
    ),
)

statements = st.recursive(
    st.one_of(plain, loops, plain),
    lambda inner: st.one_of(
        st.builds(_if, conditions, _block(inner), st.one_of(st.just([]), _block(inner))),
        st.builds(_if, guards, _block(inner), st.just([])),
    ),
    max_leaves=4,
)
programs = st.builds(
    lambda before, first, rest: [*before, *first, *rest],
    st.one_of(st.just([]), st.just([]), leaving),
    statements,
    st.one_of(st.just([]), statements),
)
