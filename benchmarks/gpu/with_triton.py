"""Triton, with PyTorch's arrays."""

# mypy: disable-error-code="no-untyped-def"
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl

from benchmarks.gpu import problems


def about() -> str:
    """The version."""
    return f"Triton {triton.__version__}"


@triton.jit
def of_0():
    pass


@triton.jit
def of_1(a):
    pass


@triton.jit
def of_3(a, b, c):
    pass


@triton.jit
def of_8(a, b, c, d, e, f, g, h):
    pass


@triton.jit
def _saxpy(a, x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    value = a * tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside)
    tl.store(out + i, value, mask=inside)


def offers() -> dict[str, Any]:
    """See `measures`."""
    device = torch.device("cuda")
    ones = [torch.ones(64, device=device) for _ in range(8)]
    kernels = {0: of_0, 1: of_1, 3: of_3, 8: of_8}

    def launch(count: int) -> Any:
        arrays, kernel = ones[:count], kernels[count]
        return lambda: kernel[(1,)](*arrays)

    def saxpy(*given: Any) -> Any:
        x, y = (torch.from_numpy(each).to(device) for each in given)
        out, n = torch.zeros_like(x), x.numel()
        grid, factor = (triton.cdiv(n, 1024),), float(problems.FACTOR)
        return lambda: _saxpy[grid](factor, x, y, out, n, BLOCK=1024), lambda: out.cpu().numpy()

    return {
        "synchronize": torch.cuda.synchronize,
        **{f"launch-{count}": partial(launch, count) for count in kernels},
        "saxpy": saxpy,
        "trim": torch.cuda.empty_cache,
    }
