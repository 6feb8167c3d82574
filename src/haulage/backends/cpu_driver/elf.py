"""What stands in a 64-bit ELF object file (System V ABI, chapters 4 and 5)."""

import struct
from typing import NamedTuple

from haulage.errors import DeviceError

_SYMBOL_TABLE, _RELOCATIONS = 2, 4  # sh_type SHT_SYMTAB, SHT_RELA
UNDEFINED = 0  # st_shndx SHN_UNDEF
_FUNCTION = 2  # STT_FUNC
_SECTION_HEADER, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")


def symbols(code: bytes) -> tuple[list[str], list[str]]:
    """(functions that an object exports, names that it leaves to others).

    Raises:
        DeviceError: the bytes are no little-endian 64-bit ELF object, or a damaged one.
    """
    if code[:6] != b"\x7fELF\x02\x01":
        raise DeviceError(
            f"the cpu device takes 64-bit little-endian ELF objects; these {len(code)} bytes "
            f"begin with {code[:6]!r}"
        )
    try:
        return _symbols(code)
    except (struct.error, ValueError, IndexError) as error:
        raise DeviceError(f"the cpu device was given a damaged ELF object: {error}") from error


def _symbols(code: bytes) -> tuple[list[str], list[str]]:
    exported, missing = [], []
    for symbol in _table(code, sections(code)):
        if not symbol.name or symbol.is_local:
            continue
        if symbol.section == UNDEFINED:
            missing.append(symbol.name)
        elif symbol.kind == _FUNCTION:
            exported.append(symbol.name)
    return exported, missing


class Section(NamedTuple):
    """A section's header; `link` and `info` are numbers of other sections."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


class Symbol(NamedTuple):
    """A symbol: its value is an offset in the section with a number."""

    name: str
    kind: int
    is_local: bool
    section: int
    value: int


class Relocation(NamedTuple):
    """At `offset` of the section `target`, what the symbol `symbol` is has to be written."""

    target: int
    offset: int
    kind: int
    symbol: int
    addend: int


def machine(code: bytes) -> int:
    """The number of the instruction set (`e_machine`)."""
    found: int = struct.unpack_from("<H", code, 18)[0]
    return found


def sections(code: bytes) -> list[Section]:
    """All section headers, in order."""
    (table_offset,) = struct.unpack_from("<Q", code, 40)
    entry_size, count = struct.unpack_from("<HH", code, 58)
    places = range(table_offset, table_offset + count * entry_size, entry_size)
    return [Section(*_SECTION_HEADER.unpack_from(code, at)) for at in places]


def all_symbols(code: bytes) -> list[Symbol]:
    """The symbols by number, which relocations name."""
    return _table(code, sections(code))


def relocations(code: bytes) -> list[Relocation]:
    """What has to be written where, once it is known where everything lies."""
    found = []
    for section in sections(code):
        if section.kind == _RELOCATIONS:
            for at in range(section.offset, section.offset + section.size, _RELOCATION.size):
                offset, info, addend = _RELOCATION.unpack_from(code, at)
                kind, symbol = info & 0xFFFFFFFF, info >> 32
                found.append(Relocation(section.info, offset, kind, symbol, addend))
    return found


def _table(code: bytes, headers: list[Section]) -> list[Symbol]:
    found = []
    for header in headers:
        if header.kind != _SYMBOL_TABLE:
            continue
        names = headers[header.link].offset
        for at in range(header.offset, header.offset + header.size, _SYMBOL.size):
            name_at, info, _, section, value, _ = _SYMBOL.unpack_from(code, at)
            start = names + name_at
            name = code[start : code.index(b"\0", start)].decode() if name_at else ""
            found.append(Symbol(name, info & 15, info >> 4 == 0, section, value))
    return found
