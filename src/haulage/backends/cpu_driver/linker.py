"""Links object files for x86-64 into this process without LLVM, as far as kernels need it.

A process that finds all its code on disk need not load LLVM, which takes longer than all of this.
What is not known here (`CannotLink`) is LLVM's to link. The relocations are those of the System V
ABI's supplement for AMD64, section 4.4.
"""

import ctypes
import functools
import mmap
import platform
import struct
import sys
from collections.abc import Callable

from haulage.backends.cpu_driver import elf
from haulage.interruption import on_error

_X86_64 = 62  # e_machine EM_X86_64
_ALLOCATED, _WRITTEN, _THREAD_LOCAL = 0x2, 0x1, 0x400  # sh_flags
_NO_BITS = 8  # sh_type SHT_NOBITS
# sh_type SHT_X86_64_UNWIND: tables for unwinding, which nobody does through kernels.
_UNWIND = 0x70000001
_RESERVED = 0xFF00  # st_shndx from here on is no section

_ABSOLUTE, _RELATIVE, _CALL = 1, 2, 4  # R_X86_64_64, _PC32, _PLT32
_OF_TABLE = (9, 41, 42)  # R_X86_64_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX
_RELATIVE_64 = 24  # R_X86_64_PC64
# jmp *(%rip) to the address that follows.
_JUMP = b"\xff\x25\x00\x00\x00\x00"

_PAGE = mmap.PAGESIZE


class CannotLink(Exception):
    """The object holds something that is not known here, or this is no such system."""


def is_possible() -> bool:
    """Whether objects can be linked here at all."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


class Linked:
    """Code in memory; `linked[name]` is the address of a symbol. It stays until `close`."""

    def __init__(self, address: int, nbytes: int, symbols: dict[str, int]) -> None:
        self._address, self._nbytes = address, nbytes
        self._symbols = symbols

    def __getitem__(self, name: str) -> int:
        return self._symbols[name]

    def close(self) -> None:
        """Give the memory back; nothing of it may run any more."""
        _library().munmap(self._address, self._nbytes)


def link(code: bytes, find: Callable[[str], int | None]) -> Linked:
    """Put an object's sections into memory and tie them together.

    `find` gives the address of a symbol that the object leaves to others.

    Raises:
        CannotLink: something in it is not known here, or a symbol that nobody has.
    """
    if not is_possible() or elf.machine(code) != _X86_64:
        raise CannotLink("no x86-64 Linux")
    sections, symbols = elf.sections(code), elf.all_symbols(code)
    relocations = [each for each in elf.relocations(code) if _is_loaded(sections[each.target])]
    places, end_of_code = _places(sections, 0, written=False)
    # A jump and an address for each symbol that is reached from afar.
    outside = sorted({each.symbol for each in relocations if each.kind in (_CALL, *_OF_TABLE)})
    table = end_of_code
    slots = {number: table + 16 * place for place, number in enumerate(outside)}
    start_of_data = -(-(table + 16 * len(outside)) // _PAGE) * _PAGE
    data, end = _places(sections, start_of_data, written=True)
    places.update(data)
    image = bytearray(max(end, 1))
    for number, at in places.items():
        section = sections[number]
        if section.kind != _NO_BITS:
            image[at : at + section.size] = code[section.offset : section.offset + section.size]

    base = _room(len(image))
    with on_error(_library().munmap, base, len(image)):
        addresses: dict[int, int] = {}

        def address(number: int) -> int:
            if number not in addresses:
                addresses[number] = _address(symbols[number], base, places, find)
            return addresses[number]

        for number, at in slots.items():
            image[at : at + 16] = _JUMP + b"\0\0" + bytes(8)
            struct.pack_into("<Q", image, at + 6, address(number))
        for each in relocations:
            _relocate(image, base, places[each.target], each, address, slots)
        ctypes.memmove(base, bytes(image), len(image))
        if start_of_data and _library().mprotect(
            base, start_of_data, mmap.PROT_READ | mmap.PROT_EXEC
        ):
            raise CannotLink("the system gives no memory for code")
    exported = {
        symbol.name: base + places[symbol.section] + symbol.value
        for symbol in symbols
        if symbol.name and not symbol.is_local and symbol.section in places
    }
    return Linked(base, len(image), exported)


def _is_loaded(section: elf.Section) -> bool:
    return bool(section.flags & _ALLOCATED) and section.kind != _UNWIND


def _places(sections: list[elf.Section], at: int, *, written: bool) -> tuple[dict[int, int], int]:
    """Where each section of a kind goes, and the end of the last one."""
    places: dict[int, int] = {}
    for number, section in enumerate(sections):
        if section.flags & _THREAD_LOCAL:
            raise CannotLink("thread-local memory")
        if _is_loaded(section) and bool(section.flags & _WRITTEN) == written:
            if section.align > _PAGE:
                raise CannotLink(f"an alignment of {section.align} bytes")
            align = max(section.align, 16)
            at = -(-at // align) * align
            places[number] = at
            at += section.size
    return places, -(-at // 16) * 16


def _address(
    symbol: elf.Symbol, base: int, places: dict[int, int], find: Callable[[str], int | None]
) -> int:
    if symbol.section == elf.UNDEFINED:
        found = find(symbol.name)
        if found is None:
            raise CannotLink(f"nobody has {symbol.name}")
        return found
    if symbol.section >= _RESERVED or symbol.section not in places:
        raise CannotLink(f"{symbol.name} is in no section that is loaded")
    return base + places[symbol.section] + symbol.value


def _relocate(
    image: bytearray,
    base: int,
    section: int,
    each: elf.Relocation,
    address: Callable[[int], int],
    slots: dict[int, int],
) -> None:
    at = section + each.offset
    if each.kind == _ABSOLUTE:
        struct.pack_into("<Q", image, at, (address(each.symbol) + each.addend) % 2**64)
        return
    if each.kind == _RELATIVE_64:
        struct.pack_into("<q", image, at, address(each.symbol) + each.addend - base - at)
        return
    if each.kind in _OF_TABLE:
        target = base + slots[each.symbol] + 6
    elif each.kind in (_RELATIVE, _CALL):
        target = address(each.symbol)
        if each.kind == _CALL and not base <= target < base + len(image):
            target = base + slots[each.symbol]
    else:
        raise CannotLink(f"relocation {each.kind}")
    distance = target + each.addend - base - at
    if not -(2**31) <= distance < 2**31:
        raise CannotLink("a symbol that is too far away")
    struct.pack_into("<i", image, at, distance)


def _room(nbytes: int) -> int:
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    at = _library().mmap(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, private, -1, 0)
    if at == ctypes.c_void_p(-1).value:
        raise CannotLink("no memory")
    return int(at)


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    size = ctypes.c_size_t
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, size, *[ctypes.c_int] * 3, ctypes.c_long)
    library.munmap.argtypes = (ctypes.c_void_p, size)
    library.mprotect.argtypes = (ctypes.c_void_p, size, ctypes.c_int)
    return library


def address_of(name: str) -> int | None:
    """The address of a symbol that this process has."""
    try:
        function = getattr(_library(), name)
    except AttributeError:
        return None
    return ctypes.cast(function, ctypes.c_void_p).value
