"""What a module that speaks numba.cuda's words offers; see `measures`."""

import subprocess
import sys
import tempfile
from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu import kernels, problems

_FRESH = """
def saxpy_{number}(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i] + {number}
"""


def offers(cuda: Any, package: str) -> dict[str, Any]:
    """Everything that is measured, with kernels made by `cuda`."""
    made = kernels.make(cuda)
    ones = [cuda.to_device(np.ones(64, np.float32)) for _ in range(8)]
    counter = iter(range(1_000_000))

    def launch(count: int) -> Any:
        arrays, kernel = ones[:count], made.launches[count]
        return lambda: kernel[1, 64](*arrays)

    def there(*given: Any) -> Any:
        """They on the device, and an array for what is made of them."""
        return *map(cuda.to_device, given), cuda.to_device(np.zeros_like(given[0]))

    def saxpy(*given: Any) -> Any:
        x, y, out = there(*given)
        a = np.float32(problems.FACTOR)
        configured = made.saxpy[-(-x.size // kernels.BLOCK), kernels.BLOCK]
        return lambda: configured(a, x, y, out), out.copy_to_host

    def transpose(given: Any) -> Any:
        x, out = there(given)
        blocks = x.shape[0] // kernels.TILE
        configured = made.transpose[(blocks, blocks), (kernels.TILE, kernels.ROWS)]
        return lambda: configured(x, out), out.copy_to_host

    def reduction(given: Any) -> Any:
        x, sums = cuda.to_device(given), cuda.to_device(np.zeros(kernels.SUMS, np.float32))
        configured = made.reduction[kernels.SUMS, kernels.BLOCK]
        return lambda: configured(x, sums), sums.copy_to_host

    def stencil(given: Any) -> Any:
        u, out = there(given)
        n = u.shape[0]
        configured = made.stencil[(-(-n // 64), -(-n // 4)), (64, 4)]
        return lambda: configured(u, out), out.copy_to_host

    def matmul(*given: Any) -> Any:
        a, b, c = there(*given)
        blocks = a.shape[0] // kernels.SIDE
        configured = made.matmul[(blocks, blocks), (kernels.SIDE, kernels.SIDE)]
        return lambda: configured(a, b, c), c.copy_to_host

    def fresh() -> Any:
        number = next(counter)
        names: dict[str, Any] = {"cuda": cuda}
        exec(_FRESH.format(number=number), names)
        kernel = cuda.jit(names[f"saxpy_{number}"])
        x = ones[0]
        return lambda: kernel[1, 64](np.float32(2), x, x, x)

    folder = tempfile.TemporaryDirectory(prefix="haulage-bench-")

    def start() -> float:
        command = [sys.executable, "-m", "benchmarks.gpu.start", package, folder.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            words = " ".join(done.stderr.split()[-40:])
            raise RuntimeError(f"its new process ended with {done.returncode}: {words}")
        return float(done.stdout)

    return {
        "synchronize": cuda.synchronize,
        **{f"launch-{count}": partial(launch, count) for count in made.launches},
        "empty": lambda nbytes: cuda.device_array(nbytes, np.uint8),
        "pinned": lambda nbytes: cuda.pinned_array(nbytes, np.uint8),
        "upload": lambda host, array: array.copy_to_device(host),
        "download": lambda array, host: array.copy_to_host(host),
        "duplicate": lambda source, target: target.copy_to_device(source),
        "saxpy": saxpy,
        "transpose": transpose,
        "reduction": reduction,
        "stencil": stencil,
        "matmul": matmul,
        "compile": fresh,
        "start": start,
    }


def versions(*names: str) -> str:
    """The packages with their versions, in words."""
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in names)
