"""What is done to the module of every kernel for a GPU before LLVM optimises it."""

import re
from typing import Any

from haulage.targets.gpu_ir import SHARED_PREFIX

# Numba's names for what a host's compiler would want to know of a function.
_ENVIRONMENT = "_ZN08NumbaEnv"
_SHARED = re.compile(rf"{SHARED_PREFIX}\d+")


def counted_anew(text: str) -> str:
    """A module's text whose shared arrays have the same names whatever was compiled before."""
    names = list(dict.fromkeys(_SHARED.findall(text)))
    numbers = {name: number for number, name in enumerate(names)}
    return _SHARED.sub(lambda found: f"{SHARED_PREFIX}{numbers[found[0]]}", text)


def keep_together(module: Any) -> None:
    """Say of all functions that threads of a warp may wait for one another in them: LLVM then moves
    no call of them to where other threads come. It takes that back where it sees that none do."""
    for function in module.functions:
        if not function.is_declaration:
            function.add_function_attribute("convergent")


def internalise(module: Any, name: str) -> None:
    """Hide all functions but the one of that name, and shared arrays."""
    for function in module.functions:
        if not function.is_declaration and function.name != name:
            function.linkage = "internal"
    for variable in module.global_variables:
        if variable.name.startswith((_ENVIRONMENT, SHARED_PREFIX)):
            variable.linkage = "internal"
