"""NVIDIA's Warp."""

# mypy: disable-error-code="no-untyped-def"
from functools import partial
from typing import Any

import warp as wp

from benchmarks.gpu import problems

wp.config.quiet = True
DEVICE = "cuda:0"


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
def of_8(
    a: wp.array(dtype=float),
    b: wp.array(dtype=float),
    c: wp.array(dtype=float),
    d: wp.array(dtype=float),
    e: wp.array(dtype=float),
    f: wp.array(dtype=float),
    g: wp.array(dtype=float),
    h: wp.array(dtype=float),
):
    pass


@wp.kernel
def _saxpy(
    a: float, x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float)
):
    i = wp.tid()
    out[i] = a * x[i] + y[i]


def offers() -> dict[str, Any]:
    """See `measures`."""
    device = wp.get_device(DEVICE)
    ones = [wp.ones(64, dtype=float, device=device) for _ in range(8)]
    kernels = {0: of_0, 1: of_1, 3: of_3, 8: of_8}

    def launch(count: int) -> Any:
        arrays, kernel = ones[:count], kernels[count]
        return lambda: wp.launch(kernel, dim=64, inputs=arrays, device=device)

    def saxpy(*given: Any) -> Any:
        x, y = (wp.array(each, dtype=float, device=device) for each in given)
        out, factor = wp.zeros_like(x), float(problems.FACTOR)
        inputs = [factor, x, y, out]
        return lambda: wp.launch(_saxpy, dim=x.size, inputs=inputs, device=device), out.numpy

    def on_host(host: Any) -> Any:
        return wp.array(host, dtype=wp.uint8, device="cpu", copy=False)

    def duplicate(source: Any, target: Any) -> None:
        wp.copy(target, source)

    def upload(host: Any, array: Any) -> None:
        wp.copy(array, on_host(host))
        wp.synchronize_device(device)

    def download(array: Any, host: Any) -> None:
        wp.copy(on_host(host), array)
        wp.synchronize_device(device)

    return {
        "synchronize": lambda: wp.synchronize_device(device),
        **{f"launch-{count}": partial(launch, count) for count in kernels},
        "empty": lambda nbytes: wp.empty(nbytes, dtype=wp.uint8, device=device),
        "pinned": lambda nbytes: wp.empty(
            nbytes, dtype=wp.uint8, device="cpu", pinned=True
        ).numpy(),
        "upload": upload,
        "download": download,
        "duplicate": duplicate,
        "saxpy": saxpy,
    }
