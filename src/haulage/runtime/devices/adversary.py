"""The adversarial mode, in which a program that forgets to wait fails every time.

Without it, a missing `synchronize` or event mostly goes unnoticed on a laptop: work is done before
somebody looks. In this mode work runs as late as the rules of streams and events allow, and work
that nothing orders runs in another order than it was handed over; host arrays go to kernels by
copies, as on a GPU; and memory that was not written or is freed holds garbage.
"""

from typing import Any

from haulage.runtime.devices.registry import current_device, devices
from haulage.runtime.process import runtime


class adversary:
    """Turn the adversarial mode on: `adversary(7)` for the process, `with adversary(7):` inside.

    `adversary(None)` turns it off, as the end of the `with` does, unless it was on before; the
    variable `HAULAGE_ADVERSARY` turns it on from the start. Each switch first waits for the device.

    Args:
        seed: any int; it chooses among orders of work that are equally bad, and the garbage.

    Raises:
        TypeError: `seed` is no int.
        Unsupported: the current device has no such mode; the CPU device has one.
        KernelError: threads of a kernel had failed; nothing is switched.
    """

    def __init__(self, seed: int | None) -> None:
        if isinstance(seed, bool) or not (seed is None or hasattr(seed, "__index__")):
            raise TypeError(f"adversary({seed!r}): expected an int, the seed, or None for off")
        self.seed = None if seed is None else seed.__index__()
        self._before = runtime.current.adversary_seed
        _synchronize()
        _switch(self.seed)

    def __enter__(self) -> None:
        if runtime.current.adversary_seed != self.seed:
            self._before = runtime.current.adversary_seed
            _synchronize()
            _switch(self.seed)

    def __exit__(self, *exception: Any) -> None:
        try:
            _synchronize()
        finally:
            _switch(self._before)

    def __repr__(self) -> str:
        return f"<haulage.adversary {'off' if self.seed is None else self.seed}>"


def _synchronize() -> None:
    for device in devices():
        device.finish()


def _switch(to: int | None) -> None:
    for device in devices() if to is None else [current_device()]:
        device.backend.adversary(to)
    runtime.current.adversary_seed = to
