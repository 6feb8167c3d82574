"""What memory a kernel for a GPU reads and writes: which array each access is of.

The kernel is one function by now, with all that it calls in it. Memory is told apart by where an
address comes from: an argument, an address that is a number (an array that the kernel captured),
the block's or the thread's own memory, a variable of the module, or anywhere.
"""

import re
from dataclasses import dataclass

from haulage.channel import MESSAGE
from haulage.compiler.gpu.channel import FAULT
from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.ir.model import Function, Instruction, Operand
from haulage.forks import cached_property

# Memory that no argument's address is of.
SHARED, OWN, MODULE = "shared", "own", "module"
ANYWHERE = "anywhere"
_APART = frozenset((SHARED, OWN, MODULE))

_SPACES = {"ptr addrspace(3)": SHARED, "ptr addrspace(4)": MODULE, "ptr addrspace(5)": OWN}
_ATTRIBUTES = re.compile(r"(?m)^attributes (#\d+) = \{(.*)\}$")
_FUNCTION = re.compile(
    r'(?m)^(?:declare|define) [^@\n]*@(?:"([^"]*)"|([-\w.$]+))\(.*?\)[^(){\n]*?(#\d+)'
)
_MEMORY = re.compile(r"\bmemory\(([^)]*)\)")
_BARRIER = re.compile(r"llvm\.nvvm\.(barrier|bar\.sync|bar\.red)|llvm\.amdgcn\.s\.barrier$")
# Fences of what a block's own threads see, as barriers have on AMD's GPUs.
_SCOPES_OF_A_BLOCK = tuple(
    f'syncscope("{scope}")' for scope in ("workgroup", "wavefront", "singlethread")
)
_COPIES = ("llvm.memcpy", "llvm.memmove", "llvm.memset")
_NEVER_ACCESS = (
    *("llvm.assume", "llvm.lifetime.", "llvm.experimental.noalias.", "llvm.dbg.", "llvm.fma."),
    *("llvm.nvvm.activemask", "llvm.nvvm.bar.warp.sync"),
    *("llvm.amdgcn.wave.barrier", "llvm.amdgcn.s.sleep", "llvm.amdgcn.mbcnt."),
)
_COLLECTIVES = (
    *("llvm.nvvm.shfl.", "llvm.nvvm.vote.", "llvm.nvvm.match.", "llvm.nvvm.redux."),
    *("llvm.amdgcn.ds.bpermute", "llvm.amdgcn.ds.swizzle", "llvm.amdgcn.update.dpp"),
    *("llvm.amdgcn.permlane", "llvm.amdgcn.readlane", "llvm.amdgcn.readfirstlane"),
    *("llvm.amdgcn.ballot",),
)
_STRONG = re.compile(r"\.(volatile|relaxed|acquire|release|acq_rel|mmio|cv)\b")


@dataclass(frozen=True)
class Place:
    """Where an instruction is: its block and its number among the block's instructions."""

    label: str
    index: int


@dataclass(frozen=True)
class Access:
    """A load, or what may write; `roots` is what memory it may be of."""

    item: Instruction
    place: Place
    roots: frozenset[str]

    @property
    def outside(self) -> bool:
        """Whether it may be of memory that other kernels see."""
        return not self.roots <= _APART


class Accesses:
    """The accesses of a function, whose every value and block is named.

    `loads` and `writes` are those of outside memory; `shared_writes` those of the block's own.
    `exchanges` are where lanes of a warp tell each other values, `barriers` where a block's threads
    meet. `talks` says that the kernel may wait for, or hand
    over, what other blocks, kernels or the host write: it has fences, accesses that stay in order,
    or calls of what is not known. `takes` says that the result of an atomic operation is used;
    `tells` where it tells the host something.
    """

    def __init__(self, function: Function, text: str) -> None:
        self.function = function
        self.items = function.items()
        self.parameters = {each.name for each in function.parameters}
        self.loads: list[Access] = []
        self.writes: list[Access] = []
        self.shared_writes: list[Access] = []
        self.exchanges: list[Access] = []
        self.barriers: set[Place] = set()
        self.tells: list[Place] = []
        self.talks = False
        self.takes = False
        self._effects = _effects(text)
        self._roots: dict[str, frozenset[str]] = {}
        self._used = {name for item in function.instructions() for name in item.uses}
        for block in function.blocks.values():
            for index, item in enumerate(block.instructions()):
                self._note(item, Place(block.label, index))

    def _note(self, item: Instruction, place: Place) -> None:
        if item.opcode == "load":
            access = Access(item, place, self.roots_of(item.operands[0]))
            if access.outside:
                self.talks |= item.stays
                self.loads.append(access)
        elif item.address is not None:
            self._note_write(item, place, self.roots_of(item.address))
        elif item.opcode == "fence":
            self.talks |= not item.ordering.startswith(_SCOPES_OF_A_BLOCK)
        elif item.opcode == "call":
            self._note_call(item, place)

    def _note_write(self, item: Instruction, place: Place, roots: frozenset[str]) -> None:
        access = Access(item, place, roots)
        if SHARED in roots:
            self.shared_writes.append(access)
        if access.outside:
            self.talks |= item.opcode == "store" and item.stays
            self.takes |= item.result is not None and item.result in self._used
            self.writes.append(access)

    def _note_call(self, item: Instruction, place: Place) -> None:
        name = item.callee
        if name in (FAULT, MESSAGE):
            self.tells.append(place)
        elif name is None:
            self._note_assembly(item, place)
        elif name.startswith(_COPIES):
            self._note_write(item, place, self.roots_of(item.operands[0]))
        elif _BARRIER.match(name):
            self.barriers.add(place)
        elif name.startswith(_COLLECTIVES):
            self.exchanges.append(Access(item, place, frozenset()))
        elif not name.startswith(_NEVER_ACCESS):
            kind = self._effects.get(name, "writes")
            pointers = [each for each in item.operands if each.type.startswith("ptr")]
            own = all(self.roots_of(each) <= _APART for each in pointers)
            self.talks |= kind == "writes" or (kind == "writes arguments" and not own)

    def _note_assembly(self, item: Instruction, place: Place) -> None:
        if not item.called.startswith("asm "):
            self.talks = True
            return
        words, text, _, constraints, _ = item.called.split('"')
        pointers = [each for each in item.operands if each.type.startswith("ptr")]
        if "sideeffect" not in words and "~{memory}" not in constraints:
            return
        if _STRONG.search(text) or not pointers:
            self.talks = True
        elif text.startswith(("st.", "red.", "atom.")):
            self._note_write(item, place, self.roots_of(pointers[0]))
        elif not text.startswith(("ld.", "prefetch")):
            self.talks = True

    def roots_of(self, address: Operand) -> frozenset[str]:
        """What memory an address may be of."""
        if address.is_local and address.type not in _SPACES:
            return self._of_name(address.text)
        return _known_root(address)

    def _of_name(self, name: str) -> frozenset[str]:
        known = self._roots.get(name)
        if known is not None:
            return known
        found: set[str] = set()
        waiting, seen = [name], {name}
        while waiting:
            each = waiting.pop()
            sources, roots = self._sources(each)
            found |= roots
            waiting += [source for source in sources if source not in seen]
            seen.update(sources)
        self._roots[name] = frozenset(found)
        return self._roots[name]

    def _sources(self, name: str) -> tuple[list[str], frozenset[str]]:
        """The addresses that the address `name` is made from, and what is known at once."""
        if name in self.parameters:
            return [], frozenset((name,))
        item = self.items[name]
        if item.opcode == "alloca":
            return [], frozenset((OWN,))
        if item.opcode == "inttoptr" and not item.uses:
            return [], frozenset((name,))
        if item.opcode in ("phi", "select"):
            operands = item.operands[-2:] if item.opcode == "select" else item.operands
        elif item.opcode in ("getelementptr", "addrspacecast", "freeze"):
            operands = item.operands[:1]
        else:
            return [], frozenset((ANYWHERE,))
        names = [each for each in operands if each.is_local and each.type not in _SPACES]
        known = [_known_root(each) for each in operands if each not in names]
        return [each.text for each in names], frozenset().union(*known)

    @property
    def written(self) -> frozenset[str]:
        """What outside memory is written."""
        return frozenset(root for access in self.writes for root in access.roots) - _APART

    @cached_property
    def read_only(self) -> list[Access]:
        """The loads of what is never written, if that can be said."""
        written = self.written
        if self.talks or ANYWHERE in written:
            return []
        return [
            load
            for load in self.loads
            if not load.roots & written and not load.roots & _APART and ANYWHERE not in load.roots
        ]

    @cached_property
    def successors(self) -> dict[str, tuple[str, ...]]:
        return {label: block.successors for label, block in self.function.blocks.items()}

    @cached_property
    def loops(self) -> list[control_flow.Loop]:
        return control_flow.Graph(self.successors, self.function.entry).loops

    @cached_property
    def _reached(self) -> dict[str, frozenset[str]]:
        """For each block, those that control can come to from its end."""
        return {
            label: frozenset(control_flow.reachable_until(self.successors, targets, ""))
            for label, targets in self.successors.items()
        }

    def reaches(self, first: Place, second: Place) -> bool:
        """Whether control can come from one place to another."""
        if first.label == second.label and first.index < second.index:
            return True
        return second.label in self._reached[first.label]


def _known_root(address: Operand) -> frozenset[str]:
    """What memory an address is of that has a space of its own, or is a constant."""
    if address.type in _SPACES:
        return frozenset((_SPACES[address.type],))
    if address.text in ("null", "poison", "undef"):
        return frozenset()
    if "addrspace(3)" in address.text:
        return frozenset((SHARED,))
    is_of_module = "@" in address.text and "inttoptr" not in address.text
    return frozenset((MODULE if is_of_module else ANYWHERE,))


def _effects(text: str) -> dict[str, str]:
    """What each function of a module does to memory: "nothing" that counts, "writes arguments",
    or "writes"."""
    attributes = dict(_ATTRIBUTES.findall(text))
    found = {}
    for quoted, plain, number in _FUNCTION.findall(text):
        memory = _MEMORY.search(attributes.get(number, ""))
        found[quoted or plain] = _effect(memory[1]) if memory else "writes"
    return found


def _effect(memory: str) -> str:
    """That of an attribute such as `argmem: write, inaccessiblemem: readwrite`."""
    written = [
        part.split(":")[0].strip() if ":" in part else ""
        for part in memory.split(",")
        if "write" in part and not part.strip().startswith("inaccessiblemem")
    ]
    if not written:
        return "nothing"
    return "writes arguments" if written == ["argmem"] else "writes"
