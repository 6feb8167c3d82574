"""The passes of the CPU compiler, in the order in which they run, and which of them are on.

`pipeline.py` runs them. Each is known by its name: `HAULAGE_CPU_PASSES=-name,-name` switches some
off, `haulage.compile(f, signature).stages` has what each one left, and docs/blocks-on-the-cpu.md is
ordered by this list.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Pass:
    """One step: what it does, in one sentence, and where the idea comes from.

    `needs` are analyses that it asks for, `keeps` those that hold after it as before; `stage` is
    the folder that it stands in. One that is `required` cannot be switched off: without it the
    code would be wrong, or there would be none.
    """

    name: str
    stage: str
    summary: str
    source: str
    needs: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ("control flow", "uniformity")
    required: bool = False


_ALLEN = "Allen and Kennedy, Optimizing Compilers for Modern Architectures (2001)"
_KARRENBERG = "Karrenberg and Hack, Whole-Function Vectorization (CGO 2011)"
_POCL = "Jaaskelainen et al., pocl: A Performance-Portable OpenCL Implementation (IJPP 2015)"

PASSES: tuple[Pass, ...] = (
    Pass(
        "block-atomics",
        "loops",
        "Atomic operations on the block's own memory become a load, an operation and a store.",
        "one thread of the system runs a whole block, so nobody else sees that memory",
        needs=("memory roots",),
    ),
    Pass(
        "privatized-reductions",
        "loops",
        "Arrays that a kernel only adds to get a copy for each chunk of blocks, merged at its end.",
        f"array privatisation; {_ALLEN}, chapter 5",
        needs=("memory roots",),
    ),
    Pass(
        "early-exits",
        "analysis",
        "Threads that leave for good are masked, and the others go on in step.",
        "exit masks of ispc; Pharr and Mark, ispc (InPar 2012)",
        needs=("control flow",),
        keeps=("control flow",),
        required=True,
    ),
    Pass(
        "axis-order",
        "loops",
        "The work-item loops are nested so that the innermost goes along neighbours in memory.",
        f"loop permutation for locality; {_ALLEN}, chapter 9",
        needs=("affine forms",),
    ),
    Pass(
        "grid-stride-loops",
        "loops",
        "A loop by the size of the grid becomes one that all threads are in, and the rest.",
        f"loop peeling; {_ALLEN}, chapter 5",
        needs=("loops", "uniformity", "affine forms"),
        keeps=(),
    ),
    Pass(
        "block-coalescing",
        "loops",
        "Blocks that follow one another along an axis are run as one wide block.",
        "thread coarsening; Magni, Dubach and O'Boyle (PACT 2014)",
        needs=("affine forms", "value ranges"),
    ),
    Pass(
        "vector-divisions",
        "loops",
        "Divisions of integers become calls of functions that divide vectors by way of doubles.",
        "Warren, Hacker's Delight (2012), chapter 10, and compiler/mathematics/divisions.py",
        needs=("value ranges", "uniformity"),
    ),
    Pass(
        "division-speculation",
        "loops",
        "Integer divisions that are the same for all lanes are made without their condition.",
        f"speculative code motion; {_ALLEN}, chapter 5; LLVM's vectoriser predicates them wrongly",
        needs=("dominators", "uniformity"),
        keeps=("control flow", "uniformity"),
        required=True,
    ),
    Pass(
        "warp-collectives",
        "work_items",
        "Shuffles, votes and matches become a store, the end of a region, and a load.",
        "Han et al., COX: Exposing CUDA Warp-level Functions to CPUs (TACO 2022)",
        needs=("uniformity",),
        keeps=(),
        required=True,
    ),
    Pass(
        "kernel-vectorization",
        "vectorize",
        "A kernel without barriers, whose threads leave loops at different times, is written on "
        "masked vectors as a whole.",
        _KARRENBERG,
        needs=("loops", "uniformity", "affine forms"),
    ),
    Pass(
        "loop-interchange",
        "loops",
        "Uniform loops are interchanged with the work-item loop where that is the cheapest order.",
        f"loop interchange; {_ALLEN}, chapter 5; pocl's b-loops",
        needs=("loops", "uniformity", "affine forms"),
    ),
    Pass(
        "guard-fission",
        "regions",
        "Regions begin at bounds checks and end behind what these guard.",
        "loop fission, so that a check becomes the bounds of a loop",
        needs=("dominators", "uniformity"),
    ),
    Pass(
        "strip-mining",
        "loops",
        "Uniform loops that carry values run for strips of threads whose values fit registers.",
        f"strip-mine and interchange; {_ALLEN}, chapter 9",
        needs=("loops", "affine forms"),
    ),
    Pass(
        "region-vectorization",
        "vectorize",
        "Regions with loops that threads leave at different times are written on masked vectors.",
        _KARRENBERG,
        needs=("loops", "uniformity", "affine forms"),
    ),
    Pass(
        "region-fission",
        "regions",
        "The kernel is split at its barriers, and at the places found above.",
        f"parallel regions; {_POCL}",
        needs=("barriers",),
        keeps=(),
        required=True,
    ),
    Pass(
        "rematerialization",
        "regions",
        "Cheap values are computed again in a later region instead of kept in a context array.",
        "Briggs, Cooper and Torczon, Rematerialization (PLDI 1992)",
        needs=("liveness", "uniformity"),
    ),
    Pass(
        "iteration-ranges",
        "regions",
        "Bounds checks at a region's start become the bounds of its work-item loop.",
        f"index-set splitting; {_ALLEN}, chapter 5",
        needs=("affine forms", "value ranges"),
    ),
    Pass(
        "index-set-splitting",
        "regions",
        "A region whose threads a bound sends two ways gets a loop for the inside and one around.",
        f"index-set splitting; {_ALLEN}, chapter 5",
        needs=("affine forms",),
    ),
    Pass(
        "unroll-and-jam",
        "work_items",
        "A region that waits for a sum in each iteration runs for four threads side by side.",
        f"unroll-and-jam; {_ALLEN}, chapter 8",
        needs=("loops",),
    ),
    Pass(
        "scalar-regions",
        "vectorize",
        "Regions whose threads are far apart in all that they access are not vectorised.",
        "the cost model of LLVM's loop vectoriser takes gathers for cheaper than they are",
        needs=("affine forms",),
    ),
    Pass(
        "work-item-loops",
        "work_items",
        "Each region becomes a function, and the block function runs it in loops over threads.",
        f"work-item loops; {_POCL}",
        required=True,
    ),
    Pass(
        "coroutine-lowering",
        "coroutines",
        "Where threads may miss a barrier or wait for one another, each is a coroutine.",
        "LLVM's Coroutines; Moura and Ierusalimschy, Revisiting Coroutines (TOPLAS 2009)",
        required=True,
    ),
)

_BY_NAME = {each.name: each for each in PASSES}


def switched_off(setting: str) -> frozenset[str]:
    """The passes that `HAULAGE_CPU_PASSES` switches off: `-name,-name`.

    Raises:
        ValueError: a name that is none, one without `-`, or of a pass that is required.
    """
    found = [part.strip() for part in setting.split(",") if part.strip()]
    for part in found:
        each = _BY_NAME.get(part.removeprefix("-"))
        if each is None or part[0] != "-":
            raise ValueError(
                f"HAULAGE_CPU_PASSES={setting!r}: {part!r} is not '-' and the name of a pass, "
                f"which are {', '.join(_names(PASSES))}; unset it for all of them"
            )
        if each.required:
            raise ValueError(
                f"HAULAGE_CPU_PASSES={setting!r}: {each.name} is required, without it there is no "
                "code; the others can be switched off"
            )
    return frozenset(part[1:] for part in found)


def optional() -> tuple[str, ...]:
    """The names of the passes that can be switched off."""
    return _names(each for each in PASSES if not each.required)


def _names(some: Iterable[Pass]) -> tuple[str, ...]:
    return tuple(each.name for each in some)
