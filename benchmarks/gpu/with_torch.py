"""PyTorch: allocation and copies; its kernels are a library's."""

from typing import Any

import torch

from benchmarks.gpu import problems


def about() -> str:
    """The version."""
    return f"PyTorch {torch.__version__}"


def offers() -> dict[str, Any]:
    """See `measures`."""
    device = torch.device("cuda")
    weight = float(problems.WEIGHT)

    def upload(host: Any, array: Any) -> None:
        array.copy_(torch.from_numpy(host))
        torch.cuda.synchronize()

    def download(array: Any, host: Any) -> None:
        torch.from_numpy(host).copy_(array)
        torch.cuda.synchronize()

    def pinned(nbytes: int) -> Any:
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True).numpy()

    def there(given: Any) -> Any:
        return torch.from_numpy(given).to(device)

    def read(array: Any) -> Any:
        return lambda: array.cpu().numpy()

    def stencil(given: Any) -> Any:
        u, out = there(given), torch.zeros(given.shape, device=device)

        def work() -> None:
            middle = u[1:-1, 1:-1]
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            out[1:-1, 1:-1] = middle + weight * (around - 4 * middle)

        return work, read(out)

    def saxpy(*given: Any) -> Any:
        x, y = map(there, given)
        out = torch.zeros_like(x)
        return lambda: torch.add(y, x, alpha=problems.FACTOR, out=out), read(out)

    def reduction(given: Any) -> Any:
        x, total = there(given), torch.zeros((), device=device)
        return lambda: torch.sum(x, dim=0, out=total), read(total)

    def transpose(given: Any) -> Any:
        x = there(given)
        out = torch.zeros_like(x)
        return lambda: out.copy_(x.T), read(out)

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
        "trim": torch.cuda.empty_cache,
    }
