"""CuPy: kernels in CUDA C by RawKernel, memory from its pool."""

from typing import Any

import cupy
import numpy as np

from benchmarks.gpu import kernels


def about() -> str:
    """The version."""
    return f"CuPy {cupy.__version__}"


def offers() -> dict[str, Any]:
    """See `measures`."""
    module = cupy.RawModule(code=kernels.SOURCE)
    ones = [cupy.ones(64, np.float32) for _ in range(8)]
    counter = iter(range(1_000_000))

    def launch(count: int) -> Any:
        kernel, arrays = module.get_function(f"of_{count}"), tuple(ones[:count])
        return lambda: kernel((1,), (64,), arrays)

    def saxpy(n: int) -> Any:
        x, y, out = (cupy.ones(n, np.float32) for _ in range(3))
        kernel, grid = module.get_function("saxpy"), (-(-n // kernels.BLOCK),)
        arguments = (np.float32(2), x, y, out, np.int64(n))
        return lambda: kernel(grid, (kernels.BLOCK,), arguments)

    def transpose(n: int) -> Any:
        x, out = cupy.ones((n, n), np.float32), cupy.ones((n, n), np.float32)
        kernel, blocks = module.get_function("transpose"), n // kernels.TILE
        grid, block = (blocks, blocks), (kernels.TILE, kernels.ROWS)
        return lambda: kernel(grid, block, (x, out, np.int32(n)))

    def reduction(n: int) -> Any:
        x, sums = cupy.ones(n, np.float32), cupy.ones(4096, np.float32)
        kernel = module.get_function("reduction")
        return lambda: kernel((4096,), (kernels.BLOCK,), (x, sums, np.int64(n)))

    def stencil(n: int) -> Any:
        u, out = cupy.ones((n, n), np.float32), cupy.ones((n, n), np.float32)
        kernel, grid = module.get_function("stencil"), (-(-n // 64), -(-n // 4))
        return lambda: kernel(grid, (64, 4), (u, out, np.int32(n)))

    def pinned(nbytes: int) -> Any:
        memory = cupy.cuda.alloc_pinned_memory(nbytes)
        return np.frombuffer(memory, np.uint8, nbytes)

    def fresh() -> Any:
        code = kernels.SOURCE.replace("4 * u[i]", f"4 * u[i] + {next(counter)}")
        x = ones[0]

        def work() -> None:
            kernel = cupy.RawKernel(code, "saxpy")
            kernel((1,), (64,), (np.float32(2), x, x, x, np.int64(64)))

        return work

    return {
        "synchronize": cupy.cuda.get_current_stream().synchronize,
        **{f"launch-{count}": launch(count) for count in (0, 1, 3, 8)},
        "empty": lambda nbytes: cupy.empty(nbytes, np.uint8),
        "pinned": pinned,
        "upload": lambda host, array: array.set(host),
        "download": lambda array, host: array.get(out=host),
        "duplicate": lambda source, target: cupy.copyto(target, source),
        "saxpy": saxpy,
        "transpose": transpose,
        "reduction": reduction,
        "stencil": stencil,
        "compile": fresh,
    }
