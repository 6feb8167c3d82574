"""Haulage's own linker: one object of LLVM's becomes the code object that AMD's loader takes.

What is loaded is what LLVM's linker makes, byte by byte (`ld.lld -shared -Bsymbolic -O0`). All
symbols are bound here, so what the loader has to write is addresses of the code object itself
(`R_AMDGPU_RELATIVE64`) and nothing else.
"""

from haulage.targets.amd_linker import dynamic, elf, relocations, tables
from haulage.targets.amd_linker.outputs import Output, gathered, in_order, place
from haulage.targets.amd_linker.reading import ObjectFile, Symbol, read, refused
from haulage.targets.amd_linker.tables import Entry, Names
from haulage.targets.amd_linker.writing import code_object


def link(code: bytes) -> bytes:
    """The code object of an object.

    Raises:
        CompileError: the object is damaged, or something in it cannot be linked.
    """
    object_ = read(code)
    sections = gathered(object_.sections)
    uses = relocations.uses(object_, sections)
    slots = _slots([use.symbol for use in uses if use.is_of_table])
    nmoved = sum(use.is_moved for use in uses) + sum(map(relocations.has_address, slots))
    exported = [symbol for symbol in object_.symbols if symbol.is_exported]
    names = Names([symbol.name for symbol in exported])
    exported = tables.by_buckets(exported)

    made = dynamic.sections(exported, names, nmoved, len(slots))
    loaded = in_order([*sections, *made.values()])
    segments = place(loaded)
    others = [output for output in sections if not output.is_loaded]
    homes = _homes([*loaded, *others])

    def entry(symbol: Symbol) -> Entry:
        if not relocations.has_address(symbol):
            return Entry(symbol, elf.ABSOLUTE, symbol.value)
        if symbol.section not in homes:
            raise refused(f"{symbol.name} is in a section that is not kept")
        number, start = homes[symbol.section]
        return Entry(symbol, number, start + symbol.value)

    def address(symbol: Symbol) -> int:
        return entry(symbol).address

    def slot(symbol: Symbol) -> int:
        return made[".got"].address + slots[symbol]

    moved = relocations.write(uses, address, slot)
    for symbol, at in slots.items():
        if relocations.has_address(symbol):
            moved.append((slot(symbol), address(symbol)))
        else:
            made[".got"].content[at : at + 8] = symbol.value.to_bytes(8, "little")
    dynamic.fill(made, tables.symbol_table([entry(each) for each in exported], names), moved)
    entries = [entry(each) for each in _kept(object_)]
    return code_object(object_.flags, segments, [*loaded, *others], entries)


def _slots(symbols: list[Symbol]) -> dict[Symbol, int]:
    """Where in the table of addresses those of the symbols are: exported ones first."""
    ordered = sorted(set(symbols), key=lambda each: (each.binding == elf.LOCAL, each.number))
    return {symbol: 8 * number for number, symbol in enumerate(ordered)}


def _homes(outputs: list[Output]) -> dict[int, tuple[int, int]]:
    """For each section of the object the number of the section that it is in, and its address."""
    return {
        section.number: (number, output.address + at)
        for number, output in enumerate(outputs, 1)
        for section, at in output.pieces
    }


def _kept(object_: ObjectFile) -> list[Symbol]:
    """What is in the code object's table of symbols, those that others do not see first."""
    symbols = [each for each in object_.symbols[1:] if each.kind != elf.SECTION]
    return sorted(symbols, key=lambda each: each.is_exported)
