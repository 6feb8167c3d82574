"""The version of PTX in which a text says that it is written."""

import re

# Kernels take more arguments since version 8.1, of CUDA 12.1's driver.
_FEW_BYTES = 4352
_OF_MANY = (8, 1)

_VERSION = re.compile(r"(?m)^\.version (\d+)\.(\d+)$")


def for_arguments(asm: str, nbytes: int) -> str:
    """The text, of a version in which a kernel can take `nbytes` of arguments."""
    said = _VERSION.search(asm)
    assert said is not None, asm[:200]
    if nbytes <= _FEW_BYTES or (int(said[1]), int(said[2])) >= _OF_MANY:
        return asm
    return _VERSION.sub(".version {}.{}".format(*_OF_MANY), asm, count=1)
