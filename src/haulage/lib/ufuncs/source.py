"""The kernels behind ufuncs, as Python source: one for each number and kind of arguments."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from haulage.lang.elements import as_array
from haulage.lang.index import blockDim, blockIdx, grid, threadIdx

# Unsigned, as Numba lets negative indices count from the end, which costs a test of each.
_WORDS = {
    "grid": grid,
    "blockIdx": blockIdx,
    "blockDim": blockDim,
    "threadIdx": threadIdx,
    "as_array": as_array,
    "wide": np.uint64,
}

# How an operand of `strided` is walked along the last axis.
NUMBER, UNIT, REPEATED, ANY = "number", "unit", "repeated", "any"


def plain(scalars: Sequence[bool], converted: Sequence[bool]) -> str:
    """A kernel `out[i] = core(a0[i], ...)` for arrays without gaps, a thread for each element.

    Args:
        scalars: for each input, whether it is a number instead of an array.
        converted: for each input and the result, whether to call `to0`, `to1` ... on it.
    """
    inputs = [f"a{number}" for number in range(len(scalars))]
    values = [
        name if scalar else f"{name}[i]" for name, scalar in zip(inputs, scalars, strict=True)
    ]
    store = f"    out[i] = {_result(values, converted)}"
    # Blocks that are whole need no mask on each element, which doubles the speed.
    return _function(
        [*inputs, "out"],
        [
            "i = grid(1)",
            "if (blockIdx.x + 1) * blockDim.x <= out.shape[0]:",
            store,
            "elif i < out.shape[0]:",
            store,
        ],
    )


def strided(walks: Sequence[str], axes: int, converted: Sequence[bool]) -> str:
    """The same for arrays with any strides.

    Its arguments are the blocks in a row, the sizes of the axes, and for each input and the output
    the number, or the memory as an array with one axis and a tuple: the place of the first element
    and the steps along the axes, in elements. A row of blocks is for one place along all axes but
    the last, so that only whole blocks divide.

    Args:
        walks: `NUMBER` or how the array is walked along the last axis, inputs first.
        axes: of all arrays.
        converted: as for `plain`.
    """
    last = axes - 1
    names = [*(f"a{number}" for number in range(len(walks) - 1)), "out"]
    parameters = ["across", "sizes"]
    rows = []
    places = []
    for name, walk in zip(names, walks, strict=True):
        parameters += [name] if walk == NUMBER else [name, f"steps_{name}"]
        terms = [f"steps_{name}[0]"]
        terms += [f"i{axis} * steps_{name}[{axis + 1}]" for axis in range(last)]
        along = {UNIT: f" + i{last}", ANY: f" + i{last} * steps_{name}[{axes}]"}.get(walk, "")
        if walk != NUMBER:
            rows.append(f"row_{name} = {' + '.join(terms)}")
        places.append(name if walk == NUMBER else f"{name}[row_{name}{along}]")
    store = f"    {places[-1]} = {_result(places[:-1], converted)}"
    in_rows = "i0 < sizes[0] and " if last else ""
    unravel = [
        "rest = block // across * wide(blockDim.y) + wide(threadIdx.y)",
        *_taken_apart([f"sizes[{axis}]" for axis in range(last)]),
    ]
    return _function(
        parameters,
        [
            "block = wide(blockIdx.x)",
            "width = wide(blockDim.x)",
            "column = block % across * width",
            f"i{last} = column + wide(threadIdx.x)",
            *(unravel if last else []),
            *rows,
            f"if {in_rows}column + width <= sizes[{last}]:",
            store,
            f"elif {in_rows}i{last} < sizes[{last}]:",
            store,
        ],
    )


def _result(values: Sequence[str], converted: Sequence[bool]) -> str:
    values = [
        f"to{number}({value})" if converted[number] else value
        for number, value in enumerate(values)
    ]
    result = f"core({', '.join(values)})"
    return f"to{len(values)}({result})" if converted[-1] else result


def folded(runs: int, converted: Sequence[bool]) -> str:
    """A kernel `out[i] = core(...core(core(x0, x1), x2)...)` of a share of neighbours for each i.

    Its arguments are the elements of a share, the array and `out`. A long share is folded as
    `runs` pieces side by side, as a processor that waits for one result can work on the others;
    the pieces follow one another, so that the order of the operands stays.

    Args:
        runs: at least 2.
        converted: as for `plain`, of two inputs.
    """

    def step(one: str, other: str) -> str:
        return f"{one} = {_result([one, other], converted)}"

    names = [f"v{run}" for run in range(runs)]
    return _function(
        ["share", "x", "out"],
        [
            "i = wide(grid(1))",
            "if i < out.shape[0]:",
            "    start = i * share",
            "    end = min(start + share, wide(x.shape[0]))",
            f"    run = (end - start) // wide({runs})",
            "    if run:",
            *(f"        {name} = x[start + run * wide({n})]" for n, name in enumerate(names)),
            "        for k in range(start + wide(1), start + run):",
            *(
                f"            {step(name, f'x[k + run * wide({n})]')}"
                for n, name in enumerate(names)
            ),
            *(f"        {step('v0', name)}" for name in names[1:]),
            f"        start += run * wide({runs})",
            "    else:",
            "        v0 = x[start]",
            "        start += wide(1)",
            "    for k in range(start, end):",
            f"        {step('v0', 'x[k]')}",
            "    out[i] = v0",
        ],
    )


def generalised(axes: int, cores: Sequence[int | None]) -> str:
    """A kernel `core(a0[i, ...], ..., out0[i, ...])`, a thread for each place of the loop.

    Args:
        axes: of the loop, the first ones of all arrays.
        cores: for each argument how many axes of it the core gets; 0 is an array with one element,
            None the element itself.
    """
    names = [f"a{number}" for number in range(len(cores))]
    places = ["i"] if axes == 1 else [f"i{axis}" for axis in range(axes)]
    parts = []
    for name, core in zip(names, cores, strict=True):
        place = ", ".join(places)
        rest = ", :" * (core or 0)
        parts.append(f"as_array({name}, ({place}))" if core == 0 else f"{name}[{place}{rest}]")
    unravel = (
        []
        if axes == 1
        else ["rest = i", *_taken_apart([f"wide(a0.shape[{axis}])" for axis in range(axes)])]
    )
    inner = [f"    {line}" for line in [*unravel, f"core({', '.join(parts)})"]]
    # As in `plain`; what has loops of its own is not widened across threads.
    whole = ["if (wide(blockIdx.x) + wide(1)) * wide(blockDim.x) <= count:", *inner, "elif"]
    start = ["if"] if any(cores) else whole
    lines = [*start[:-1], f"{start[-1]} i < count:", *inner]
    return _function(["count", *names], ["i = wide(grid(1))", *lines])


def function(
    source: str, core: Any, conversions: Mapping[str, Any], name: str
) -> Callable[..., Any]:
    """The Python function of a source, which calls `core`; `name` is what messages call it."""
    names: dict[str, Any] = {**_WORDS, **conversions, "core": core}
    exec(source, names)
    made: Callable[..., Any] = names["kernel"]
    made.__qualname__ = name
    return made


def _taken_apart(sizes: Sequence[str]) -> list[str]:
    """Lines that make indices of `rest`, their place in C order among axes of these sizes."""
    lines = []
    for axis in range(len(sizes) - 1, 0, -1):
        lines += [f"i{axis} = rest % {sizes[axis]}", f"rest //= {sizes[axis]}"]
    return [*lines, "i0 = rest"]


def _function(parameters: Sequence[str], lines: Sequence[str]) -> str:
    return "\n    ".join([f"def kernel({', '.join(parameters)}):", *lines]) + "\n"
