"""What a module that speaks numba.cuda's words offers; see `measures`."""

import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

from benchmarks.gpu import kernels

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

    def floats(*shape: int) -> Any:
        return cuda.to_device(np.ones(shape, np.float32))

    def saxpy(n: int) -> Any:
        x, y, out = floats(n), floats(n), floats(n)
        a, configured = np.float32(2), made.saxpy[-(-n // kernels.BLOCK), kernels.BLOCK]
        return lambda: configured(a, x, y, out)

    def transpose(n: int) -> Any:
        x, out, blocks = floats(n, n), floats(n, n), n // kernels.TILE
        configured = made.transpose[(blocks, blocks), (kernels.TILE, kernels.ROWS)]
        return lambda: configured(x, out)

    def reduction(n: int) -> Any:
        x, sums = floats(n), floats(4096)
        configured = made.reduction[4096, kernels.BLOCK]
        return lambda: configured(x, sums)

    def stencil(n: int) -> Any:
        u, out = floats(n, n), floats(n, n)
        configured = made.stencil[(-(-n // 64), -(-n // 4)), (64, 4)]
        return lambda: configured(u, out)

    def matmul(n: int) -> Any:
        a, b, c, blocks = floats(n, n), floats(n, n), floats(n, n), n // kernels.SIDE
        configured = made.matmul[(blocks, blocks), (kernels.SIDE, kernels.SIDE)]
        return lambda: configured(a, b, c)

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
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(done.stdout)

    return {
        "synchronize": cuda.synchronize,
        **{f"launch-{count}": launch(count) for count in made.launches},
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
