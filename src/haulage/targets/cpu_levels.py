"""The levels of x86-64 that code can be made for instead of the processor at hand.

Source: System V ABI, AMD64 supplement, 3.1.1.
"""

from collections.abc import Mapping

_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")

# Level -> what LLVM calls the instruction sets that it adds to those of every x86-64.
LEVELS: dict[str, tuple[str, ...]] = {
    "x86-64": (),
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
}


def features(level: str) -> str:
    """A level's instruction sets as LLVM takes them."""
    # LLVM keeps to 256-bit vectors on AVX-512 processors unless told otherwise.
    wide = ["-prefer-256-bit"] if level == "x86-64-v4" else []
    return ",".join([*(f"+{name}" for name in LEVELS[level]), *wide])


def missing(level: str, present: Mapping[str, bool]) -> list[str]:
    """Instruction sets of a level that a processor lacks, which has those of `present`."""
    return [name for name in LEVELS[level] if not present.get(name)]
