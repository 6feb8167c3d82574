"""Finds the rooms whose addresses a kernel keeps, so that it can come to them by another name.

`current, following = following, current` makes of two shared arrays values that are one or the
other. Behind a cut such a value comes out of a slot, and LLVM must not be told that nothing but the
room's own name leads there.
"""

from collections.abc import Container, Iterable

from haulage.compiler.simt.ir.model import Function, Instruction

_DERIVING = ("getelementptr", "phi", "select", "freeze", "bitcast", "addrspacecast")
_LOOKING = ("load", "icmp")
_ADDRESS_FIRST = ("atomicrmw", "cmpxchg")


def rooms_kept(function: Function, rooms: Iterable[str], slots: Container[str]) -> frozenset[str]:
    """Those of `rooms` with an address, or one made from it, that is in a slot, in memory, or in
    the hands of a function that LLVM does not know."""
    users: dict[str, list[Instruction]] = {}
    for block in function.blocks.values():
        for item in block.instructions():
            for operand in set(item.uses):
                users.setdefault(operand, []).append(item)
    return frozenset(room for room in rooms if _is_kept(room, users, slots))


def _is_kept(room: str, users: dict[str, list[Instruction]], slots: Container[str]) -> bool:
    derived = {room}
    stack = [room]
    while stack:
        address = stack.pop()
        for item in users.get(address, ()):
            if item.opcode in _DERIVING:
                assert item.result is not None
                if item.result in slots:
                    return True
                if item.result not in derived:
                    derived.add(item.result)
                    stack.append(item.result)
            elif _keeps(item, address):
                return True
    return False


def _keeps(item: Instruction, address: str) -> bool:
    """Whether an instruction may put an address that it uses where it can be had again."""
    if item.opcode in _LOOKING:
        return False
    if item.opcode == "store":
        # A store's address is its last operand.
        return address in item.uses[:-1]
    if item.opcode in _ADDRESS_FIRST:
        return address in item.uses[1:]
    return not (item.opcode == "call" and (item.callee or "").startswith("llvm."))
