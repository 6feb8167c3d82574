"""What stand-ins have that are the processor but for one thing."""

from haulage.backends.base import Backend
from haulage.backends.cpu import CPUBackend


class NeverOpposed(CPUBackend):
    """The processor, of which a program cannot ask for an adversary.

    The environment's can be there all the same: it is asked for while the back end is made.
    """

    def __init__(self) -> None:
        self._is_made = False
        super().__init__()
        self._is_made = True

    def adversary(self, seed: int | None) -> None:
        """Has none, once it is made."""
        if seed is not None and self._is_made:
            Backend.adversary(self, seed)
