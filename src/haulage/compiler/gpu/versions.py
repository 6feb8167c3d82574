"""A second version of a kernel, for arrays that lie apart and, where that matters to the hardware,
begin at multiples of 16 bytes.

Two arguments may be the same memory, so that a load can neither be moved over a store nor be one of
memory that stays as it is, and neighbouring elements cannot be loaded at once. A kernel that would
gain by it looks at its arguments when it starts, all threads with the same result: in one version
what has been found to be so is noted, the other one is as it was. Both are in one kernel, so that a
launch is as it always is.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from haulage.compiler import llvm
from haulage.compiler.arguments import ArrayArgument
from haulage.compiler.frontend import Lowered
from haulage.compiler.gpu.accesses import Access, Accesses
from haulage.compiler.gpu.neighbours import WIDEST, Neighbours, neighbours
from haulage.compiler.gpu.read_only import marked, settled_loads
from haulage.compiler.simt.ir import reader
from haulage.targets.base import Target

# (first byte, byte behind the last) of an array at an address that is in the code.
Extent = tuple[int, int]


def extent(address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Extent:
    """That of an array with elements of `itemsize` bytes; `strides` are in bytes."""
    ways = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    low = address + sum(min(way, 0) for way in ways)
    return low, address + sum(max(way, 0) for way in ways) + itemsize


def extents_of(kernel: Lowered) -> list[Extent]:
    """Those of the arrays that a kernel captures."""
    return [
        extent(each.device_pointer, each.shape, each.strides, each.dtype.itemsize)
        for each in kernel.captured
    ]


# What a kernel may come to, in instructions, to be there twice; and how many pairs of a read and a
# written array it may compare.
_LARGEST = 2000
_PAIRS = 8
# How many loads, each of which waits for a store before it, make that worth it outside of loops.
_MANY = 8
# How many strides it may look at, to find where arrays end whose elements do not lie side by side.
_STRIDES = 4


# In front of a function's group of attributes, or of its body.
_END_OF_HEAD = re.compile(r"(?= #\d+[^\"()]* \{$| \{$)")

_PLACE = re.compile(r" !dbg !\d+")
_HEAD = re.compile(r"^define [^@]*void @")
# Of a parameter's type, without its attributes.
_PLAIN_TYPE = re.compile(r"ptr addrspace\(\d+\)|\S+")


def with_notes(
    text: str,
    name: str,
    arrays: Iterable[ArrayArgument],
    captured: Iterable[Extent],
    target: Target,
    *,
    with_neighbours: bool = True,
    with_all_loads: bool = True,
) -> str:
    """A module's text in which the kernel `name`, with all that it calls in it, loads what it only
    reads as such, and neighbours at once.

    Args:
        arrays: the kernel's among its arguments.
        captured: the arrays whose addresses the code has.
        with_neighbours: whether an access of neighbours needs an address that is a multiple of its
            size.
        with_all_loads: whether loads gain by it that no write can come before.
    """
    accesses = Accesses(reader.read(text, name), text)
    settled = settled_loads(accesses)
    text = marked(text, name, settled)
    near = neighbours(accesses) if with_neighbours else None
    if near is not None and not near.pointers <= accesses.parameters:
        near = None
    open_loads = [
        load
        for load in accesses.read_only
        if load.item.result not in settled and (with_all_loads or _is_behind_writes(load, accesses))
    ]
    apart = None
    is_many = len(open_loads) >= _MANY or any(_is_repeated(each, accesses) for each in open_loads)
    if open_loads and (is_many or near is not None):
        extents = _Extents(accesses, {each.data: each for each in arrays}, list(captured))
        apart = _kept_apart(accesses, open_loads, extents)
    if (apart is None and near is None) or len(accesses.items) > _LARGEST:
        return text
    module = llvm.parse(_twofold(text, name, accesses, apart, near))
    llvm.run_passes(module, target, "always_inliner", "simplify_cfg", "instruction_namer")
    return str(module)


@dataclass(frozen=True)
class _Apart:
    """Loads that are of memory that stays as it is if some pairs of arrays do not overlap."""

    loads: list[Access]
    # LLVM's lines, and the names of the conditions that they work out.
    checks: list[str]
    holds: list[str]


def _is_behind_writes(load: Access, accesses: Accesses) -> bool:
    return any(accesses.reaches(write.place, load.place) for write in accesses.writes)


def _is_repeated(load: Access, accesses: Accesses) -> bool:
    return any(load.place.label in loop.labels for loop in accesses.loops)


def _kept_apart(accesses: Accesses, open_loads: list[Access], extents: "_Extents") -> _Apart | None:
    """What has to hold for loads of memory that stays as it is: that their arrays lie apart from
    all that is written; None if it is not known where arrays end, or there are too many."""
    read = {root for load in open_loads for root in load.roots}
    written = set(accesses.written)
    known = {root: extents.of(root) for root in sorted(read | written)}
    pairs = [(known[first], known[second]) for first in sorted(read) for second in sorted(written)]
    if len(pairs) > _PAIRS or None in known.values() or extents.strides > _STRIDES:
        return None
    checks = extents.lines
    holds: list[str] = []
    for number, (first, second) in enumerate(pairs):
        assert first is not None
        assert second is not None
        checks += [
            f"%before.{number} = icmp ule i64 {first[1]}, {second[0]}",
            f"%behind.{number} = icmp ule i64 {second[1]}, {first[0]}",
            f"%apart.{number} = or i1 %before.{number}, %behind.{number}",
        ]
        holds.append(f"%apart.{number}")
    return _Apart(open_loads, checks, holds)


class _Extents:
    """The lines that work out where arrays begin and end."""

    def __init__(
        self, accesses: Accesses, arrays: Mapping[int, ArrayArgument], captured: list[Extent]
    ) -> None:
        self.lines: list[str] = []
        self.strides = 0
        self._items = accesses.items
        self._names = [each.name for each in accesses.function.parameters]
        self._types = _types(accesses)
        self._arrays = arrays
        self._captured = captured

    def of(self, root: str) -> tuple[str, str] | None:
        """(first byte, byte behind the last) of the array of an address, as LLVM's values."""
        if root in self._items:
            address = self._items[root].operands[0].number or 0
            found = [each for each in self._captured if each[0] <= address < each[1]]
            return (str(found[0][0]), str(found[0][1])) if found else None
        array = self._arrays.get(self._names.index(root))
        if array is None:
            return None
        key = f"array.{array.data}"
        self.lines.append(f"%{key}.low = ptrtoint {self._types[root]} {root} to i64")
        if array.contiguous:
            count = self._names[array.count]
            self.lines += [
                f"%{key}.bytes = mul i64 {count}, {array.nbytes}",
                f"%{key}.high = add i64 %{key}.low, %{key}.bytes",
            ]
            return f"%{key}.low", f"%{key}.high"
        return self._of_strides(array, key)

    def _of_strides(self, array: ArrayArgument, key: str) -> tuple[str, str]:
        low, high = f"%{key}.low", f"%{key}.low"
        self.strides += array.ndim
        for axis, (size, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
            at = f"{key}.{axis}"
            self.lines += [
                f"%{at}.last = sub i64 {self._names[size]}, 1",
                f"%{at}.way = mul i64 %{at}.last, {self._names[stride]}",
                f"%{at}.back = call i64 @llvm.smin.i64(i64 %{at}.way, i64 0)",
                f"%{at}.on = call i64 @llvm.smax.i64(i64 %{at}.way, i64 0)",
                f"%{at}.low = add i64 {low}, %{at}.back",
                f"%{at}.high = add i64 {high}, %{at}.on",
            ]
            low, high = f"%{at}.low", f"%{at}.high"
        self.lines.append(f"%{key}.end = add i64 {high}, {array.nbytes}")
        return low, f"%{key}.end"


def _types(accesses: Accesses) -> dict[str, str]:
    """The plain types of a kernel's parameters, by their names."""
    found = {}
    for each in accesses.function.parameters:
        plain = _PLAIN_TYPE.match(each.type)
        assert plain is not None, each
        found[each.name] = plain[0]
    return found


def _alignment_checks(near: Neighbours, types: Mapping[str, str]) -> list[str]:
    lines, bits = [], []
    for number, pointer in enumerate(sorted(near.pointers)):
        lines.append(f"%start.{number} = ptrtoint {types[pointer]} {pointer} to i64")
        lines.append(f"%rest.{number} = and i64 %start.{number}, {WIDEST - 1}")
        bits.append(f"%rest.{number}")
    for number, (integer, multiple) in enumerate(sorted(near.integers.items())):
        lines.append(f"%odd.{number} = and i64 {integer}, {multiple - 1}")
        bits.append(f"%odd.{number}")
    last = "0"
    for number, each in enumerate(bits):
        lines.append(f"%bits.{number} = or i64 {last}, {each}")
        last = f"%bits.{number}"
    return [*lines, f"%aligned = icmp eq i64 {last}, 0"]


def _twofold(
    text: str, name: str, accesses: Accesses, apart: _Apart | None, near: Neighbours | None
) -> str:
    """The text with both versions, and a kernel that calls one of them."""
    noted = text
    if apart is not None:
        noted = marked(noted, name, [str(load.item.result) for load in apart.loads])
    known = "\n".join(reader.definition(text, name))
    other = reader.definition(noted, name)
    if near is not None:
        other = _aligned(other, accesses, near)
    notes = noted[noted.rindex("\n}") + 2 :] if noted is not text else ""
    head = known.split("\n", 1)[0]
    checks, holds = (apart.checks, list(apart.holds)) if apart is not None else ([], [])
    if near is not None:
        checks = [*checks, *_alignment_checks(near, _types(accesses))]
        holds.append("%aligned")
    both = [
        f"%known.{number} = and i1 {f'%known.{number - 1}' if number else 'true'}, {condition}"
        for number, condition in enumerate(holds)
    ]
    passed = ", ".join(f"{kind} {each}" for each, kind in _types(accesses).items())
    entry = [
        head,
        *(f"  {line}" for line in [*checks, *both]),
        f"  br i1 %known.{len(both) - 1}, label %haulage.known, label %haulage.unknown",
        "haulage.known:",
        f"  call void @{name}.known({passed})",
        "  ret void",
        "haulage.unknown:",
        f"  call void @{name}.unknown({passed})",
        "  ret void",
        "}",
    ]
    parts = [
        _renamed(known, name, "unknown"),
        _renamed("\n".join(other), name, "known"),
        "\n".join(entry),
    ]
    declared = "".join(
        f"declare i64 @llvm.{word}.i64(i64, i64)\n"
        for word in ("smin", "smax")
        if f"@llvm.{word}.i64(" in parts[2] and f"@llvm.{word}.i64(i64, i64)" not in text
    )
    return text.replace(known, "\n\n".join(parts)) + "\n" + declared + _added(notes, text)


def _added(notes: str, text: str) -> str:
    known = set(text.split("\n"))
    return "\n".join(line for line in notes.split("\n") if line[:1] == "!" and line not in known)


def _renamed(definition: str, name: str, version: str) -> str:
    head, _, rest = definition.partition("\n")
    head = _HEAD.sub("define internal void @", head, count=1)
    head = head.replace(f"@{name}(", f"@{name}.{version}(", 1)
    # A function's place is that of one function only.
    head = _PLACE.sub("", head)
    return f"{_END_OF_HEAD.sub(' alwaysinline', head, count=1)}\n{rest}"


def _aligned(lines: list[str], accesses: Accesses, near: Neighbours) -> list[str]:
    """The lines with what the addresses of accesses are multiples of."""
    wanted: dict[str, int] = {}
    for access in (*accesses.loads, *accesses.writes):
        aligned = near.alignments.get((access.place.label, access.place.index))
        if aligned is not None:
            wanted[access.item.text] = aligned
    return [_with_alignment(line, wanted) for line in lines]


def _with_alignment(line: str, wanted: Mapping[str, int]) -> str:
    for note in ("", ", !invariant.load"):
        plain = line.split(note)[0] if note else line
        aligned = wanted.get(plain.strip())
        if aligned is not None:
            before, _, old = plain.rpartition(", align ")
            assert before, line
            return f"{before}, align {max(aligned, int(old.split(',')[0]))}{line[len(plain) :]}"
    return line
