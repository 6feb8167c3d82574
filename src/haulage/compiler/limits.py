"""How many bytes of local arrays a thread can have, the same check for all targets."""

from collections import Counter

from haulage.compiler.frontend.quoting import quoted
from haulage.errors import CompileError
from haulage.targets.base import Target

# File, line and bytes of an array.
LocalArray = tuple[str, int, int]

# Of many arrays, the largest ones are shown.
_SHOWN = 4


def check_local(what: str, nbytes: int, arrays: tuple[LocalArray, ...], target: Target) -> None:
    """See that a kernel or a function has no more bytes of local arrays than a thread can have.

    Args:
        what: as in "kernel saxpy".
        nbytes: of the arrays in its code, so far as that is made.
        arrays: those in the program, its own and those of functions that it calls.

    Raises:
        CompileError: it has more.
    """
    if nbytes <= target.most_local:
        return
    places: Counter[tuple[str, int]] = Counter()
    for filename, line, each in arrays:
        places[filename, line] += each
    lines = [f"{what} cannot be compiled"]
    for (filename, line), each in places.most_common(_SHOWN):
        lines.append(f"  in {filename}:{line}: {each} bytes")
        lines += quoted(filename, line)
    lines.append(
        f"{what} has {nbytes} bytes of local arrays for each thread; {target.called} has "
        f"{target.most_local} for a thread: take smaller arrays, or give the kernel an array of "
        "the device with a part for each thread"
    )
    raise CompileError("\n".join(lines))
