"""A code object as ROCm's loader takes it (`executable.cpp` and `amd_hsa_code.cpp` of its HSA
runtime): it looks at the file's headers, the loaded segments, `.symtab`, and relocations without a
target section. What it demands is asserted; the rest of ELF is ignored, as there."""

import struct
from dataclasses import dataclass, field

PAGE = 4096

_LOAD, _NOTE = 1, 4
_SYMTAB, _RELA, _NOTES = 2, 4, 7
_RELATIVE64, _ABS64 = 13, 3
_OBJECT, _FUNCTION = 1, 2


@dataclass
class Found:
    """A symbol of the code object, at its address in memory."""

    name: str
    kind: int
    address: int
    nbytes: int


@dataclass
class Loaded:
    """A code object in memory from `base` on; `variables` are all that hipModuleGetGlobal finds,
    `kernels` all descriptors, without `.kd`."""

    code: bytes
    base: int
    memory: bytearray = field(default_factory=bytearray)
    variables: dict[str, Found] = field(default_factory=dict)
    kernels: dict[str, Found] = field(default_factory=dict)
    functions: dict[str, Found] = field(default_factory=dict)
    flags: int = 0

    def read(self, address: int, nbytes: int) -> bytes:
        """What is in memory."""
        at = address - self.base
        assert 0 <= at <= at + nbytes <= len(self.memory), hex(address)
        return bytes(self.memory[at : at + nbytes])

    def word(self, address: int) -> int:
        """Eight bytes of it."""
        return int.from_bytes(self.read(address, 8), "little")

    def entry(self, kernel: str) -> int:
        """Where a kernel's code begins, as the hardware gets it from the descriptor."""
        descriptor = self.kernels[kernel].address
        (distance,) = struct.unpack("<q", self.read(descriptor + 16, 8))
        return descriptor + distance


def segments(code: bytes) -> list[tuple[int, ...]]:
    """(kind, flags, offset, address, physical address, bytes in the file, bytes, alignment)."""
    start, size, count = *struct.unpack_from("<Q", code, 32), *struct.unpack_from("<HH", code, 54)
    return [struct.unpack_from("<IIQQQQQQ", code, start + i * size) for i in range(count)]


def sections(code: bytes) -> list[tuple[int, ...]]:
    """(name, kind, flags, address, offset, bytes, link, info, alignment, bytes of an entry)."""
    (start,), (size, count) = (
        struct.unpack_from("<Q", code, 40),
        struct.unpack_from("<HH", code, 58),
    )
    return [struct.unpack_from("<IIQQQQIIQQ", code, start + i * size) for i in range(count)]


def section_name(code: bytes, header: tuple[int, ...]) -> str:
    """The name of a section."""
    (number,) = struct.unpack_from("<H", code, 62)
    return text(code, sections(code)[number][4] + header[0])


def text(code: bytes, at: int) -> str:
    """A name in the file."""
    return code[at : code.index(b"\0", at)].decode()


def memory(code: bytes) -> bytearray:
    """What lies in memory before anything is relocated, from address 0 on."""
    parts = [each for each in segments(code) if each[0] == _LOAD]
    assert parts, "no segment to load"
    assert parts[0][3] == 0
    # The loader takes the last segment for the highest.
    room = bytearray(parts[-1][3] + parts[-1][6])
    end = 0
    for _, _, offset, address, _, in_file, nbytes, align in parts:
        assert in_file <= nbytes
        assert offset + in_file <= len(code)
        assert end <= address <= address + nbytes <= len(room)
        assert align == PAGE
        assert offset % PAGE == address % PAGE
        # A page has one kind of access.
        assert end == 0 or address // PAGE > (end - 1) // PAGE
        end = address + nbytes
        room[address : address + in_file] = code[offset : offset + in_file]
    return room


def load(code: bytes, base: int = 0x7F00_0000_0000) -> Loaded:
    """Load a code object at an address."""
    assert code[:9] == b"\x7fELF\x02\x01\x01\x40\x03", code[:9]
    kind, machine, version = struct.unpack_from("<HHI", code, 16)
    assert (kind, machine, version) == (3, 224, 1)
    (flags,) = struct.unpack_from("<I", code, 48)
    headers = sections(code)
    _check_size(code, headers)
    made = Loaded(code, base, memory(code), flags=flags)
    assert sum(each[1] == _NOTES for each in headers) == 1
    (symbols,) = (each for each in headers if each[1] == _SYMTAB)
    names = headers[symbols[6]][4]
    for at in range(symbols[4] + 24, symbols[4] + symbols[5], 24):
        _take_symbol(made, headers, names, struct.unpack_from("<IBBHQQ", code, at))
    for header in headers:
        if header[1] == _RELA:
            _relocate(made, headers, header)
    return made


def _check_size(code: bytes, headers: list[tuple[int, ...]]) -> None:
    """The loader is given no size: it takes the end of what lies last in the file."""
    (table,) = struct.unpack_from("<Q", code, 40)
    last, end = table, table + 64 * len(headers)
    for each in headers:
        if each[4] > last:
            last = each[4]
            end = last + (0 if each[1] == 8 else each[5])
    assert end == len(code)


def _take_symbol(
    made: Loaded, headers: list[tuple[int, ...]], names: int, symbol: tuple[int, ...]
) -> None:
    name_at, info, _, section, value, nbytes = symbol
    name, kind = text(made.code, names + name_at), info & 15
    if info >> 4 == 0 or kind not in (_OBJECT, _FUNCTION):
        return
    found = Found(name, kind, made.base + value, nbytes)
    if kind == _FUNCTION:
        made.functions[name] = found
        return
    assert 0 < section < len(headers), f"{name} has no section"
    start, size = headers[section][3], headers[section][5]
    assert start <= value <= value + nbytes <= start + size, name
    assert name not in {*made.variables, *(f"{each}.kd" for each in made.kernels)}, "there twice"
    if name.endswith(".kd"):
        assert value % 64 == 0
        assert nbytes == 64
        made.kernels[name.removesuffix(".kd")] = found
    else:
        made.variables[name] = found


def _relocate(made: Loaded, headers: list[tuple[int, ...]], header: tuple[int, ...]) -> None:
    assert header[7] == 0, "relocations with a target section are passed over"
    symbols = headers[header[6]]
    for at in range(header[4], header[4] + header[5], 24):
        where, info, addend = struct.unpack_from("<QQq", made.code, at)
        if info & 0xFFFFFFFF == _RELATIVE64:
            value = made.base + addend
        else:
            assert info & 0xFFFFFFFF == _ABS64, info
            (of,) = struct.unpack_from("<Q", made.code, symbols[4] + 24 * (info >> 32) + 8)
            value = made.base + of + addend
        assert where + 8 <= len(made.memory)
        made.memory[where : where + 8] = value.to_bytes(8, "little")
