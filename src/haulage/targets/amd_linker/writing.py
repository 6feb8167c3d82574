"""Writes a code object: headers, segments, and behind them what is not loaded."""

from haulage.targets.amd_linker import elf
from haulage.targets.amd_linker.outputs import Output, Segment
from haulage.targets.amd_linker.tables import Entry, Names, symbol_table


def code_object(
    flags: int, segments: list[Segment], outputs: list[Output], entries: list[Entry]
) -> bytes:
    """The bytes of a code object.

    Args:
        flags: what names the GPU.
        outputs: its sections, those that are loaded first, numbered from 1 on.
        entries: its symbols, those that others do not see first.
    """
    # The loader looks at `.symtab`, not at `.dynsym`.
    names = Names([symbol.name for symbol, _, _ in entries])
    local = 1 + sum(not symbol.is_exported for symbol, _, _ in entries)
    symbols = Output(
        ".symtab",
        elf.SYMTAB,
        0,
        8,
        elf.SYMBOL_ENTRY.size,
        ".strtab",
        local,
        symbol_table(entries, names),
    )
    strings = Output(".strtab", elf.STRTAB, 0, 1, content=names.content)
    outputs = [*outputs, symbols, strings]
    section_names = Names([*(output.name for output in outputs), ".shstrtab"])
    outputs.append(Output(".shstrtab", elf.STRTAB, 0, 1, content=section_names.content))

    code = bytearray(elf.HEADER.size)
    for segment in segments:
        code += elf.PROGRAM_HEADER.pack(
            segment.kind,
            segment.flags,
            segment.offset,
            segment.address,
            segment.address,
            segment.nbytes_in_file,
            segment.nbytes,
            segment.align,
        )
    for output in outputs:
        if not output.is_loaded:
            output.offset = elf.up(len(code), output.align)
        # Also up to where memory without bytes begins: the loader looks at that place.
        code += bytes(output.offset - len(code)) + output.content
    code += bytes(-len(code) % 8)
    # Last, as from that the loader sees where the code object ends.
    table = len(code)
    numbers = {output.name: number for number, output in enumerate(outputs, 1)}
    code += bytes(elf.SECTION_HEADER.size)
    for output in outputs:
        code += elf.SECTION_HEADER.pack(
            section_names.at(output.name),
            output.kind,
            output.flags,
            output.address,
            output.offset,
            output.nbytes,
            numbers.get(output.link, 0),
            output.info,
            output.align,
            output.entry_size,
        )
    code[: elf.HEADER.size] = elf.HEADER.pack(
        elf.IDENTITY + bytes([elf.HSA, elf.CODE_OBJECT_5]) + bytes(7),
        elf.SHARED,
        elf.MACHINE,
        1,
        0,
        elf.HEADER.size,
        table,
        flags,
        elf.HEADER.size,
        elf.PROGRAM_HEADER.size,
        len(segments),
        elf.SECTION_HEADER.size,
        len(outputs) + 1,
        len(outputs),
    )
    return bytes(code)
