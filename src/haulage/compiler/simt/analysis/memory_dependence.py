"""What memory instructions access, whether its address is captured, and which loads are clobbered.

Memory is told apart by the objects that addresses are made from, as LLVM's
`getUnderlyingObjects` does: a parameter (an array that the kernel was given, or a shared or private
array of its own), a global, or anywhere. Two arrays given to a kernel count as apart, as what
threads read from one and write to the other would be a data race if they were not.

A load is clobbered if its memory may be written between the same two barriers. Each thread reads it
before or after another one writes, as it happens; so the threads need not get one value, even from
one address. A kernel may rely on what *one* of them gets: `old = x[0]`,
`if t == 0: x[0] = old + 1`, and later `old` in thread 0 again.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Set

from haulage.channel import MESSAGE
from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.barriers import BARRIERS
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.model import Instruction, Operand
from haulage.targets.cpu_ir import SHARED_ADDRESS

# The object of an address that may point anywhere.
ANYWHERE = "anywhere"

# What reads at its address.
READING = frozenset(("load", "atomicrmw", "cmpxchg"))
# Read-modify-writes that write what they read, if their operand is zero.
_IDEMPOTENT_WITH_ZERO = frozenset(("add", "sub", "or", "xor", "fadd", "fsub"))
_ZEROS = frozenset(("0", "0.000000e+00", "-0.000000e+00"))
_MEMORY_INTRINSICS = ("llvm.memset", "llvm.memcpy", "llvm.memmove")
# What may give another value each time, or whose operands don't tell which value it is.
_NOT_NUMBERED = frozenset(("phi", "load", "atomicrmw", "cmpxchg", "call", "alloca"))
# What makes an address from others.
DERIVING = frozenset(("getelementptr", "phi", "select", "freeze", "bitcast", "addrspacecast"))


class UnderlyingObjects:
    """The objects that the addresses of a function are made from."""

    def __init__(self, analyses: Analyses) -> None:
        self._items = analyses.items
        self._known: dict[str, set[str]] = {}

    def of(self, name: str) -> set[str]:
        """Those of the address `name`: parameters, arrays of the function, globals, `ANYWHERE`."""
        if name in self._known:
            return self._known[name]
        found: set[str] = set()
        seen: set[str] = set()
        stack = [name]
        while stack:
            current = stack.pop()
            if current in seen:
                continue
            seen.add(current)
            item = self._items.get(current)
            if item is None or item.opcode == "alloca":
                found.add(current)
            elif item.opcode == "getelementptr":
                stack.append(item.operands[0].text)
            elif item.callee == SHARED_ADDRESS:
                found.add(item.operands[0].text)
            elif item.opcode in ("phi", "select", "freeze"):
                # A constant address (null) is nobody's.
                stack += [each.text for each in item.operands if _is_named_address(each)]
            else:
                found.add(ANYWHERE)
        self._known[name] = found
        return found

    def at(self, address: Operand) -> set[str]:
        """Those of an operand, which may be a constant."""
        return self.of(address.text) if _is_named_address(address) else {ANYWHERE}

    def read_by(self, item: Instruction) -> set[str]:
        """The objects that an instruction reads, if that is all it does to memory."""
        if item.opcode == "load":
            return self.at(item.operands[0])
        if (item.callee or "").startswith(("llvm.memcpy", "llvm.memmove")):
            return self.at(item.operands[1])
        return set()

    def written_by(self, item: Instruction) -> set[str]:
        """The objects that an instruction may write."""
        if item.opcode != "load" and item.address is not None:
            return self.at(item.address)
        if item.opcode != "call":
            return set()
        callee = item.callee or ""
        if callee.startswith(_MEMORY_INTRINSICS):
            return self.at(item.operands[0])
        if callee.startswith("llvm.") or callee in (*BARRIERS, MESSAGE):
            return set()
        # What is given no address, as most of mathematics, writes to none that a kernel has.
        return {ANYWHERE} if any(each.type == "ptr" for each in item.operands) else set()


def _is_named_address(operand: Operand) -> bool:
    return operand.type.startswith("ptr") and operand.text[0] in "%@"


def may_alias(some: Set[str], others: Set[str]) -> bool:
    """Whether objects that one address is made from may be, in part, those of another."""
    return bool(some & others or (some and ANYWHERE in some | others))


def is_idempotent(item: Instruction, items: Mapping[str, Instruction]) -> bool:
    """Whether an atomic operation writes what it reads, as programs do to read atomically."""
    if item.opcode != "atomicrmw" or item.predicate not in _IDEMPOTENT_WITH_ZERO:
        return False
    operand = item.operands[1]
    made = items.get(operand.text)
    if made is not None and made.opcode in ("trunc", "sext", "zext"):
        operand = made.operands[0]
    return operand.text in _ZEROS


def are_congruent(analyses: Analyses, values: Iterable[Operand]) -> bool:
    """Whether values are worked out alike from the same ones (value numbering)."""
    first, *others = {each.text: None for each in values} or ("",)
    return all(_are_alike(analyses, first, each) for each in others)


def _are_alike(analyses: Analyses, one: str, other: str, depth: int = 8) -> bool:
    if one == other:
        return True
    left, right = analyses.items.get(one), analyses.items.get(other)
    return (
        left is not None
        and right is not None
        and depth > 0
        and _made_by(left) == _made_by(right)
        and left.opcode not in _NOT_NUMBERED
        and all(
            _are_alike(analyses, some.text, others.text, depth - 1)
            for some, others in zip(left.operands, right.operands, strict=True)
        )
    )


def _made_by(item: Instruction) -> tuple[object, ...]:
    operands = len(item.operands)
    return item.opcode, item.predicate, item.type, item.source_type, item.indices, operands


# ---- pointer capture -----------------------------------------------------------------------------


def captured(analyses: Analyses, storage: Iterable[str], slots: Container[str]) -> frozenset[str]:
    """Those of `storage` with an address, or one made from it, that is in a slot, in memory, or in
    the hands of a function that LLVM does not know (LLVM's `PointerMayBeCaptured`).

    `current, following = following, current` makes of two shared arrays values that are one or the
    other. Behind a cut such a value comes out of a slot, and LLVM must not be told that nothing but
    the array's own name leads there.
    """
    return frozenset(
        name
        for name in storage
        if any(
            item.result in slots if item.opcode in DERIVING else _captures(item, address)
            for item, address in uses_of_address(analyses, name)
        )
    )


def uses_of_address(analyses: Analyses, name: str) -> Iterator[tuple[Instruction, str]]:
    """The instructions that use an address or one that is made from it, each with what it uses."""
    derived, stack = {name}, [name]
    while stack:
        address = stack.pop()
        for item in analyses.users.get(address, ()):
            yield item, address
            if item.opcode in DERIVING and item.result and item.result not in derived:
                derived.add(item.result)
                stack.append(item.result)


def _captures(item: Instruction, address: str) -> bool:
    """Whether an instruction may put an address that it uses where it can be had again."""
    if item.opcode in ("load", "icmp"):
        return False
    if item.address is not None:
        kept = item.operands[:1] if item.opcode == "store" else item.operands[1:]
        return any(each.text == address for each in kept)
    return not (item.opcode == "call" and (item.callee or "").startswith("llvm."))


# ---- clobbered loads -----------------------------------------------------------------------------


def clobbered_loads(analyses: Analyses, kinds: frozenset[str] = BARRIERS) -> frozenset[str]:
    """Names of loads whose memory may be written between the barriers of `kinds` around them."""
    objects = analyses.get(UnderlyingObjects)
    segments = analyses.get(Segments, kinds)
    writing: dict[str, set[str]] = {}
    for segment, items in segments.items.items():
        for written in {each for item in items for each in objects.written_by(item)}:
            writing.setdefault(written, set()).add(segment)
    near = {written: segments.together(where) for written, where in writing.items()}
    return frozenset(
        item.result
        for segment, items in segments.items.items()
        for item in items
        if item.opcode == "load"
        and item.result
        and any(
            segment in where and may_alias({written}, objects.read_by(item))
            for written, where in near.items()
        )
    )


class Segments:
    """The parts of a function's blocks between barriers of `kinds`: their instructions, the first
    one of each block, and where control goes and comes from without a barrier."""

    def __init__(self, analyses: Analyses, kinds: frozenset[str]) -> None:
        self.items: dict[str, list[Instruction]] = {}
        self.first: dict[str, str] = {}
        last: dict[str, str] = {}
        for label, block in analyses.function.blocks.items():
            self.first[label] = name = f"{label}#0"
            self.items[name] = []
            for number, item in enumerate(block.body, 1):
                if item.callee in kinds:
                    name = f"{label}#{number}"
                    self.items[name] = []
                self.items[name].append(item)
            last[label] = name
        self.after: dict[str, tuple[str, ...]] = dict.fromkeys(self.items, ())
        for label, targets in analyses.successors.items():
            self.after[last[label]] = tuple(self.first[to] for to in targets)
        self.before = control_flow.invert(self.after)

    def together(self, some: Set[str]) -> set[str]:
        """The segments that can be reached from one of `some`, or reach one, without a barrier."""
        after = control_flow.reachable_until(self.after, some)
        return after | control_flow.reachable_until(self.before, some)
