"""What devices tell of themselves, by CUDA's names for it."""

from typing import Any

from haulage.backends.base import Properties
from haulage.backends.gpu_driver.calls import Calls

# Numba's second names for some.
_OTHERWISE = {
    "MAX_THREADS_PER_MULTI_PROCESSOR": "MAX_THREADS_PER_MULTIPROCESSOR",
    "IS_MULTI_GPU_BOARD": "MULTI_GPU_BOARD",
    "MAX_MAX_TEXTURE_2D_MIPMAPPED_HEIGHT": "MAX_TEXTURE_2D_MIPMAPPED_HEIGHT",
    "MAX_TEXTURE_3D_WIDTH_ALT": "MAX_TEXTURE_3D_WIDTH_ALTERNATE",
    "MAX_TEXTURE_3D_HEIGHT_ALT": "MAX_TEXTURE_3D_HEIGHT_ALTERNATE",
    "MAX_TEXTURE_3D_DEPTH_ALT": "MAX_TEXTURE_3D_DEPTH_ALTERNATE",
}


def with_other_names(figures: dict[str, int]) -> dict[str, int]:
    """Figures, some by two names."""
    others = {name: figures[own] for name, own in _OTHERWISE.items() if own in figures}
    return figures | others


def properties(calls: Calls, device: int, known: dict[str, int], **own: Any) -> Properties:
    """What a device is, as `Backend.properties` gives it: by what is `known`, and what only one
    maker's driver tells so."""
    static_shared = known["MAX_SHARED_MEMORY_PER_BLOCK"]
    return Properties(
        compute_capability=(
            known["COMPUTE_CAPABILITY_MAJOR"],
            known["COMPUTE_CAPABILITY_MINOR"],
        ),
        multiprocessors=known["MULTIPROCESSOR_COUNT"],
        warp_size=known["WARP_SIZE"],
        max_threads_per_block=known["MAX_THREADS_PER_BLOCK"],
        max_block=_extents(known, "BLOCK"),
        max_grid=_extents(known, "GRID"),
        max_static_shared=static_shared,
        max_dynamic_shared=max(static_shared, known.get("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", 0)),
        total_memory=calls("DeviceTotalMem", device),
        stages_copies=True,
        pins_for_all=True,
        **own,
    )


def _extents(figures: dict[str, int], what: str) -> tuple[int, int, int]:
    x, y, z = (figures[f"MAX_{what}_DIM_{axis}"] for axis in "XYZ")
    return x, y, z
