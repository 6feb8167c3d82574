"""The sections of a code object: which of the object's go into each, and where each lies."""

from dataclasses import dataclass, field
from typing import NamedTuple

from haulage.targets.amd_linker import elf
from haulage.targets.amd_linker.reading import PAGE, Section, refused

# Sections of these names and of longer ones, as `.rodata.cst16`, become one.
_GATHERED = (".text", ".rodata", ".data.rel.ro", ".data", ".bss.rel.ro", ".bss")
# What is written to while it is loaded and never again.
_WRITTEN_ONCE = (".data.rel.ro", ".bss.rel.ro", ".dynamic", ".got")
# It says something about the stack of host programs.
_LEFT_OUT = (".note.GNU-stack",)

# Everything that is loaded lies below it; no GPU has as much memory.
_MOST_BYTES = 1 << 46


class Piece(NamedTuple):
    """A section of the object, at an offset in one of the code object's."""

    section: Section
    at: int


@dataclass
class Output:
    """A section of the code object. `link` names another one, as ELF wants it for its kind, `info`
    is what ELF wants for it. `content` has `nbytes`, and none where the file has none (`.bss`)."""

    name: str
    kind: int
    flags: int
    align: int
    entry_size: int = 0
    link: str = ""
    info: int = 0
    content: bytearray = field(default_factory=bytearray)
    nbytes: int = 0
    pieces: list[Piece] = field(default_factory=list)
    address: int = 0
    offset: int = 0

    def __post_init__(self) -> None:
        self.nbytes = len(self.content)

    @property
    def is_loaded(self) -> bool:
        """Whether it lies in the GPU's memory."""
        return bool(self.flags & elf.ALLOC)

    @property
    def is_written_once(self) -> bool:
        """Whether nobody writes to it once it is loaded."""
        return self.name in _WRITTEN_ONCE

    def add(self, section: Section) -> None:
        """Put a section of the object behind what is there.

        Raises:
            CompileError: it is of another kind than those that are there.
        """
        if section.kind != self.kind:
            raise refused(
                f"section {section.name} would become a part of {self.name}, which is of another "
                "kind; give it another name"
            )
        if self.pieces and section.entry_size != self.entry_size:
            self.entry_size = 0
            self.flags &= ~(elf.MERGE | elf.STRINGS)
        self.flags |= section.flags & (elf.WRITE | elf.EXECUTE)
        self.align = max(self.align, section.align)
        at = elf.up(self.nbytes, section.align)
        self.pieces.append(Piece(section, at))
        self.nbytes = at + section.nbytes
        if self.kind != elf.NOBITS:
            self.content += bytes(at - len(self.content)) + section.content


class Segment(NamedTuple):
    """A program header."""

    kind: int
    flags: int
    offset: int
    address: int
    nbytes_in_file: int
    nbytes: int
    align: int


def gathered(sections: list[Section]) -> list[Output]:
    """The code object's sections that are made of the object's, in the order of these."""
    made: dict[tuple[str, bool], Output] = {}
    for section in sections:
        if section.name in _LEFT_OUT:
            continue
        name = _name(section)
        output = made.get((name, section.is_loaded))
        if output is None:
            flags = section.flags & ~(elf.INFO_LINK | elf.RETAIN)
            output = Output(name, section.kind, flags, section.align, section.entry_size)
            made[name, section.is_loaded] = output
        output.add(section)
    return list(made.values())


def _name(section: Section) -> str:
    if section.is_loaded:
        for name in _GATHERED:
            if section.name == name or section.name.startswith(f"{name}."):
                return name
    return section.name


def in_order(outputs: list[Output]) -> list[Output]:
    """Those that are loaded, as ELF linkers order them: notes, what is read, code, what is written
    while it is loaded, other data; memory that the file has no bytes of comes last in each."""
    return sorted((each for each in outputs if each.is_loaded), key=_rank)


def _rank(output: Output) -> tuple[int, bool]:
    without_bytes = output.kind == elf.NOBITS
    if output.kind == elf.NOTE:
        return 0, False
    if output.flags & elf.EXECUTE:
        return 4 if output.flags & elf.WRITE else 3, without_bytes
    if output.flags & elf.WRITE:
        return 5 if output.is_written_once else 6, without_bytes
    return 2 if output.kind in (elf.PROGBITS, elf.NOBITS) else 1, without_bytes


def _access(output: Output) -> int:
    writes = elf.CAN_WRITE if output.flags & elf.WRITE else 0
    return elf.CAN_READ | writes | (elf.CAN_EXECUTE if output.flags & elf.EXECUTE else 0)


def place(outputs: list[Output]) -> list[Segment]:
    """Say where each of the outputs lies, which are those that are loaded, in order, in memory and
    in the file; gives the program headers.

    Raises:
        CompileError: they take more memory than there is.
    """
    parts = _parts(outputs)
    notes = [output for output in outputs if output.kind == elf.NOTE]
    if len({note.align for note in notes}) > 1:
        raise refused("its notes are aligned in several ways; align all to 4 bytes")
    # The headers themselves, what holds `.dynamic` and what is written once, and the stack's.
    count = 1 + len(parts) + 3 + bool(notes)
    headers_end = elf.HEADER.size + count * elf.PROGRAM_HEADER.size
    at = offset = headers_end
    segments = []
    for number, part in enumerate(parts):
        if number:
            at = elf.up(at, PAGE) + at % PAGE
        for output in part:
            output.address = at = elf.up(at, output.align)
            at += output.nbytes
        if at > _MOST_BYTES:
            raise refused(f"it would take {at} bytes of memory, more than any GPU has")
        first = part[0]
        start = 0 if number == 0 else first.address
        offset = 0 if number == 0 else offset + (first.address - offset) % PAGE
        end = headers_end if number == 0 else 0
        for output in part:
            if output.kind == elf.NOBITS:
                output.offset = offset + end
            else:
                output.offset = offset + output.address - start
                end = output.address - start + output.nbytes
        nbytes = at - start
        if first.is_written_once:
            nbytes = elf.up(at, PAGE) - start
        segments.append(Segment(elf.LOAD, _access(first), offset, start, end, nbytes, PAGE))
        offset += end
    return [
        _headers(count),
        *(each for each in segments if each.nbytes),
        *_others(outputs, notes, segments),
    ]


def _end(output: Output) -> int:
    return output.address + output.nbytes


def _parts(outputs: list[Output]) -> list[list[Output]]:
    """What lies in one segment: of the same access, and either all written once or nothing."""
    parts: list[list[Output]] = []
    for output in outputs:
        if parts and (_access(parts[-1][0]), parts[-1][0].is_written_once) == (
            _access(output),
            output.is_written_once,
        ):
            parts[-1].append(output)
        else:
            parts.append([output])
    return parts


def _headers(count: int) -> Segment:
    size, start = count * elf.PROGRAM_HEADER.size, elf.HEADER.size
    return Segment(elf.HEADERS, elf.CAN_READ, start, start, size, size, 8)


def _others(outputs: list[Output], notes: list[Output], segments: list[Segment]) -> list[Segment]:
    dynamic = next(output for output in outputs if output.kind == elf.DYNAMIC)
    once = next(
        each for each in segments if each.address <= dynamic.address < each.address + each.nbytes
    )
    read_write = elf.CAN_READ | elf.CAN_WRITE
    made = [
        _of(dynamic, elf.DYNAMIC_TABLE, read_write),
        once._replace(kind=elf.READ_ONLY_LATER, flags=elf.CAN_READ, align=1),
        Segment(elf.STACK, read_write, 0, 0, 0, 0, 0),
    ]
    if notes:
        first, last = notes[0], notes[-1]
        size = _end(last) - first.address
        made.append(
            Segment(elf.NOTES, elf.CAN_READ, first.offset, first.address, size, size, first.align)
        )
    return made


def _of(output: Output, kind: int, flags: int) -> Segment:
    size = output.nbytes
    return Segment(kind, flags, output.offset, output.address, size, size, output.align)
