"""Random functions with parameters of all kinds, and random calls of them, right and wrong.

A function's result tells the value of each of its parameters. The text is the same for Python and
for a kernel.
"""

import inspect
import itertools
import textwrap
from typing import NamedTuple

from haulage import cuda

_KINDS = inspect.Parameter
# What a parameter takes: a number, a number or None, or a pair of numbers.
_DEFAULTS = {"number": ("4", "6"), "maybe": ("None", "8"), "pair": ("(1, 2)", "(5, 3)")}
_TERMS = {
    "number": "{name}",
    "maybe": "(9 if {name} is None else {name})",
    "pair": "{name}[0] + 3 * {name}[1]",
    "rest": "7 * len({name}) + items(*{name})",
}

# Functions may call it with what they have in `*rest`.
ITEMS = "def items(a=4, b=5, *more):\n    return a + 3 * b + len(more)\n"


class Function(NamedTuple):
    """Its `text`, and its name and parameters; `sorts` is what each parameter takes."""

    name: str
    parameters: list[inspect.Parameter]
    sorts: dict[str, str]
    text: str


def function(random, name, *, inner=False):
    """A random function; an inner one has no defaults for keyword-only parameters, as the kernel
    language has none."""
    names = iter("abcdefghij")
    parameters, sorts = [], {}
    optional = False

    def add(kind, may_default):
        nonlocal optional
        each = next(names)
        sorts[each] = random.choice(list(_DEFAULTS))
        default = inspect.Parameter.empty
        if may_default and (optional or random.random() < 0.4):
            default = _Text(random.choice(_DEFAULTS[sorts[each]]))
            optional = kind is not _KINDS.KEYWORD_ONLY
        parameters.append(inspect.Parameter(each, kind, default=default))

    for _ in range(random.randrange(3)):
        add(_KINDS.POSITIONAL_ONLY, True)
    for _ in range(random.randrange(3)):
        add(_KINDS.POSITIONAL_OR_KEYWORD, True)
    if random.random() < 0.5:
        parameters.append(inspect.Parameter("rest", _KINDS.VAR_POSITIONAL))
        sorts["rest"] = "rest"
    optional = False
    for _ in range(random.randrange(3)):
        add(_KINDS.KEYWORD_ONLY, not inner)
        optional = False
    terms = [
        f"{100**place} * ({_TERMS[sorts[each.name]].format(name=each.name)})"
        for place, each in enumerate(parameters)
    ]
    head = f"def {name}{inspect.Signature(parameters)}:\n"
    return Function(name, parameters, sorts, f"{head}    return {' + '.join(['0', *terms])}\n")


def call(random, of):
    """The text of a random call, which Python may refuse."""
    by_position = [each for each in of.parameters if each.kind < _KINDS.VAR_POSITIONAL]
    named = [
        each
        for each in of.parameters
        if each.kind in (_KINDS.POSITIONAL_OR_KEYWORD, _KINDS.KEYWORD_ONLY)
    ]
    count = random.randrange(len(by_position) + 1)
    args = [_value(random, of.sorts[each.name]) for each in by_position[:count]]
    if count == len(by_position) and (of.sorts.get("rest") or random.random() < 0.1):
        args += [_value(random, "number") for _ in range(random.randrange(1, 4))]
    given = [each for each in named if each not in by_position[:count] and random.random() < 0.8]
    keywords = [f"{each.name}={_value(random, of.sorts[each.name])}" for each in given]
    if random.random() < 0.1:
        keywords.append(f"zz={_value(random, 'number')}")
    if by_position and random.random() < 0.1:
        each = random.choice(by_position)
        if each not in given:
            keywords.append(f"{each.name}={_value(random, of.sorts[each.name])}")
    random.shuffle(keywords)
    if args and not keywords and random.random() < 0.3:
        args = [f"*({', '.join(args)},)"]
    return f"{of.name}({', '.join([*args, *keywords])})"


def _value(random, sort):
    if sort == "pair":
        return f"({random.randrange(10)}, {random.randrange(10)})"
    return str(random.randrange(10))


def expected(texts, calls, names=()):
    """What Python makes of each call of the functions in `texts`: its result or its TypeError."""
    known = dict(names)
    exec(ITEMS + "".join(texts), known)

    def one(each):
        try:
            return eval(each, known)
        except TypeError as error:
            return error

    return [one(each) for each in calls]


def kernel(texts, calls, makers):
    """A kernel that writes the result of each call to the array that it is given.

    `makers` make functions for kernels of Python's, one after another; None: they are defined in
    the kernel, inside an inner function.
    """
    known = {"cuda": cuda}
    lines = "".join(f"out[{place}] = {each}\n" for place, each in enumerate(calls))
    if makers is None:
        body = "".join([ITEMS, *texts, lines])
        lines = f"def inside(out):\n{textwrap.indent(body, '    ')}\ninside(out)\n"
    else:
        for text, make in zip([ITEMS, *texts], itertools.cycle(makers)):
            made = {}
            exec(text, known, made)
            known |= {name: make(each) for name, each in made.items()}
    exec("def program(out):\n" + textwrap.indent(lines, "    "), known)
    return cuda.jit(known["program"])


class _Text(str):
    __repr__ = str.__str__
