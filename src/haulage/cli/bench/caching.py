"""Whether compiled kernels of the benchmarks are kept on disk: set before they are imported."""

CACHE = False
