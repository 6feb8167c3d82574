"""CUDA's attributes of devices that other devices have nothing of, or do not tell.

They are 0 there, as CUDA's driver has it, so that programs that list them all run.
"""

_OTHERS = (
    "ECC_ENABLED",
    "PCI_BUS_ID",
    "PCI_DEVICE_ID",
    "PCI_DOMAIN_ID",
    "CLOCK_RATE",
    "L2_CACHE_SIZE",
    "MEMORY_CLOCK_RATE",
    "GLOBAL_MEMORY_BUS_WIDTH",
    "MULTI_GPU_BOARD_GROUP_ID",
    "COOPERATIVE_MULTI_DEVICE_LAUNCH",
    "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO",
    "TCC_DRIVER",
)


def _textures() -> tuple[str, ...]:
    """The sizes of textures and surfaces, of which there are none."""
    texture = (
        *("1D_WIDTH", "2D_WIDTH", "2D_HEIGHT", "3D_WIDTH", "3D_HEIGHT", "3D_DEPTH"),
        *("1D_LAYERED_WIDTH", "1D_LAYERED_LAYERS", "CUBEMAP_WIDTH"),
        *("2D_LAYERED_WIDTH", "2D_LAYERED_HEIGHT", "2D_LAYERED_LAYERS"),
        *("CUBEMAP_LAYERED_WIDTH", "CUBEMAP_LAYERED_LAYERS"),
    )
    only_texture = (
        *("2D_GATHER_WIDTH", "2D_GATHER_HEIGHT", "1D_LINEAR_WIDTH", "1D_MIPMAPPED_WIDTH"),
        *("3D_WIDTH_ALT", "3D_HEIGHT_ALT", "3D_DEPTH_ALT"),
        *("2D_LINEAR_WIDTH", "2D_LINEAR_HEIGHT", "2D_LINEAR_PITCH", "2D_MIPMAPPED_WIDTH"),
    )
    return (
        *(f"MAX_TEXTURE_{size}" for size in (*texture, *only_texture)),
        *(f"MAX_SURFACE_{size}" for size in texture),
        # Numba's spelling.
        "MAX_MAX_TEXTURE_2D_MIPMAPPED_HEIGHT",
        "MAX_TEXTURE_2D_MIPMAPPED_HEIGHT",
        *("TEXTURE_ALIGNMENT", "TEXTURE_PITCH_ALIGNMENT", "SURFACE_ALIGNMENT"),
    )


# By their names without `CU_DEVICE_ATTRIBUTE_`.
NONE = (*_OTHERS, *_textures())
