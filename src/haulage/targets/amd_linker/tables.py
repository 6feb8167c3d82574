"""The tables of a code object: of symbols, of their names, and those by which names are found."""

import struct
from typing import NamedTuple

from haulage.targets.amd_linker import elf
from haulage.targets.amd_linker.reading import Symbol

# Which bits of a hash the filter of `.gnu.hash` looks at besides the lowest.
_SHIFT = 26


class Entry(NamedTuple):
    """A symbol of the code object: in which of its sections, or ABSOLUTE, and its address."""

    symbol: Symbol
    section: int
    address: int


class Names:
    """A table of names, each there once."""

    def __init__(self, names: list[str]) -> None:
        self.content = bytearray(1)
        self._at = {"": 0}
        for name in names:
            if name not in self._at:
                self._at[name] = len(self.content)
                self.content += name.encode() + b"\0"

    def at(self, name: str) -> int:
        """Where a name begins."""
        return self._at[name]


def symbol_table(entries: list[Entry], names: Names) -> bytearray:
    """A table of symbols, behind the one that ELF has in all of them."""
    made = bytearray(elf.SYMBOL_ENTRY.size)
    for symbol, section, address in entries:
        binding = symbol.binding if symbol.is_exported else elf.LOCAL
        made += elf.SYMBOL_ENTRY.pack(
            names.at(symbol.name),
            binding << 4 | symbol.kind,
            symbol.visibility,
            section,
            address,
            symbol.nbytes,
        )
    return made


def by_buckets(symbols: list[Symbol]) -> list[Symbol]:
    """The exported symbols in the order that `gnu_hash` wants."""
    buckets = _buckets(len(symbols))
    return sorted(symbols, key=lambda symbol: _gnu(symbol.name) % buckets)


def gnu_hash(symbols: list[Symbol]) -> bytearray:
    """`.gnu.hash` of the exported symbols, which are in that order and are all there are."""
    nbuckets, words = _buckets(len(symbols)), _filter_words(len(symbols))
    bits = [0] * words
    buckets, values = [0] * nbuckets, []
    hashes = [_gnu(symbol.name) for symbol in symbols]
    for number, value in enumerate(hashes):
        bits[value // 64 % words] |= 1 << value % 64 | 1 << (value >> _SHIFT) % 64
        buckets[value % nbuckets] = buckets[value % nbuckets] or number + 1
        is_last = number + 1 == len(hashes) or hashes[number + 1] % nbuckets != value % nbuckets
        values.append(value & ~1 | is_last)
    return bytearray(
        struct.pack("<IIII", nbuckets, 1, words, _SHIFT)
        + struct.pack(f"<{words}Q{nbuckets}I{len(values)}I", *bits, *buckets, *values)
    )


def _buckets(count: int) -> int:
    return max(count // 4, 1)


def _filter_words(count: int) -> int:
    """Words of the filter, a power of two: at least 12 bits for each symbol."""
    return 1 << (count * 12 // 64).bit_length() if count else 1


def _gnu(name: str) -> int:
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def system_v_hash(symbols: list[Symbol]) -> bytearray:
    """`.hash` of the exported symbols, which are all there are."""
    count = len(symbols) + 1
    buckets, chains = [0] * count, [0] * count
    for number, symbol in enumerate(symbols, 1):
        bucket = _system_v(symbol.name) % count
        chains[number], buckets[bucket] = buckets[bucket], number
    return bytearray(struct.pack(f"<II{2 * count}I", count, count, *buckets, *chains))


def _system_v(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & 0x0FFFFFFF
    return value
