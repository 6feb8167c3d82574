"""Reads LLVM's object, and refuses what no code object can be made of, with the reason."""

from typing import NamedTuple

from haulage.errors import CompileError
from haulage.targets.amd_linker import elf

# The loader puts a code object at a multiple of this, so nothing in it can be aligned to more.
PAGE = 4096
# More than any GPU has; sums of such sizes stay below 2**64.
_MOST_BYTES = 1 << 44

_KNOWN_FLAGS = (
    elf.WRITE
    | elf.ALLOC
    | elf.EXECUTE
    | elf.MERGE
    | elf.STRINGS
    | elf.INFO_LINK
    | elf.RETAIN
    | elf.EXCLUDE
)
_KNOWN_KINDS = (
    elf.PROGBITS,
    elf.NOBITS,
    elf.NOTE,
    elf.SYMTAB,
    elf.STRTAB,
    elf.RELA,
    elf.ADDRESS_SIGNIFICANCE,
)
_CONTENT = (elf.PROGBITS, elf.NOBITS, elf.NOTE)
_CONSTRUCTORS = (elf.INIT_ARRAY, elf.FINI_ARRAY, elf.PREINIT_ARRAY)
# What has the same use, in sections of an ordinary kind.
_NAMED_CONSTRUCTORS = (".ctors", ".dtors")
# Sections that the linker makes, which lie in memory.
_OWN = (".dynsym", ".dynstr", ".dynamic", ".hash", ".gnu.hash", ".rela.dyn", ".got")


class Section(NamedTuple):
    """A section by its number; `content` is empty where the file has none (`.bss`)."""

    number: int
    name: str
    kind: int
    flags: int
    align: int
    entry_size: int
    nbytes: int
    content: bytes

    @property
    def is_loaded(self) -> bool:
        """Whether it is part of what lies in the GPU's memory."""
        return bool(self.flags & elf.ALLOC)


class Symbol(NamedTuple):
    """A symbol by its number: its value is an offset in the section of that number, or if that is
    ABSOLUTE a value."""

    number: int
    name: str
    binding: int
    kind: int
    visibility: int
    section: int
    value: int
    nbytes: int

    @property
    def is_exported(self) -> bool:
        """Whether others find it in the code object."""
        return self.binding != elf.LOCAL and self.visibility in (elf.DEFAULT, elf.PROTECTED)


class Relocation(NamedTuple):
    """At `offset` of a section, what the symbol of that number is has to be written."""

    offset: int
    kind: int
    symbol: int
    addend: int


class ObjectFile(NamedTuple):
    """What is linked: the sections with bytes, the symbols by number, and for sections by number
    what has to be written into them. `flags` name the GPU (`e_flags`)."""

    flags: int
    sections: list[Section]
    symbols: list[Symbol]
    relocations: dict[int, list[Relocation]]


def refused(why: str) -> CompileError:
    """The error of an object that cannot be linked."""
    return CompileError(f"code for an AMD GPU cannot be linked: {why}")


def read(code: bytes) -> ObjectFile:
    """The parts of a relocatable object.

    Raises:
        CompileError: it is no such object, a damaged one, or one with what cannot be linked.
    """
    flags, headers, names = _header(code)
    sections = [_section(code, number, header, names) for number, header in enumerate(headers)]
    # A damaged table could name the same bytes again and again.
    if sum(len(section.content) for section in sections) > len(code):
        raise _damaged("its sections overlap")
    symbols = _symbols(sections, headers)
    relocations: dict[int, list[Relocation]] = {}
    for section, header in zip(sections, headers, strict=True):
        if section.kind == elf.RELA:
            target = header[7]
            if not 0 < target < len(sections):
                raise _damaged(f"{section.name} is of section {target} of {len(sections)}")
            found = _relocations(section, sections[target], len(symbols))
            relocations.setdefault(target, []).extend(found)
    kept = [each for each in sections if each.kind in _CONTENT and not each.flags & elf.EXCLUDE]
    return ObjectFile(flags, kept, symbols, relocations)


def _damaged(what: str) -> CompileError:
    return refused(f"the object is damaged: {what}")


def _header(code: bytes) -> tuple[int, list[tuple[int, ...]], bytes]:
    """(e_flags, section headers, their names)."""
    if code[:8] in (b"!<arch>\n", b"!<thin>\n"):
        raise refused("this is an archive of objects; link one object, of one module")
    if code[:4] in (b"BC\xc0\xde", b"\xde\xc0\x17\x0b"):
        raise refused("this is LLVM bitcode; compile it to an object first")
    if code[:7] != elf.IDENTITY:
        raise refused(
            f"expected a 64-bit little-endian ELF object, got {len(code)} bytes that begin with "
            f"{code[:7]!r}"
        )
    if len(code) < elf.HEADER.size:
        raise _damaged(f"it has {len(code)} bytes")
    (_, kind, machine, _, _, _, table, flags, _, _, _, entry_size, count, names_in) = (
        elf.HEADER.unpack_from(code)
    )
    if machine != elf.MACHINE:
        raise refused(f"the object is for machine {machine}, not for an AMD GPU ({elf.MACHINE})")
    if code[7] != elf.HSA:
        raise refused(
            f"the object is for another system (EI_OSABI {code[7]}); compile it for the triple "
            "amdgcn-amd-amdhsa"
        )
    if code[8] != elf.CODE_OBJECT_5:
        raise refused(
            f"EI_ABIVERSION is {code[8]}, and that of code object v5 is {elf.CODE_OBJECT_5}; "
            'compile it with the module flag "amdhsa_code_object_version" at 500'
        )
    if kind != elf.RELOCATABLE:
        raise refused(f"this is no relocatable object (e_type {kind}); is it linked already?")
    if entry_size != elf.SECTION_HEADER.size or not 0 < names_in < count:
        raise _damaged(f"{count} section headers of {entry_size} bytes, names in {names_in}")
    headers = [
        elf.SECTION_HEADER.unpack(each)
        for each in _entries(_part(code, table, count * entry_size, "section headers"), entry_size)
    ]
    _, _, _, _, offset, nbytes, *_ = headers[names_in]
    return flags, headers, _part(code, offset, nbytes, "names of sections")


def _part(code: bytes, offset: int, nbytes: int, what: str) -> bytes:
    if offset + nbytes > len(code):
        raise _damaged(f"{what}: {nbytes} bytes from {offset} on, of {len(code)}")
    return code[offset : offset + nbytes]


def _entries(table: bytes, entry_size: int) -> list[bytes]:
    return [table[at : at + entry_size] for at in range(0, len(table), entry_size)]


def _name(names: bytes, at: int, what: str) -> str:
    end = names.find(b"\0", at)
    if end < 0:
        raise _damaged(f"the name of {what} is not among {len(names)} bytes of names")
    try:
        return names[at:end].decode()
    except UnicodeDecodeError as error:
        raise _damaged(f"the name of {what} is no UTF-8") from error


def _section(code: bytes, number: int, header: tuple[int, ...], names: bytes) -> Section:
    name_at, kind, flags, _, offset, nbytes, _, _, align, entry_size = header
    if number == 0:
        return Section(0, "", 0, 0, 1, 0, 0, b"")
    name = _name(names, name_at, f"section {number}")
    what = f"section {name}"
    if kind == elf.GROUP or flags & elf.IN_GROUP:
        raise refused(
            f"{what} belongs to a COMDAT group; give what is in it internal linkage, as there is "
            "one object only"
        )
    if flags & elf.THREAD_LOCAL:
        raise refused(
            f"{what} has thread-local variables, which GPUs do not have; use local arrays"
        )
    if kind in _CONSTRUCTORS or ".".join(name.split(".")[:2]) in _NAMED_CONSTRUCTORS:
        raise refused(
            f"{what} names functions to call first, and nobody calls them; leave them out"
        )
    if flags & elf.COMPRESSED:
        raise refused(f"{what} is compressed; compile without compressed debugging information")
    if kind not in _KNOWN_KINDS or flags & ~_KNOWN_FLAGS:
        raise refused(f"{what} is of a kind that is not known here (type {kind}, flags {flags:#x})")
    if kind in _CONTENT and name in _OWN:
        raise refused(f"{what} has the name of one that the linker makes; give it another")
    align = align or 1
    if align & (align - 1):
        raise _damaged(f"{what} is aligned to {align}")
    if align > PAGE:
        raise refused(
            f"{what} wants addresses that are multiples of {align}, and the loader gives multiples "
            f"of {PAGE}; ask for no more of any variable"
        )
    if nbytes > _MOST_BYTES:
        raise refused(f"{what} has {nbytes} bytes, more than any GPU has")
    content = b"" if kind == elf.NOBITS else _part(code, offset, nbytes, what)
    return Section(number, name, kind, flags, align, entry_size, nbytes, content)


def _symbols(sections: list[Section], headers: list[tuple[int, ...]]) -> list[Symbol]:
    tables = [section for section in sections if section.kind == elf.SYMTAB]
    if len(tables) != 1:
        raise _damaged(f"it has {len(tables)} symbol tables")
    table = tables[0]
    names_in = headers[table.number][6]
    if names_in >= len(sections) or len(table.content) % elf.SYMBOL_ENTRY.size:
        raise _damaged(f"{table.name} has {table.nbytes} bytes and its names in {names_in}")
    names = sections[names_in].content
    found: list[Symbol] = []
    for number, entry in enumerate(_entries(table.content, elf.SYMBOL_ENTRY.size)):
        name_at, info, other, section, value, nbytes = elf.SYMBOL_ENTRY.unpack(entry)
        name = _name(names, name_at, f"symbol {number}") if name_at else ""
        symbol = Symbol(number, name, info >> 4, info & 15, other & 3, section, value, nbytes)
        if number:
            _check_symbol(symbol, sections)
        found.append(symbol)
    exported = [symbol.name for symbol in found[1:] if symbol.binding != elf.LOCAL]
    if len(set(exported)) < len(exported):
        twice = next(name for name in exported if exported.count(name) > 1)
        raise refused(f"{twice} is defined twice")
    return found


def _check_symbol(symbol: Symbol, sections: list[Section]) -> None:
    name = symbol.name or f"number {symbol.number}"
    if symbol.kind == elf.OF_THREAD:
        raise refused(f"{name} is a thread-local variable, which GPUs do not have")
    if symbol.section == elf.UNDEFINED:
        raise refused(
            f"{name} is undefined; define it in the same module, or link the module with what "
            "defines it, such as AMD's device libraries, before it is compiled"
        )
    if symbol.section == elf.COMMON:
        raise refused(f"{name} is a common symbol; give the variable another linkage")
    if symbol.section == elf.SHARED_MEMORY:
        raise refused(
            f"{name} is shared memory without an address; LLVM gives it one if a kernel of the "
            "module uses it"
        )
    if symbol.kind > elf.FILE or symbol.binding > elf.WEAK:
        raise refused(
            f"symbol {name} is of a kind that is not known here (type {symbol.kind}, binding "
            f"{symbol.binding})"
        )
    if "@" in symbol.name:
        raise refused(f"{name} has a version, and the loader knows none; take it away")
    if symbol.binding != elf.LOCAL and not symbol.name:
        raise _damaged(f"symbol {name} is exported without a name")
    if symbol.section == elf.ABSOLUTE:
        if symbol.is_exported and symbol.kind == elf.OBJECT:
            raise refused(f"{name} is an exported variable without memory; make it internal")
        return
    if symbol.section >= min(len(sections), elf.RESERVED):
        raise _damaged(f"symbol {name} is in section {symbol.section} of {len(sections)}")
    if symbol.value + symbol.nbytes > sections[symbol.section].nbytes:
        raise refused(
            f"symbol {name}, of {symbol.nbytes} bytes, reaches out of section "
            f"{sections[symbol.section].name}; an alias of a part of a variable has the size of "
            "all of it: name the variable itself"
        )


def _relocations(section: Section, target: Section, nsymbols: int) -> list[Relocation]:
    if len(section.content) % elf.RELOCATION_ENTRY.size:
        raise _damaged(f"{section.name} has {section.nbytes} bytes")
    found = []
    for entry in _entries(section.content, elf.RELOCATION_ENTRY.size):
        offset, info, addend = elf.RELOCATION_ENTRY.unpack(entry)
        if info >> 32 >= nsymbols:
            raise _damaged(f"{section.name} names symbol {info >> 32} of {nsymbols}")
        found.append(Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend))
    return found
