"""A kernel that is kept on disk; in a file of its own, as caches look at a kernel's file."""

from typing import Any

import numpy as np


def run(cuda: Any) -> None:
    """Compile or load it, launch it and look at what it made."""

    @cuda.jit(cache=True)
    def saxpy(a, x, y, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a * x[i] + y[i]

    x = cuda.to_device(np.ones(64, np.float32))
    out = cuda.device_array(64, np.float32)
    saxpy[1, 64](np.float32(2), x, x, out)
    assert (out.copy_to_host() == 3).all()
