"""PyTorch: allocation and copies; its kernels are a library's."""

from typing import Any

import numpy as np
import torch


def about() -> str:
    """The version."""
    return f"PyTorch {torch.__version__}"


def offers() -> dict[str, Any]:
    """See `measures`."""
    device = torch.device("cuda")

    def upload(host: Any, array: Any) -> None:
        array.copy_(torch.from_numpy(host))
        torch.cuda.synchronize()

    def download(array: Any, host: Any) -> None:
        torch.from_numpy(host).copy_(array)
        torch.cuda.synchronize()

    def pinned(nbytes: int) -> Any:
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True).numpy()

    def stencil(n: int) -> Any:
        u, out = (torch.ones((n, n), device=device) for _ in range(2))

        def work() -> None:
            middle = u[1:-1, 1:-1]
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            out[1:-1, 1:-1] = middle + np.float32(0.1) * (around - 4 * middle)

        return work

    def saxpy(n: int) -> Any:
        x, y, out = (torch.ones(n, device=device) for _ in range(3))
        return lambda: torch.add(y, x, alpha=2, out=out)

    def reduction(n: int) -> Any:
        x = torch.ones(n, device=device)
        return lambda: torch.sum(x)

    def transpose(n: int) -> Any:
        x, out = (torch.ones((n, n), device=device) for _ in range(2))
        return lambda: out.copy_(x.T)

    return {
        "synchronize": torch.cuda.synchronize,
        "empty": lambda nbytes: torch.empty(nbytes, dtype=torch.uint8, device=device),
        "pinned": pinned,
        "upload": upload,
        "download": download,
        "duplicate": lambda source, target: target.copy_(source),
        "saxpy": saxpy,
        "transpose": transpose,
        "reduction": reduction,
        "stencil": stencil,
    }
