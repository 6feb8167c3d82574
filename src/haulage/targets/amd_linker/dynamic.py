"""The sections of a code object that no object has: what a loader looks at."""

from haulage.targets.amd_linker import elf, tables
from haulage.targets.amd_linker.outputs import Output
from haulage.targets.amd_linker.reading import Symbol
from haulage.targets.amd_linker.tables import Names

_RELATIVE64 = 13  # R_AMDGPU_RELATIVE64

# d_tag, and the value of DT_FLAGS that says that symbols are bound.
_FLAGS, _SYMBOLIC = 30, 2
_RELOCATIONS, _RELOCATIONS_SIZE, _RELOCATION_SIZE, _RELATIVE_COUNT = 7, 8, 9, 0x6FFFFFF9
_SYMBOLS, _SYMBOL_SIZE, _NAMES, _NAMES_SIZE = 6, 11, 5, 10
_HASH, _GNU_HASH, _END = 4, 0x6FFFFEF5, 0


def sections(exported: list[Symbol], names: Names, nmoved: int, nslots: int) -> dict[str, Output]:
    """Them by name, of the right sizes: what depends on addresses is zeros so far.

    Args:
        exported: the symbols that others see, in the order of `tables.by_buckets`.
        nmoved: how many addresses the loader has to write.
        nslots: how many are in the table of addresses.
    """
    read, write = elf.ALLOC, elf.ALLOC | elf.WRITE
    symbol, move, entry = elf.SYMBOL_ENTRY.size, elf.RELOCATION_ENTRY.size, elf.DYNAMIC_ENTRY.size
    room = bytearray
    made = [
        Output(
            ".dynsym", elf.DYNSYM, read, 8, symbol, ".dynstr", 1, room(symbol * (len(exported) + 1))
        ),
        Output(".gnu.hash", elf.GNU_HASH, read, 8, 0, ".dynsym", 0, tables.gnu_hash(exported)),
        Output(".hash", elf.HASH, read, 4, 4, ".dynsym", 0, tables.system_v_hash(exported)),
        Output(".dynstr", elf.STRTAB, read, 1, content=names.content),
        Output(".rela.dyn", elf.RELA, read, 8, move, ".dynsym", 0, room(move * nmoved)),
        Output(".dynamic", elf.DYNAMIC, write, 8, entry, ".dynstr"),
        Output(".got", elf.PROGBITS, write, 8, content=room(8 * nslots)),
    ]
    by_name = {each.name: each for each in made if each.nbytes or each.kind == elf.DYNAMIC}
    by_name[".dynamic"].content = room(entry * len(_entries(by_name)))
    by_name[".dynamic"].nbytes = len(by_name[".dynamic"].content)
    return by_name


def fill(made: dict[str, Output], symbols: bytearray, moved: list[tuple[int, int]]) -> None:
    """Write what depends on addresses: the table of symbols, and for the loader what it has to
    write, which are (where, address in the code object)."""
    made[".dynsym"].content[:] = symbols
    if moved:
        made[".rela.dyn"].content[:] = b"".join(
            elf.RELOCATION_ENTRY.pack(at, _RELATIVE64, (wanted ^ 1 << 63) - (1 << 63))
            for at, wanted in sorted(moved)
        )
    made[".dynamic"].content[:] = b"".join(
        elf.DYNAMIC_ENTRY.pack(tag, value) for tag, value in _entries(made)
    )


def _entries(made: dict[str, Output]) -> list[tuple[int, int]]:
    """What `.dynamic` says."""
    entries = [(_FLAGS, _SYMBOLIC)]
    if ".rela.dyn" in made:
        moves, size = made[".rela.dyn"], elf.RELOCATION_ENTRY.size
        entries += [
            (_RELOCATIONS, moves.address),
            (_RELOCATIONS_SIZE, moves.nbytes),
            (_RELOCATION_SIZE, size),
            (_RELATIVE_COUNT, moves.nbytes // size),
        ]
    return [
        *entries,
        (_SYMBOLS, made[".dynsym"].address),
        (_SYMBOL_SIZE, elf.SYMBOL_ENTRY.size),
        (_NAMES, made[".dynstr"].address),
        (_NAMES_SIZE, made[".dynstr"].nbytes),
        (_GNU_HASH, made[".gnu.hash"].address),
        (_HASH, made[".hash"].address),
        (_END, 0),
    ]
