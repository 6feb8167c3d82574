"""What a user can ask of a compilation."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """How a function is compiled; part of every key that compiled code is found by.

    `fastmath`: False, True (all of LLVM's fast-math flags) or a frozenset of flag names. As on
    CUDA, products and sums are contracted into fused operations unless told otherwise.
    `debug`: division by zero is an error, and a thread that fails tells where it stands.
    """

    fastmath: bool | frozenset[str] = False
    debug: bool = False
