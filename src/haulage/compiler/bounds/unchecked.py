"""Makes the code of launches whose bounds checks are proven, and the entry that chooses between it
and the code with all checks."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

from haulage.compiler import llvm
from haulage.compiler.bounds.proofs import LaunchTest, Proof, Ways, proofs
from haulage.compiler.definitions import definition_start
from haulage.compiler.simt.analysis import AXES, control_flow, kernel
from haulage.compiler.simt.analysis.kernel import KERNEL
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.emit.entry import choosing, load_arguments, open_entry
from haulage.compiler.simt.ir import reader, writer
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.compiler.simt.ir.types import PROMISES
from haulage.targets.base import Target

# In this many bits no sum of products of a few 64-bit numbers wraps.
_WIDE = "i256"


@dataclass(frozen=True)
class Unchecked:
    """A cleaned-up kernel without the checks that are proven in launches which pass the tests, and
    the text of the module with the entry that makes the tests."""

    text: str
    entry: str


def unchecked(text: str, target: Target, block: tuple[int, int, int]) -> Unchecked | None:
    """What a cleaned-up kernel is without checks that need not be made, for blocks of one size;
    None if there is no such check."""
    function = reader.read(text, KERNEL)
    _fix_sizes(function, block)
    found = proofs(Analyses(function), block)
    if not found:
        return None
    changed = reader.read(text, KERNEL)
    _drop(changed, found)
    start = definition_start(text, KERNEL)
    body, end = text.index("{\n", start) + 2, text.index("\n}", start)
    without = text[:body] + writer.listing(changed) + text[end:]
    entry = _entry(text, target, function, [proof.ways for proof in found])
    return Unchecked(_optimised(without, target), entry)


def _drop(function: Function, found: Iterable[Proof]) -> None:
    """Let threads go on without asking at the branches of proofs, and drop what is left that no
    thread comes to."""
    for proof in found:
        function.blocks[proof.label].terminator = Builder.jump(proof.target)
    graph = control_flow.Graph(function.successors(), function.entry)
    reached = set(graph.order)
    function.blocks = {label: each for label, each in function.blocks.items() if label in reached}
    for label, each in function.blocks.items():
        before = reached.intersection(graph.predecessors[label])
        each.phis = [_from(phi, before) for phi in each.phis]


def _from(phi: Instruction, labels: Set[str]) -> Instruction:
    """A phi with what it takes from some of its sources."""
    kept = [place for place, source in enumerate(phi.sources) if source in labels]
    return phi.changed(
        operands=tuple(phi.operands[place] for place in kept),
        sources=tuple(phi.sources[place] for place in kept),
    )


def _fix_sizes(function: Function, block: tuple[int, int, int]) -> None:
    """Put the block's sizes in the place of the parameters that have them, and let those that have
    the thread's index be below them."""
    ends = {f"%threadIdx.{axis}": size for axis, size in zip(AXES, block, strict=True)}
    function.parameters = tuple(
        replace(each, type=f"i32 range(i32 0, {ends[each.name]})") if each.name in ends else each
        for each in function.parameters
    )
    sizes = {f"%blockDim.{axis}": str(size) for axis, size in zip(AXES, block, strict=True)}
    for each in function.blocks.values():
        each.change(lambda item: item.with_uses(sizes))


def _optimised(text: str, target: Target) -> str:
    with llvm.LOCK:
        module = llvm.parse(text)
        llvm.optimise(module, target, 2, widen=False)
        llvm.run_passes(module, target, "lower_switch", "instruction_namer")
        return str(module)


def _entry(text: str, target: Target, function: Function, proven: Iterable[Ways]) -> str:
    """The module of the entry, which goes on in one of the others'."""
    b = open_entry()
    load_arguments(b, kernel.read(text, target))
    tests = _Tests(b, function.items())
    holds = "true"
    for ways in dict.fromkeys(proven):
        holds = b.binary("and", "i1", holds, tests.any(ways))
    return choosing(b, holds, target)


class _Tests:
    """Writes tests of what is known when a launch begins."""

    def __init__(self, b: Builder, items: Mapping[str, Instruction]) -> None:
        self._b = b
        self._items = items
        # Of the kernel's values those that are made here, by their names there.
        self._made: dict[str, str] = {}
        self._wide: dict[str, str] = {}
        self._tests: dict[LaunchTest, str] = {}

    def any(self, ways: Ways) -> str:
        """Whether all tests of one of the ways hold."""
        found = "false"
        for way in ways:
            holds = "true"
            for test in sorted(way, key=lambda each: (sorted(each.factors), each.constant)):
                holds = self._b.binary("and", "i1", holds, self._test(test))
            found = self._b.binary("or", "i1", found, holds)
        return found

    def _test(self, test: LaunchTest) -> str:
        if test not in self._tests:
            b, total = self._b, str(test.constant)
            for monomial, factor in sorted(test.factors):
                product = str(factor)
                for each in monomial:
                    product = b.binary("mul", _WIDE, product, self._value(each.value, each.type))
                total = b.binary("add", _WIDE, total, product)
            self._tests[test] = b.compare("sge", _WIDE, total, "0")
        return self._tests[test]

    def _value(self, name: str, kind: str) -> str:
        if name not in self._wide:
            self._wide[name] = self._b.cast("sext", kind, self._evaluated(name), _WIDE)
        return self._wide[name]

    def _evaluated(self, name: str) -> str:
        """The name here of one of the kernel's values."""
        item = self._items.get(name)
        if item is None:
            return name
        if name not in self._made:
            names = {used: self._evaluated(used) for used in item.uses}
            # Nobody promises here what the kernel's own conditions see to.
            copied = item.without(PROMISES).changed(result=name).with_uses(names)
            self._made[name] = self._b.add(copied.changed(result="given"))
        return self._made[name]
