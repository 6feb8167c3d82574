"""Whose words a kernel speaks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary: what its kernels take for granted.

    `warp_size` is the number of lanes of a warp, `usual_block` the threads of a block where nobody
    said how many, `maker` whose kernels Numba's errors call them.
    """

    name: str
    warp_size: int
    usual_block: int
    maker: str


CUDA = Vocabulary("cuda", 32, 256, "CUDA")
ROC = Vocabulary("roc", 64, 64, "HSA")

VOCABULARIES = {each.name: each for each in (CUDA, ROC)}
