"""Which values a region computes again at its start instead of having them kept in a context array.

A stored address makes every access through it a gather; computed again from the thread's index it
stays an address that LLVM can see through. A value qualifies if it is arithmetic on parameters and
on uniform values, which are kept once, not per thread.

Briggs, Cooper and Torczon, "Rematerialization" (PLDI 1992); pocl does the same for its work-item
loops.
"""

from collections.abc import Set

from haulage.compiler.mathematics.definitions import DIVIDING, SPECULATED
from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.ir.model import Function, Instruction

# Sums and products of floats are left out: contracted in one region and not in another they would
# give one value two roundings. So is `freeze`, which may choose anew.
# fmt: off
_ARITHMETIC = frozenset((
    "add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor",
    "sext", "zext", "trunc", "getelementptr", "icmp", "select", "sitofp", "uitofp", "fptosi",
    "fptoui", "fptrunc", "fpext", "fneg", "fcmp", "bitcast",
))
# fmt: on
_INTRINSICS = ("llvm.smax.", "llvm.smin.", "llvm.umax.", "llvm.umin.", "llvm.abs.")

# Beyond so many steps a value that is no address is cheaper to load than to compute.
_MOST_STEPS = 24


class Rematerialization:
    """What can be computed again, and from which leaves, in one function.

    `available` are names that every region has anyway: parameters and the like. Nothing can if it
    is not `enabled`.
    """

    def __init__(
        self,
        function: Function,
        varying: Set[str],
        available: Set[str],
        *,
        enabled: bool = True,
    ) -> None:
        self._varying = varying
        self._available = available
        self._items: dict[str, Instruction] = {}
        self._position: dict[str, int] = {}
        self._possible: set[str] = set()
        self._can: dict[str, bool] = {}
        # Outside phis, which do not qualify, a value's operands come before it in this order.
        for label in control_flow.reverse_postorder(function.successors(), function.entry):
            for item in function.blocks[label].instructions():
                if item.result is None:
                    continue
                self._items[item.result] = item
                self._position[item.result] = len(self._position)
                if enabled and is_arithmetic(item) and all(map(self._is_available, item.uses)):
                    self._possible.add(item.result)

    def _is_available(self, name: str) -> bool:
        return name in self._available or name not in self._varying or name in self._possible

    def can(self, name: str) -> bool:
        """Whether the varying value `name` is better computed again than stored."""
        if name not in self._possible:
            return False
        known = self._can.get(name)
        if known is None:
            known = self._items[name].type == "ptr" or len(self.steps({name})) <= _MOST_STEPS
            self._can[name] = known
        return known

    def steps(self, names: Set[str]) -> list[Instruction]:
        """The instructions that compute `names` from leaves, each after those it needs."""
        needed, _ = self._closure(names)
        return [self._items[name] for name in sorted(needed, key=self._position.__getitem__)]

    def leaves(self, names: Set[str]) -> set[str]:
        """The uniform values that `names` are computed from."""
        return self._closure(names)[1]

    def _closure(self, names: Set[str]) -> tuple[set[str], set[str]]:
        needed: set[str] = set()
        leaves: set[str] = set()
        stack = list(names)
        while stack:
            name = stack.pop()
            if name in self._available or name in needed:
                continue
            if name not in self._varying:
                leaves.add(name)
                continue
            needed.add(name)
            stack.extend(self._items[name].uses)
        return needed, leaves


def is_arithmetic(item: Instruction) -> bool:
    """Whether an instruction may be made again, or earlier, wherever its operands are."""
    if item.opcode == "call":
        return item.callee is not None and item.callee.startswith(
            (*_INTRINSICS, *DIVIDING, SPECULATED)
        )
    return item.opcode in _ARITHMETIC
