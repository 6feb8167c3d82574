"""Whose words a kernel speaks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary: what its kernels take for granted.

    `warp_size` is the number of lanes of a warp, `usual_block` the threads of a block where nobody
    said how many.
    """

    name: str
    warp_size: int
    usual_block: int


CUDA = Vocabulary("cuda", 32, 256)
ROC = Vocabulary("roc", 64, 64)

VOCABULARIES = {each.name: each for each in (CUDA, ROC)}
