"""Settings of Numba's from the environment that say how its own `numba.cuda` is to act."""

import os

_MEANINGS = {
    "NUMBA_ENABLE_CUDASIM": "kernels run compiled, not in Numba's simulator",
    "NUMBA_DISABLE_CUDA": "it speaks of NVIDIA's driver, which Haulage's numba.cuda does not need",
}


def set_aside() -> list[str]:
    """Take those that are in force out of the environment; a sentence for each."""
    told = []
    for name, meaning in _MEANINGS.items():
        value = os.environ.pop(name, "")
        if value.strip() not in ("", "0"):
            told.append(f"{name}={value} is left out: {meaning}")
    return told
