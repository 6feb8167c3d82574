"""Loads and stores with hints for the caches, as far as AMD's GPUs have what they ask for."""

from typing import Any

from haulage.targets.amd_ir import note

# Used once: what is in the caches stays there instead.
_ONCE = ("ldcs", "ldlu", "stcs")
# Not from the cache of a compute unit, or made anew each time: as accesses that others of that
# scope see are made.
_SCOPES = {"ldcg": 'syncscope("agent") ', "ldcv": ""}


def load(builder: Any, hint: str, pointer: Any, kind: Any, nbytes: int, align: int) -> Any:
    """Load an int or a float of an LLVM type and `nbytes`; see `Target.cached_load`."""
    if hint in _SCOPES and align >= nbytes:
        return builder.load_atomic(pointer, f"{_SCOPES[hint]}monotonic", align, typ=kind)
    value = builder.load(pointer, align=align, typ=kind)
    if hint in _ONCE:
        _use_once(builder, value)
    return value


def store(builder: Any, hint: str, value: Any, pointer: Any, align: int) -> None:
    """Store an int or a float; see `Target.cached_store`."""
    made = builder.store(value, pointer, align=align)
    if hint in _ONCE:
        _use_once(builder, made)


def _use_once(builder: Any, access: Any) -> None:
    from llvmlite import ir

    note(builder, access, "nontemporal", [ir.IntType(32)(1)])
