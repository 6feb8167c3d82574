"""The generations of AMD's GPUs that code can be made for."""

import re

from haulage import config

# With the oldest first. LLVM's fatal errors end the process, so it is asked for these only.
ARCHITECTURES = (
    *("gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909", "gfx90a", "gfx90c"),
    *("gfx942", "gfx950"),
    *("gfx1010", "gfx1011", "gfx1012", "gfx1013"),
    *("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
    *("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"),
    *("gfx1200", "gfx1201"),
)

_NAME = re.compile(r"gfx(?P<major>\d+)(?P<minor>\d)(?P<stepping>[0-9a-f])")


def version(architecture: str) -> tuple[int, int, int]:
    """(9, 0, 10) of `gfx90a`, (11, 0, 0) of `gfx1100`."""
    found = _NAME.fullmatch(architecture)
    assert found is not None, architecture
    return int(found["major"]), int(found["minor"]), int(found["stepping"], 16)


def check_architecture(architecture: str) -> None:
    """Raise a ValueError unless code can be made for `architecture`."""
    if architecture in ARCHITECTURES:
        return
    processor, with_features, _ = architecture.partition(":")
    if with_features and processor in ARCHITECTURES:
        raise ValueError(
            f"target {architecture!r}: expected {processor!r}; its code is for GPUs with sramecc "
            "and xnack on or off"
        )
    why = (
        "; code for several generations is of code object v6, which older versions of ROCm refuse"
        if architecture.endswith("-generic")
        else ""
    )
    raise ValueError(f"target {architecture!r}: expected one of {', '.join(ARCHITECTURES)}{why}")


def identity(architecture: str) -> tuple[str, ...]:
    """What code for an architecture depends on: that, and who links it."""
    return (architecture, config.amd_linker())


def wave_size(architecture: str, warp_size: int) -> int:
    """How many lanes a wavefront of the hardware has in code for kernels with warps of `warp_size`.

    GPUs up to gfx9 have wavefronts of 64, in which a warp of 32 is a half. Later ones run code of
    either kind, so each kernel has wavefronts that are its warps.
    """
    return 64 if version(architecture) < (10, 0, 0) else warp_size


def has_halves(architecture: str, lanes: int) -> bool:
    """Whether hardware with 32 lanes runs wavefronts of so many as two halves, of which
    `ds_bpermute` reaches one only; from gfx12 on it reaches both."""
    return lanes > 32 and version(architecture)[0] in (10, 11)


def halves_registers(architecture: str) -> bool:
    """Whether a half of a thread's registers is for accumulation: from gfx90a on, with those of
    AMD's accelerators. Gfx90c is an older one in a processor."""
    return (9, 0, 10) <= version(architecture) < (10, 0, 0) and architecture != "gfx90c"
