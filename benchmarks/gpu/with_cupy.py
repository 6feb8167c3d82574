"""CuPy: kernels in CUDA C by RawKernel, memory from its pool."""

from functools import cache, partial
from typing import Any

import cupy
import numpy as np

from benchmarks.gpu import kernels, problems


def about() -> str:
    """The version."""
    return f"CuPy {cupy.__version__}"


def offers() -> dict[str, Any]:
    """See `measures`."""
    synchronize = cupy.cuda.get_current_stream().synchronize
    ones = [cupy.ones(64, np.float32) for _ in range(8)]
    counter = iter(range(1_000_000))

    @cache
    def function(name: str) -> Any:
        return cupy.RawModule(code=kernels.SOURCE).get_function(name)

    def launch(count: int) -> Any:
        kernel, arrays = function(f"of_{count}"), tuple(ones[:count])
        return lambda: kernel((1,), (64,), arrays)

    def there(*given: Any) -> Any:
        """They on the device, and an array for what is made of them."""
        return *map(cupy.asarray, given), cupy.asarray(np.zeros_like(given[0]))

    def saxpy(*given: Any) -> Any:
        x, y, out = there(*given)
        kernel, grid = function("saxpy"), (-(-x.size // kernels.BLOCK),)
        arguments = (np.float32(problems.FACTOR), x, y, out, np.int64(x.size))
        return lambda: kernel(grid, (kernels.BLOCK,), arguments), out.get

    def transpose(given: Any) -> Any:
        x, out = there(given)
        kernel, n = function("transpose"), len(given)
        grid, block = (n // kernels.TILE,) * 2, (kernels.TILE, kernels.ROWS)
        return lambda: kernel(grid, block, (x, out, np.int32(n))), out.get

    def reduction(given: Any) -> Any:
        x, sums = cupy.asarray(given), cupy.asarray(np.zeros(kernels.SUMS, np.float32))
        kernel, arguments = function("reduction"), (x, sums, np.int64(x.size))
        return lambda: kernel((kernels.SUMS,), (kernels.BLOCK,), arguments), sums.get

    def stencil(given: Any) -> Any:
        u, out = there(given)
        kernel, n = function("stencil"), len(given)
        grid = -(-n // 64), -(-n // 4)
        return lambda: kernel(grid, (64, 4), (u, out, np.int32(n))), out.get

    def upload(host: Any, array: Any) -> None:
        array.set(host)
        synchronize()

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
        "synchronize": synchronize,
        **{f"launch-{count}": partial(launch, count) for count in (0, 1, 3, 8)},
        "empty": lambda nbytes: cupy.empty(nbytes, np.uint8),
        "pinned": pinned,
        "upload": upload,
        "download": lambda array, host: array.get(out=host),
        "duplicate": lambda source, target: cupy.copyto(target, source),
        "saxpy": saxpy,
        "transpose": transpose,
        "reduction": reduction,
        "stencil": stencil,
        "compile": fresh,
        "trim": cupy.get_default_memory_pool().free_all_blocks,
    }
