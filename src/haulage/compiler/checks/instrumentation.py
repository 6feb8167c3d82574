"""Puts calls in front of what is checked.

Each thread asks for what is known of it once, where it begins, and hands that on with each of its
accesses. So nothing can be taken for the same in several threads, and run once for all of them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from haulage._core import check
from haulage.compiler import llvm
from haulage.compiler.checks import lint, sites
from haulage.compiler.checks.calls import ATOMIC
from haulage.compiler.checks.lines import (
    Location,
    location_of,
    locations,
    without_locations,
    without_records,
)
from haulage.compiler.checks.lint import Left, Linted, LocalArray
from haulage.compiler.checks.local_arrays import COPY, FILL, LocalArrays
from haulage.compiler.checks.names import NAMES
from haulage.compiler.checks.sites import Layout, Site
from haulage.compiler.definitions import definition_start
from haulage.compiler.ends import LEFT, code_of, number_of
from haulage.compiler.simt.analysis.kernel import KERNEL
from haulage.compiler.simt.ir import reader, writer
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Block, Function, Instruction, Operand
from haulage.compiler.simt.ir.types import size_of
from haulage.targets.base import Target
from haulage.targets.cpu import (
    BARRIER,
    BLOCK_FENCE,
    DYNAMIC_SHARED,
    GRID_BARRIER,
    WAVE_BARRIER,
)
from haulage.targets.cpu_ir import ARRAY_NOTE, SHARED_ADDRESS
from haulage.targets.cpu_lanes import COLLECTIVES, WARP_BARRIER

# What the calls are given, each with its LLVM type.
_THREAD, _HOW = "%haulage.checked", "i64"
# Two of them are never made one, which would be of two places.
_QUIET = "nomerge nounwind willreturn nocallback nofree memory(inaccessiblemem: readwrite)"
_DECLARED = {
    "haulage_check_thread": ("ptr", "i64, i32"),
    "haulage_check_read": ("void", "ptr captures(none), ptr captures(none), i64"),
    "haulage_check_write": ("void", "ptr captures(none), ptr captures(none) readonly, i64, i64"),
    "haulage_check_atomic": ("void", "ptr captures(none), ptr captures(none), i64"),
    "haulage_check_operated": ("void", "ptr captures(none)"),
    "haulage_check_swapped": ("void", "ptr captures(none), i64, i64, i64"),
    "haulage_check_barrier": ("void", "ptr captures(none), i64"),
    "haulage_check_passed": ("void", "ptr captures(none)"),
    "haulage_check_ended": ("void", "ptr captures(none), i32, i32"),
    "haulage_check_grid_passed": ("void", "ptr captures(none)"),
    "haulage_check_warp": ("void", "ptr captures(none), i64, i64"),
    "haulage_check_warp_passed": ("void", "ptr captures(none)"),
    "haulage_check_exchange": ("void", "ptr captures(none), i64, i64"),
    "haulage_check_exchanged": ("void", "ptr captures(none), i64, i64"),
    "haulage_check_fence": ("void", "ptr captures(none), i64"),
    "haulage_check_array": ("void", "ptr captures(none), ptr captures(none), i64"),
    "haulage_check_unwritten": ("void", "ptr captures(none), i64, i64"),
}
# What makes an address of others.
_DERIVED = ("getelementptr", "bitcast", "addrspacecast", "freeze")
_DEFINED = re.compile(r'(?m)^define [^\n]*?@"?([^"(\s]+)"?\(')
# What writes many bytes.
_OF_MANY = ("llvm.memset.", "llvm.memcpy.", "llvm.memmove.")
# Kinds of memory.
_PRIVATE, _SHARED, _OTHER = "private", "shared", "other"
_MEMORY = {FILL: "ptr, i8, i64, i1", COPY: "ptr, ptr, i64, i1"}
_MOST_VALUE = 8
# The bytes of an access that one call tells of, at most.
_MOST_ACCESS = 128


@dataclass(frozen=True)
class Instrumented:
    """A module's text with calls, and the places that these name by number.

    `least` has for each range of a launch the fewest bytes of an access that may be made there;
    `least_shared` is that of shared memory; `arrays` are the arrays there, by number.
    `is_whole`: no access of what others can see is without a call. `linted` has the places that are
    measured, if any are.
    """

    text: str
    sites: tuple[Site, ...]
    least: dict[int, int]
    least_shared: int
    arrays: tuple[Layout, ...]
    is_whole: bool
    linted: Linted | None = None


def instrumented(
    module: Any, target: Target, arrays: Sequence[int], checks: frozenset[str]
) -> Instrumented:
    """A parsed module, which is changed, with calls in front of what is checked.

    `arrays` has the numbers, counted from the last one, which is -1, of the parameters that are
    addresses of arrays: these are the ranges of a launch. Of `checks`, "race" and "init" need the
    accesses, "race" and "barrier" the barriers.
    """
    llvm.run_passes(module, target, "always_inliner", "sroa", "instruction_namer")
    text = without_records(str(module))
    left = _left(module, target) if "lint" in checks else None
    function = reader.read(text, KERNEL)
    ranges = {function.parameters[at].name: number for number, at in enumerate(arrays)}
    made = _Instrumentation(function, locations(text), ranges, checks)
    linted = None if left is None else made.lint(*left)
    made.instrument()
    start = definition_start(text, KERNEL)
    body, end = text.index("{\n", start) + 2, text.index("\n}", start)
    declared = "\n".join(
        f"declare {result} @{name}({given}) #{_ATTRIBUTES}"
        for name, (result, given) in (_DECLARED | (lint.DECLARED if left else {})).items()
    )
    declared += "".join(
        f"\ndeclare void @{name}({given})"
        for name, given in _MEMORY.items()
        if f"@{name}(" not in text
    )
    attributes = f"attributes #{_ATTRIBUTES} = {{ {_QUIET} }}"
    whole = f"{text[:body]}{writer.listing(function)}{text[end:]}\n{declared}\n{attributes}\n"
    whole = without_notes(without_locations(whole))
    return Instrumented(
        whole,
        tuple(made.sites),
        made.least,
        made.least_shared,
        tuple(made.arrays),
        made.is_whole(text),
        linted,
    )


def _left(module: Any, target: Target) -> tuple[Left, Left]:
    """What LLVM leaves of a module where nothing is checked: of its arithmetic alone, where each
    instruction keeps its line, and of all of it."""
    combined, optimised = module.clone(), module.clone()
    llvm.run_passes(combined, target, "instruction_combine", "dead_code_elimination")
    llvm.optimise(optimised, target, 2, widen=False)
    found = []
    for each in (combined, optimised):
        llvm.run_passes(each, target, "instruction_namer")
        text = without_records(str(each))
        found.append(Left(reader.read(text, KERNEL), locations(text)))
    return found[0], found[1]


# Of a group of attributes that LLVM's own numbers do not reach.
_ATTRIBUTES = 4242


@dataclass
class _Instrumentation:
    function: Function
    locations: Mapping[str, Location]
    ranges: dict[str, int]
    checks: frozenset[str]
    sites: list[Site] = field(default_factory=list)
    least: dict[int, int] = field(default_factory=dict)
    least_shared: int = 16
    arrays: list[Layout] = field(default_factory=list)
    _numbers: dict[Site, int] = field(default_factory=dict)
    _count: int = 0
    _is_linted: bool = False

    def __post_init__(self) -> None:
        self._items = self.function.items()
        self._roots: dict[str, frozenset[str]] = {}
        self._accesses = bool(self.checks & {"race", "init"})
        self._fences = any(map(_is_fence, self.function.instructions()))
        self._accessed = frozenset(
            root
            for item in self.function.instructions()
            if item.address is not None
            for root in self._roots_of(item.address.text)
        )
        self._waits = "barrier" in self.checks and any(
            item.callee in (BARRIER, GRID_BARRIER) for item in self.function.instructions()
        )
        # Of each array's first byte, as far as one note tells of it.
        self._layouts = {
            item.operands[0].text: _layout_of(item)
            for item in self.function.instructions()
            if (item.callee or "").startswith(ARRAY_NOTE)
        }

    def instrument(self) -> None:
        """Put the calls into the function."""
        local = LocalArrays(self.function, self._unwritten) if "init" in self.checks else None
        for block in self.function.blocks.values():
            self._instrument(block)
        if local is not None:
            local.instrument()
        first = self.function.blocks[self.function.entry]
        first.body[:0] = self._begin()

    def lint(self, combined: Left, optimised: Left) -> Linted:
        """Put in, first of all, the calls that measure: see `Linted`."""
        made = Linted(
            self.function,
            self.locations,
            self._memory_of,
            combined,
            optimised,
            {each.name: each.shape for each in self._layouts.values()},
            self._local_arrays(),
        )
        made.add()
        self._is_linted = True
        return made

    def _local_arrays(self) -> list[LocalArray]:
        found = []
        for item in self.function.instructions():
            if (item.callee or "").startswith(ARRAY_NOTE):
                roots = self._roots_of(item.operands[0].text)
                layout, at = _layout_of(item), location_of(item, self.locations)
                if {self._kind(root) for root in roots} == {_PRIVATE} and at.file:
                    nbytes = layout.nbytes * prod(layout.shape)
                    found.append(LocalArray(layout.name, nbytes, at.file, at.line))
        return found

    def _memory_of(self, address: str) -> tuple[str, str]:
        roots = self._roots_of(address)
        kinds = {self._kind(root) for root in roots}
        if not kinds & {_SHARED, _OTHER}:
            return "", ""
        if kinds == {_SHARED}:
            return "shared", ""
        (root, *others) = roots
        argument = root.removeprefix("%arg.") if root.startswith("%arg.") and not others else ""
        return "global", argument.partition(".")[0]

    def is_whole(self, text: str) -> bool:
        """Whether calls tell of all accesses of memory that others can see: none is made by another
        function of the module, or by one of LLVM's of many bytes."""
        defined = set(_DEFINED.findall(text))
        for item in self.function.instructions():
            callee = item.callee or ""
            if callee.startswith(_OF_MANY) and self._is_seen(item.operands[0].text):
                return False
            if callee in defined:
                return False
        return True

    def _is_seen(self, address: str) -> bool:
        return {self._kind(root) for root in self._roots_of(address)} != {_PRIVATE}

    def _begin(self) -> Iterable[Instruction]:
        """What asks, at the thread's beginning, for what is known of it."""

        def wide(value: str) -> str:
            name = self._fresh()
            made.append(Builder.cast("zext", "i32", value, "i64", name))
            return name

        def times_and(one: str, other: str, more: str) -> str:
            product, total = self._fresh(), self._fresh()
            made.append(Builder.binary("mul", "i64", one, other, name=product))
            made.append(Builder.binary("add", "i64", product, more, name=total))
            return total

        made: list[Instruction] = []
        x, y, z = (wide(f"%blockIdx.{axis}") for axis in "xyz")
        number = times_and(times_and(z, wide("%gridDim.y"), y), wide("%gridDim.x"), x)
        x, y, z = (wide(f"%threadIdx.{axis}") for axis in "xyz")
        thread = times_and(times_and(z, wide("%blockDim.y"), y), wide("%blockDim.x"), x)
        narrow = self._fresh()
        made.append(Builder.cast("trunc", "i64", thread, "i32", narrow))
        given = (("i64", number), ("i32", narrow))
        made.append(Builder.call("ptr", "haulage_check_thread", given, _THREAD))
        if self._is_linted:
            made.append(Builder.call("ptr", lint.THREAD, given, lint.LANE))
        return made

    def _fresh(self) -> str:
        self._count += 1
        return f"%haulage.check.{self._count}"

    def _instrument(self, block: Block) -> None:
        body: list[Instruction] = []
        for item in block.body:
            before, after = self._calls(item)
            body += [*before, item, *after]
        end = block.terminator
        if self._waits and isinstance(end, Instruction) and end.opcode == "ret":
            body += self._ended(end.operands[0].text)
        block.body = body

    def _calls(self, item: Instruction) -> tuple[list[Instruction], list[Instruction]]:
        """The calls in front of an instruction, and behind it."""
        if self.checks == {"lint"}:
            return [], []
        if item.callee in (BARRIER, GRID_BARRIER):
            site = self._number(self._site(item, sites.BARRIER))
            passed = "grid_passed" if item.callee == GRID_BARRIER else "passed"
            return [self._call("barrier", (_HOW, str(site)))], [self._call(passed)]
        if item.callee in (WARP_BARRIER, WAVE_BARRIER):
            site = self._number(self._site(item, sites.WARP_BARRIER))
            lanes = "-1" if item.callee == WAVE_BARRIER else item.operands[0].text
            given = (("i64", lanes), (_HOW, str(site)))
            return [self._call("warp", *given)], [self._call("warp_passed")]
        if self._accesses and (item.callee or "").startswith(ARRAY_NOTE):
            return self._noted(item), []
        if item.callee in COLLECTIVES:
            return self._exchange(item, item.callee)
        if _is_fence(item):
            of_block = BLOCK_FENCE in item.ordering
            return [self._call("fence", ("i64", str(int(of_block))))], []
        if not self._accesses or item.address is None:
            return [], []
        calls = self._access(item, item.address)
        if not self._fences or not any(call.callee == ATOMIC for call in calls):
            return calls, []
        return calls, self._swapped(item) if _takes(item) else [self._call("operated")]

    def _swapped(self, item: Instruction) -> list[Instruction]:
        """The calls behind a compare-and-swap, which may have taken a lock."""
        took, wide = self._fresh(), self._fresh()
        made = [
            Builder.extract(item.type, item.result or "", 1, took),
            Builder.cast("zext", "i1", took, "i64", wide),
        ]
        given = [("i64", wide)]
        for value in item.operands[1:]:
            bits, cast = self._bits(value, size_of(value.type) or 0)
            made += cast or []
            given.append(("i64", bits))
        return [*made, self._call("swapped", *given)]

    def _ended(self, code: str) -> list[Instruction]:
        """The call in front of a `ret`, where a thread may have left by a `return` before, or
        failed: nobody waits for it then."""
        left = str(code_of(LEFT))
        if not code.startswith("%") and number_of(int(code)) not in (LEFT, None):
            return []
        return [self._call("ended", ("i32", code), ("i32", left))]

    def _exchange(
        self, item: Instruction, name: str
    ) -> tuple[list[Instruction], list[Instruction]]:
        word, *_, bits = name.removeprefix("haulage.").split(".")
        if word == "meet":
            # Of the lanes that are there.
            return [], []
        how = self._number(self._site(item, sites.EXCHANGE)) | check.WIDE_WARP * (bits == "64")
        kind, number = check.FROM_NONE, "0"
        made: list[Instruction] = []
        if word == "shuffle" and not self._are_here(item.operands[1].text):
            number = self._fresh()
            made.append(Builder.cast("zext", "i32", item.operands[3].text, "i64", number))
            kind = check.FROM[name.split(".")[2]]
        mask = item.operands[1].text
        if bits == "32":
            mask = self._fresh()
            made.append(Builder.cast("zext", "i32", item.operands[1].text, "i64", mask))
        made.append(self._call("exchange", ("i64", mask), (_HOW, str(how))))
        exchanged = ("i64", number), (_HOW, str(how | kind << check.KIND_AT))
        return made, [self._call("exchanged", *exchanged)]

    def _are_here(self, mask: str) -> bool:
        """Whether a mask is that of the lanes that met. Words with such masks say what one gets
        whose lane is not among them."""
        made = self._items.get(mask)
        while made is not None and made.opcode in ("extractvalue", "trunc", "zext"):
            made = self._items.get(made.operands[0].text)
        return made is not None and (made.callee or "").startswith("haulage.meet.")

    def _access(self, item: Instruction, address: Operand) -> list[Instruction]:
        roots = self._roots_of(address.text)
        kinds = {self._kind(root) for root in roots}
        nbytes = size_of(item.accessed_type) or 0
        if (_OTHER not in kinds and _SHARED not in kinds) or not nbytes:
            return []
        if nbytes > _MOST_ACCESS:
            return self._in_parts(item, address, nbytes)
        shared = kinds == {_SHARED}
        what = sites.ATOMIC
        if item.opcode in ("load", "store") and "atomic" not in item.flags:
            what = sites.READ if item.opcode == "load" else sites.WRITE
        site = self._site(item, what, shared, nbytes)
        if not site.file:
            # Nothing of the source: the thread's result.
            return []
        how = self._number(site) | nbytes << check.SIZE_AT
        # What an access may share with none beside it: fields of packed records are not aligned.
        cell = min(nbytes & -nbytes, item.align or 1)
        if shared:
            how |= check.SHARED
            self.least_shared = min(self.least_shared, cell)
        else:
            (root, *others) = roots
            one = None if others else self.ranges.get(root)
            if one is not None and one >= check.NO_RANGE:
                one = None
            how |= (check.NO_RANGE if one is None else one) << check.RANGE_AT
            for number in self.ranges.values() if one is None else (one,):
                self.least[number] = min(self.least.get(number, 16), cell)
        given = [("ptr", address.text), (_HOW, str(how))]
        if what == sites.ATOMIC and item.opcode == "load":
            given[1] = (_HOW, str(how | check.ONLY_READS))
        if _takes(item):
            given[1] = (_HOW, str(how | check.TAKES))
        if what != sites.WRITE:
            return [self._call("read" if what == sites.READ else "atomic", *given)]
        bits, made = self._bits(item.operands[0], nbytes)
        if made is None:
            return [self._call("write", *given, ("i64", "0"))]
        given[1] = (_HOW, str(how | check.HAS_VALUE))
        return [*made, self._call("write", *given, ("i64", bits))]

    def _in_parts(self, item: Instruction, address: Operand, nbytes: int) -> list[Instruction]:
        """The calls for each part of an access of many bytes, such as one of a whole record."""
        made: list[Instruction] = []
        for begin in range(0, nbytes, _MOST_ACCESS):
            part = f"[{min(_MOST_ACCESS, nbytes - begin)} x i8]"
            name = self._fresh()
            made.append(Builder.element("i8", address.text, str(begin), name=name))
            self._items[name] = made[-1]
            place = Operand("ptr", name)
            stored = item.opcode == "store"
            operands = (Operand(part, "poison"), place) if stored else (place,)
            made += self._access(item.changed(type=part, operands=operands), place)
        return made

    def _noted(self, item: Instruction) -> list[Instruction]:
        """What is said of an array in shared memory, where it begins."""
        address = item.operands[0].text
        layout = _layout_of(item)
        roots = self._roots_of(address)
        if {self._kind(root) for root in roots} != {_SHARED} or len(self.arrays) == check.ARRAYS:
            return []
        if not roots & self._accessed:
            # A launch may give no memory for what only its size is asked of.
            return []
        self.arrays.append(layout)
        number = str(len(self.arrays) - 1)
        return [self._call("array", ("ptr", address), ("i64", number))]

    def _unwritten(self, item: Instruction, address: str, room: str | None) -> list[Instruction]:
        """What tells of a read, in a thread's own array, of what it did not write."""
        what = sites.READ if item.opcode == "load" else sites.ATOMIC
        site = self._site(item, what, nbytes=size_of(item.accessed_type) or 0)
        site = replace(site, is_own=True)
        made: list[Instruction] = []
        offset = "-1"
        if room is not None:
            site = replace(site, layout=self._layouts.get(room))
            here, start, offset = self._fresh(), self._fresh(), self._fresh()
            made += [
                Builder.cast("ptrtoint", "ptr", address, "i64", here),
                Builder.cast("ptrtoint", "ptr", room, "i64", start),
                Builder.binary("sub", "i64", here, start, name=offset),
            ]
        how = str(self._number(site))
        return [*made, self._call("unwritten", ("i64", offset), (_HOW, how))]

    def _bits(self, value: Operand, nbytes: int) -> tuple[str, list[Instruction] | None]:
        """A value's bits as an i64, and the instructions that make it; None if it has no such."""
        kind, name = value.type, value.text
        made: list[Instruction] = []
        if nbytes > _MOST_VALUE:
            return "0", None
        if kind in ("half", "bfloat", "float", "double"):
            made.append(Builder.cast("bitcast", kind, name, f"i{8 * nbytes}", self._fresh()))
        elif kind == "ptr":
            made.append(Builder.cast("ptrtoint", kind, name, "i64", self._fresh()))
        elif kind[0] != "i" or not kind[1:].isdigit():
            return "0", None
        if made:
            kind, name = made[-1].type, made[-1].result or ""
        if kind != "i64":
            made.append(Builder.cast("zext", kind, name, "i64", self._fresh()))
            name = made[-1].result or ""
        return name, made

    def _call(self, word: str, *given: tuple[str, str]) -> Instruction:
        result, _ = _DECLARED[f"haulage_check_{word}"]
        return Builder.call(result, f"haulage_check_{word}", (("ptr", _THREAD), *given))

    def _site(self, item: Instruction, what: str, shared: bool = False, nbytes: int = 0) -> Site:
        found = location_of(item, self.locations)
        return Site(what, found.file, found.line, found.array, shared, nbytes, None, shared)

    def _number(self, site: Site) -> int:
        if site not in self._numbers:
            # Of the places beyond so many nothing is told but that they are there.
            last = (1 << check.SITE_BITS) - 1
            if len(self.sites) > last:
                return last
            self._numbers[site] = len(self.sites)
            self.sites.append(site)
        return self._numbers[site]

    def _roots_of(self, name: str) -> frozenset[str]:
        """What an address is made of: parameters, allocas, calls, and what else is no address."""
        found, seen = set(), set()
        # A value, and the place in it where it is a structure.
        waiting: list[tuple[str, tuple[int, ...]]] = [(name, ())]
        while waiting:
            value, place = waiting.pop()
            if (value, place) in seen:
                continue
            seen.add((value, place))
            item = self._items.get(value)
            inside = None if item is None else _made_of(item, place)
            if inside is None:
                found.add(value)
            else:
                waiting += inside
        return frozenset(found)

    def _kind(self, root: str) -> str:
        item = self._items.get(root)
        if root == f"%{DYNAMIC_SHARED}":
            return _SHARED
        if item is None:
            # The place of the result is a parameter; globals are constants.
            return _OTHER if root in self._parameters() or root.startswith("inttoptr") else _PRIVATE
        if item.callee == SHARED_ADDRESS:
            return _SHARED
        return _PRIVATE if item.opcode == "alloca" else _OTHER

    def _parameters(self) -> frozenset[str]:
        return frozenset(each.name for each in self.function.parameters[1:])


def _takes(item: Instruction) -> bool:
    """Whether it is a compare-and-swap, as those that take locks."""
    return item.opcode == "cmpxchg" and item.result is not None


def _is_fence(item: Instruction) -> bool:
    return item.opcode == "fence" and "singlethread" not in item.ordering


def _made_of(item: Instruction, place: tuple[int, ...]) -> list[tuple[str, tuple[int, ...]]] | None:
    """The values that an address, or one at a place of a structure, is one of; None: it is none of
    others."""
    operands = [operand.text for operand in item.operands]
    if item.opcode == "extractvalue":
        return [(operands[0], (*item.indices, *place))]
    if item.opcode == "insertvalue":
        count = len(item.indices)
        if place[:count] == item.indices:
            return [(operands[1], place[count:])]
        return [(operands[0], place)]
    if item.opcode == "phi":
        return [(value, place) for value in operands]
    if item.opcode == "select":
        return [(value, place) for value in operands[1:]]
    return [(operands[0], place)] if item.opcode in _DERIVED else None


def _layout_of(note: Instruction) -> Layout:
    name, nbytes, *shape = (operand.number or 0 for operand in note.operands[1:])
    return Layout(NAMES.of(name), max(nbytes, 1), tuple(max(size, 0) for size in shape))


_NOTE = re.compile(rf"(?m)^.*@{re.escape(ARRAY_NOTE)}\d+\(.*\n")


def without_notes(text: str) -> str:
    """The module's text without what is said of arrays of the kernel's own."""
    return _NOTE.sub("", text)
