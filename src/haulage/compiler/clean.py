"""The first stage behind the front end: one body function, optimised but not yet widened.

What the limits of blocks and grids say about the index registers has to be known before LLVM first
looks, or the wraparound of negative indices stays in every access; and it has to happen before any
loop is widened or unrolled, or the passes behind would have nothing simple left to work on.
"""

import re
from collections.abc import Callable
from typing import Any

from haulage.compiler import dynamic_rooms, ends, llvm
from haulage.compiler.contraction import contract
from haulage.compiler.helpers import with_helpers
from haulage.compiler.mathematics.definitions import calls
from haulage.compiler.simt.analysis.kernel import KERNEL
from haulage.compiler.simt.coroutines import spin_loops
from haulage.compiler.unrolling import keep_loops, unrolled
from haulage.targets.base import REGISTER_RANGES, Target
from haulage.targets.cpu import BARRIER, GRID_BARRIER


def clean(
    text: str, entry: str, target: Target, instrument: Callable[[Any], Any] | None = None
) -> str:
    """The module of `text` with `entry` as `haulage.kernel`, inlined and optimised at level 2.

    `instrument` makes another module of it before it is optimised.

    Raises:
        NotInlined: a function that calls itself makes an array in dynamic shared memory.
    """
    with llvm.LOCK:
        # Checks tell who went round a barrier of the grid, too.
        waited = (BARRIER,) if instrument is None else (BARRIER, GRID_BARRIER)
        if not any(f"call void @{each}(" in text for each in waited):
            text = ends.forget(text, entry)
        text = keep_loops(dynamic_rooms.settle(_with_ranges(text), entry, target))
        text = with_helpers(_with_math(text, target))
        module = _parsed(text, entry)
        if instrument is not None:
            module = instrument(module)
        if spin_loops.has_loops(text):
            module = _with_yields(module, target)
        llvm.optimise(module, target, 2, widen=False)
        llvm.run_passes(module, target, "lower_switch", "instruction_namer")
        cleaned = unrolled(str(module), KERNEL, target)
        return calls(contract(cleaned, target), target)


def _parsed(text: str, entry: str) -> Any:
    """The module of `text`, in which only `entry` is left to others, as `haulage.kernel`."""
    module = llvm.parse(text)
    for function in module.functions:
        if not function.is_declaration and function.name != entry:
            function.linkage = "internal"
    for variable in module.global_variables:
        if variable.name.startswith("_ZN08NumbaEnv"):
            variable.linkage = "internal"
    module.get_function(entry).name = KERNEL
    return module


def _with_yields(module: Any, target: Target) -> Any:
    """The module, with calls in the loops in which a thread waits for another one. These are looked
    for before LLVM takes what is read there out of them."""
    copy = module.clone()
    llvm.run_passes(copy, target, "always_inliner", "sroa", "instruction_combine", "sroa")
    llvm.run_passes(copy, target, "instruction_namer")
    marked = spin_loops.marked(str(copy), KERNEL)
    return module if marked is None else llvm.parse(marked)


def _with_math(text: str, target: Target) -> str:
    names = target.math_names
    text = re.sub(r"@(\w+)(?=\()", lambda found: "@" + names.get(found[1], found[1]), text)
    # Two of Numba's names may have become one.
    seen: set[str] = set()

    def once(found: re.Match[str]) -> str:
        name = found[1]
        if name in seen:
            return ""
        seen.add(name)
        return found[0]

    return re.sub(r"(?m)^declare [^@\n]*@([\w.]+)\(.*\n", once, text)


_REGISTER = re.compile(rf"\bi32 %({'|'.join(map(re.escape, REGISTER_RANGES))})\b")


def _with_ranges(text: str) -> str:
    def limited(line: re.Match[str]) -> str:
        return _REGISTER.sub(_with_range, line[0])

    return re.sub(r"(?m)^define .*", limited, text)


def _with_range(found: re.Match[str]) -> str:
    low, high = REGISTER_RANGES[found[1]]
    return f"i32 range(i32 {low}, {high}) %{found[1]}"
