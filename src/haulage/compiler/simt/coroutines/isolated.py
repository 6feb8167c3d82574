"""Exchanges between lanes that come to them one by one, as coroutines do: they are written out as
what `targets/cpu_lanes.py` defines."""

import re

from haulage.compiler import llvm
from haulage.targets.base import Target
from haulage.targets.cpu_lanes import EXCHANGES, definition

_DECLARED = re.compile(r"(?m)^declare [^\n]*@(haulage\.(?:shuffle|match|meet)\.[\w.]+)\(")


def expanded(text: str, target: Target) -> str:
    """A cleaned-up module without exchanges: lanes wait for each other at barriers of warps."""
    names = sorted(set(_DECLARED.findall(text)) & EXCHANGES)
    if not names:
        return text
    module = llvm.parse(text)
    for name in names:
        module.link_in(llvm.parse(definition(target, name)))
        module.get_function(name).linkage = "internal"
    llvm.run_passes(module, target, "always_inliner", "instruction_combine", "instruction_namer")
    return str(module)
