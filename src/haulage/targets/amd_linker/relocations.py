"""What has to be written into the sections once it is known where all lies: the addresses of
symbols, and their distances. LLVM's "User Guide for AMDGPU Backend" has the table of them."""

import struct
from collections.abc import Callable
from typing import NamedTuple

from haulage.targets.amd_linker import elf
from haulage.targets.amd_linker.outputs import Output
from haulage.targets.amd_linker.reading import ObjectFile, Symbol, refused

# R_AMDGPU_NONE and so on.
_NONE, _ABS32_LO, _ABS32_HI, _ABS64, _REL32, _REL64, _ABS32, _GOTPCREL = range(8)
_GOTPCREL32_LO, _GOTPCREL32_HI, _REL32_LO, _REL32_HI = range(8, 12)

_ADDRESSES = (_ABS32_LO, _ABS32_HI, _ABS64, _ABS32)
_DISTANCES = (_REL32, _REL64, _REL32_LO, _REL32_HI)
# To a table in which the loader writes addresses.
_OF_TABLE = (_GOTPCREL, _GOTPCREL32_LO, _GOTPCREL32_HI)
_KNOWN = (*_ADDRESSES, *_DISTANCES, *_OF_TABLE)

_64_BITS = (_ABS64, _REL64)
_UPPER_BITS = (_ABS32_HI, _REL32_HI, _GOTPCREL32_HI)
# All of the value has to fit in 32 bits.
_ALL_IN_32 = (_ABS32, _REL32, _GOTPCREL)


class Use(NamedTuple):
    """A place in a section of the code object that wants something of a symbol."""

    output: Output
    at: int
    kind: int
    symbol: Symbol
    addend: int

    @property
    def is_of_table(self) -> bool:
        """Whether it wants to know where the symbol's address is kept."""
        return self.kind in _OF_TABLE

    @property
    def is_moved(self) -> bool:
        """Whether the loader has to write it, when it knows where the code object is."""
        return self.kind == _ABS64 and self.output.is_loaded and has_address(self.symbol)

    def write(self, wanted: int) -> None:
        """Write the value into the section.

        Raises:
            CompileError: it has more bits than there is room for.
        """
        if self.kind in _ALL_IN_32 and not -(2**31) <= wanted < 2**32:
            raise refused(
                f"{self.output.name} wants {self.symbol.name} within 32 bits, and it is {wanted:#x}"
            )
        if self.kind in _64_BITS:
            struct.pack_into("<Q", self.output.content, self.at, wanted % 2**64)
        else:
            part = wanted >> 32 if self.kind in _UPPER_BITS else wanted
            struct.pack_into("<I", self.output.content, self.at, part % 2**32)


def has_address(symbol: Symbol) -> bool:
    """Whether a symbol is somewhere in the code object, rather than a number."""
    return symbol.section != elf.ABSOLUTE


def uses(object_: ObjectFile, outputs: list[Output]) -> list[Use]:
    """All that has to be written.

    Raises:
        CompileError: some of it is not known here, or cannot be.
    """
    found = []
    for output in outputs:
        for section, start in output.pieces:
            for offset, kind, symbol, addend in object_.relocations.get(section.number, ()):
                if kind == _NONE:
                    continue
                use = Use(output, start + offset, kind, object_.symbols[symbol], addend)
                nbytes = 8 if kind in _64_BITS else 4
                if offset + nbytes > len(section.content):
                    raise refused(
                        "the object is damaged: something is to be written at "
                        f"{offset} of {section.name}, which has {len(section.content)} bytes"
                    )
                _check(use, section.name)
                found.append(use)
    return found


def _check(use: Use, section: str) -> None:
    name = use.symbol.name or f"symbol {use.symbol.number}"
    if use.symbol.number == 0:
        raise refused(f"{section} wants the address of nothing")
    if use.kind not in _KNOWN:
        raise refused(
            f"{section} wants {name} in a way that is not known here (relocation {use.kind})"
        )
    if not use.output.is_loaded:
        if use.kind not in _ADDRESSES:
            raise refused(
                f"{section} is not loaded and wants the distance to {name} (relocation {use.kind})"
            )
        return
    if has_address(use.symbol):
        if use.kind in _ADDRESSES and use.kind != _ABS64:
            raise refused(
                f"{section} wants the address of {name} in 32 bits, and the loader decides where "
                "that is; compile position-independent code (reloc='pic')"
            )
        if use.is_moved and not use.output.flags & elf.WRITE:
            raise refused(
                f"{section} has the address of {name}, which the loader has to write, and is "
                "read-only; compile position-independent code (reloc='pic')"
            )
    elif use.kind in _DISTANCES:
        raise refused(f"{section} wants the distance to {name}, which is a number and no place")


def write(
    uses_: list[Use], address_of: Callable[[Symbol], int], slot_of: Callable[[Symbol], int]
) -> list[tuple[int, int]]:
    """Write everything but what the loader has to; gives that: addresses, and the addresses in the
    code object that are wanted there.

    Raises:
        CompileError: something does not fit where it is wanted.
    """
    moved = []
    for use in uses_:
        here = use.output.address + use.at
        if use.is_moved:
            moved.append((here, (address_of(use.symbol) + use.addend) % 2**64))
            continue
        wanted = (slot_of if use.is_of_table else address_of)(use.symbol) + use.addend
        use.write(wanted if use.kind in _ADDRESSES else wanted - here)
    return moved
