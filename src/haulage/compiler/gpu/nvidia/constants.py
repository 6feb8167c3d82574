"""Arrays of `const.array_like` lie in constant memory, whose cache gives one word to a whole warp.

There are 64 KiB of it for a kernel; what finds no room stays in the device's memory, as do the
other arrays that a kernel names: their elements are mostly read by an index of the thread's own,
which constant memory gives out one after the other.
"""

import re
from typing import Any

from haulage.compiler import llvm
from haulage.targets.base import Target
from haulage.targets.nvidia_ir import CONSTANT

CONSTANT_BYTES = 1 << 16

_CALL = re.compile(
    rf"(?m)^(?P<start>  (?P<result>%\S+) = )(?:tail )?call ptr @{CONSTANT}"
    r"\(ptr (?:\w+ )*(?P<array>[^\n]*?)\)(?: #\d+)?(?:, ![^\n]*)?$"
)
_DECLARED = re.compile(rf"(?m)^declare [^\n]*@{CONSTANT}\(.*\n?")
_VARIABLE = (
    r"(?m)^@{name} = [^\n]*?\bconstant (?P<value>\[(?P<count>\d+) x i8\] [^\n]*?), "
    r"align (?P<align>\d+)$"
)


def with_constants(text: str, target: Target, *, optimised: bool) -> str:
    """A module's text in which such arrays lie in constant memory; their calls are gone."""
    if f"@{CONSTANT}(" not in text:
        return text
    if optimised:
        # The calls' arguments have to be the arrays themselves.
        module: Any = llvm.parse(text)
        llvm.run_passes(module, target, "always_inliner", "sroa", "instruction_combine")
        text = str(module)
    made: dict[str, str] = {}
    left = CONSTANT_BYTES

    def settled(found: re.Match[str]) -> str:
        nonlocal left
        name = found["array"].removeprefix("@")
        variable = re.search(_VARIABLE.format(name=re.escape(name)), text)
        if name not in made and variable is not None and int(variable["count"]) <= left:
            left -= int(variable["count"])
            made[name] = (
                f"@haulage_constant_{len(made)} = internal addrspace(4) constant "
                f"{variable['value']}, align {max(int(variable['align']), 16)}\n"
            )
        if name not in made:
            return f"{found['start']}getelementptr i8, ptr {found['array']}, i64 0"
        place = f"@haulage_constant_{list(made).index(name)}"
        return f"{found['start']}addrspacecast ptr addrspace(4) {place} to ptr"

    text = _CALL.sub(settled, text)
    return "\n".join([_DECLARED.sub("", text), *made.values()])
