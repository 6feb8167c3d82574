"""What fastmath means on NVIDIA's GPUs, as `nvcc -use_fast_math` and Numba have it.

Divisions and square roots of single precision are approximations where an operation allows them:
LLVM's code generator sees to it. So are sine, exponential and their like, by functions of libdevice
that use the hardware's. And numbers too small to be normal count as zero in all of the kernel.
"""

import re

from haulage.targets.nvidia_architectures import compute_capability
from haulage.targets.nvidia_math import FAST

# Since Turing.
_TANH = (7, 5)
_CALL = re.compile(
    r"(?P<before>\bcall (?:\w+ )*?(?:fast|afn) (?:\w+ )*float )@(?P<name>[\w.]+)(?=\()"
)


def with_fast_functions(text: str, architecture: str) -> str:
    """A module's text in which calls that may be approximated are of libdevice's fast functions."""
    if " fast " not in text and " afn " not in text:
        return text
    used: dict[str, int] = {}

    def faster(found: re.Match[str]) -> str:
        name = found["name"]
        if name in ("tanhf", "llvm.tanh.f32") and compute_capability(architecture) >= _TANH:
            return f'{found["before"]}asm "tanh.approx.f32 $0, $1;", "=f,f"'
        fast = FAST.get(name)
        if fast is None:
            return found[0]
        used[fast] = 2 if name.startswith(("pow", "llvm.pow")) else 1
        return f"{found['before']}@{fast}"

    text = _CALL.sub(faster, text)
    declared = [
        f"declare float @{name}({', '.join(['float'] * count)})"
        for name, count in sorted(used.items())
        if f"declare float @{name}(" not in text
    ]
    return "\n".join([text, *declared, ""]) if declared else text
