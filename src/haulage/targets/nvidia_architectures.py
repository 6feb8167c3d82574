"""The generations of NVIDIA's GPUs that code can be made for."""

import re
from typing import Any

# With the oldest first. LLVM's fatal errors end the process, so it is asked for these only. Code
# for one with an `a` runs on that generation alone, code for one with an `f` on its family.
ARCHITECTURES = (
    *("sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a"),
    *("sm_100", "sm_100a", "sm_100f", "sm_101", "sm_101a", "sm_101f", "sm_103", "sm_103a"),
    *("sm_103f", "sm_110", "sm_110a", "sm_110f", "sm_120", "sm_120a", "sm_120f", "sm_121"),
    *("sm_121a", "sm_121f"),
)

_NAME = re.compile(r"sm_(\d+)(\d)[a-z]?")


def compute_capability(architecture: str) -> tuple[int, int]:
    """(9, 0) of `sm_90` or `sm_90a`."""
    found = _NAME.fullmatch(architecture)
    assert found is not None, architecture
    return int(found[1]), int(found[2])


def check_architecture(architecture: str) -> None:
    """Raise a ValueError unless code can be made for `architecture`."""
    if architecture not in ARCHITECTURES:
        raise ValueError(f"target {architecture!r}: expected one of {', '.join(ARCHITECTURES)}")


def identity(architecture: str) -> tuple[str, ...]:
    """What code for an architecture depends on in the GPU: the architecture."""
    return (architecture,)


def for_capability(capability: Any) -> str:
    """The newest architecture whose code runs on GPUs of a compute capability: (9, 0) -> `sm_90`;
    of (9, 0, "a") `sm_90a`, of (10, 0, "f") `sm_100f`.

    Raises:
        ValueError: it is none, or they are older than any that code can be made for.
    """
    numbers, kind = (capability[:2], capability[2:]) if isinstance(capability, tuple) else ((), ())
    if kind not in ((), ("a",), ("f",)) or [type(each) for each in numbers] != [int, int]:
        raise ValueError(
            f"compute capability {capability!r}: expected two ints such as (9, 0), and after them "
            "'a' for that generation alone or 'f' for its family, or nothing"
        )
    if kind:
        named = "sm_{}{}{}".format(*capability)
        check_architecture(named)
        return named
    known = [name for name in ARCHITECTURES if not name[-1].isalpha()]
    fitting = [name for name in known if compute_capability(name) <= numbers]
    if not fitting:
        raise ValueError(
            f"compute capability {capability}: expected (7, 0) or newer; this version makes no "
            "code for older GPUs"
        )
    return fitting[-1]
