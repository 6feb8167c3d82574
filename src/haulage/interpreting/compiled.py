"""Words that make numbers of numbers, asked of compiled code: so a function of libdevice gives in
the debugger what it gives in the kernel, to the last bit."""

from typing import Any

import numpy as np

from haulage import forks
from haulage.interpreting.numbers import number, plain_of
from haulage.interpreting.threads import Grid, Thread
from haulage.lang.word import Word
from haulage.platforms import current_target
from haulage.runtime.arrays.keys import TUPLE

# Modules whose words make numbers of numbers, whichever thread says them.
_OF_NUMBERS = ("haulage.lang.math", "haulage.lang.half", "haulage.lang.libdevice")

# By the word, the types of the arguments and the lanes of a warp: the kernel, and the dtypes of its
# results.
_known: dict[Any, tuple[Any, list[Any], bool]] = {}
_lock = forks.lock()


def is_of_numbers(word: Word) -> bool:
    """Whether a word makes numbers of numbers."""
    return word.build.__module__.startswith(_OF_NUMBERS)


def call(thread: Thread, word: Word, args: tuple[Any, ...]) -> Any:
    """What a word gives for numbers.

    Raises:
        CompileError: it takes no such arguments.
    """
    values = [plain_of(number(each)) for each in args]
    grid = thread.block.grid
    key = word, tuple(np.asarray(each).dtype.str for each in values), grid.warp_size
    with _lock:
        if key not in _known:
            _known[key] = _made(word, values, grid)
    kernel, dtypes, is_tuple = _known[key]
    rooms = [np.zeros(1, dtype) for dtype in dtypes]
    kernel[1, 1](*rooms, *values)
    results = tuple(number(room[0]) for room in rooms)
    return results if is_tuple else results[0]


def _made(word: Word, values: list[Any], grid: Grid) -> tuple[Any, list[Any], bool]:
    from haulage import numba_bridge
    from haulage.compiler import frontend

    given = ", ".join(f"a{n}" for n in range(len(values)))
    space: dict[str, Any] = {"word": word}
    exec(f"def of({given}):\n    return word({given})", space)
    kinds = tuple(numba_bridge.any_type(value) for value in values)
    target = current_target(grid.warp_size)
    result = numba_bridge.key_of(
        frontend.result_type(space["of"], kinds, target, word.__qualname__)
    )
    is_tuple = result[0] == TUPLE
    dtypes = [each[1] for each in (result[1] if is_tuple else [result])]
    rooms = [f"r{n}" for n in range(len(dtypes))]
    targets = ", ".join(f"{room}[0]" for room in rooms)
    parameters = ", ".join([*rooms, *given.split(", ")] if given else rooms)
    exec(f"def call({parameters}):\n    {targets} = word({given})", space)
    return grid.alike(space["call"]), dtypes, is_tuple
