"""Who makes fused operations of products and sums: the device's compiler, where all those of a
kernel may be fused.

It knows what its device has. Intel's takes twice as long for a loop of SPIR-V's `fma`, of which it
makes calls. Where some operations have to stay apart, as in functions that work with the errors of
others, the pairs are chosen here, as for other devices (`compiler/contraction.py`): SPIR-V for
OpenCL can allow it for a whole kernel only.
"""

import re

_OPERATION = re.compile(
    r"(?m)^  \S+ = (?:fmul|fadd|fsub) (?P<flags>(?:[a-z]+ )*)(?:float|double|half) "
)
_FLAG = re.compile(r"(?m)^(  [^\n\"]*= [^\n\"@%]*?)\bcontract ")
_WITHOUT = r"\1"
# LLVM's code generator forbids it in a module without this.
_ALLOWED = "!opencl.enable.FP_CONTRACT"


def is_left_to_devices(text: str) -> bool:
    """Whether all sums and products in a module's text, and some, may be fused."""
    found = [operation["flags"].split() for operation in _OPERATION.finditer(text)]
    return bool(found) and all("contract" in flags for flags in found)


def allowed(text: str) -> str:
    """A module's text that allows it."""
    return f"{_FLAG.sub(_WITHOUT, text)}\n{_ALLOWED} = !{{}}\n"
