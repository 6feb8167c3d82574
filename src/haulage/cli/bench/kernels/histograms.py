"""Histograms of bytes by atomic words."""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np

from haulage import cuda
from haulage.cli.bench.kernels.made import jit
from haulage.cuda import int32

BINS = 256
BLOCKS = 64


@jit
def histogram_shared(data, counts):
    """Each block counts in shared memory, then adds what it has to all counts."""
    mine = cuda.shared.array(BINS, int32)
    t = cuda.threadIdx.x
    mine[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), data.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, data[i], 1)
    cuda.syncthreads()
    cuda.atomic.add(counts, t, mine[t])


@jit
def histogram_global(data, counts):
    """Each thread counts one byte in global memory."""
    i = cuda.grid(1)
    if i < data.size:
        cuda.atomic.add(counts, data[i], 1)


def _histogram(kernel: Any, grid: int | None) -> Any:
    def setup(given: Any) -> Any:
        data = cuda.to_device(given["data"])
        zeros = np.zeros(BINS, np.int32)
        counts = cuda.to_device(zeros)
        launch = kernel[grid or -(-data.size // BINS), BINS]

        def run() -> None:
            counts.copy_to_device(zeros)
            launch(data, counts)
            cuda.synchronize()

        return run, counts.copy_to_host

    return setup


SETUPS = {
    "histogram-shared": _histogram(histogram_shared, BLOCKS),
    "histogram-global": _histogram(histogram_global, None),
}
