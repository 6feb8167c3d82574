"""NVIDIA's Warp."""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
import warp as wp

wp.config.quiet = True


def about() -> str:
    """The version."""
    return f"Warp {wp.config.version}"


@wp.kernel
def of_0():
    pass


@wp.kernel
def of_1(a: wp.array(dtype=float)):
    pass


@wp.kernel
def of_3(a: wp.array(dtype=float), b: wp.array(dtype=float), c: wp.array(dtype=float)):
    pass


@wp.kernel
def _saxpy(
    a: float, x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float)
):
    i = wp.tid()
    out[i] = a * x[i] + y[i]


def offers() -> dict[str, Any]:
    """See `measures`."""
    device = wp.get_device("cuda:0")
    ones = [wp.ones(64, dtype=float, device=device) for _ in range(3)]
    kernels = {0: of_0, 1: of_1, 3: of_3}

    def launch(count: int) -> Any:
        arrays, kernel = ones[:count], kernels[count]
        return lambda: wp.launch(kernel, dim=64, inputs=arrays, device=device)

    def saxpy(n: int) -> Any:
        x, y, out = (wp.ones(n, dtype=float, device=device) for _ in range(3))
        return lambda: wp.launch(_saxpy, dim=n, inputs=[2.0, x, y, out], device=device)

    def copied(source: Any, target: Any) -> None:
        wp.copy(target, source)

    return {
        "synchronize": lambda: wp.synchronize_device(device),
        **{f"launch-{count}": launch(count) for count in kernels},
        "empty": lambda nbytes: wp.empty(nbytes, dtype=wp.uint8, device=device),
        "pinned": lambda nbytes: wp.empty(
            nbytes, dtype=wp.uint8, device="cpu", pinned=True
        ).numpy(),
        "upload": lambda host, array: array.assign(host),
        "download": lambda array, host: np.copyto(host, array.numpy()),
        "duplicate": copied,
        "saxpy": saxpy,
    }
