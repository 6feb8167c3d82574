"""The setting of Numba's from the environment that asks for its simulator."""

import os

_SIMULATOR = "NUMBA_ENABLE_CUDASIM"


def set_aside() -> list[str]:
    """Take it out of the environment; a sentence that tells so if it was in force."""
    value = os.environ.pop(_SIMULATOR, "").strip()
    if value in ("", "0"):
        return []
    return [f"{_SIMULATOR}={value} is left out: kernels run compiled, not in Numba's simulator"]
