"""The symbol table of a 64-bit ELF object file."""

import struct

from haulage.errors import DeviceError

_SYMBOL_TABLE = 2  # sh_type SHT_SYMTAB
_FUNCTION = 2  # STT_FUNC
_SECTION_HEADER, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")


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
    (table_offset,) = struct.unpack_from("<Q", code, 40)
    (entry_size, count) = struct.unpack_from("<HH", code, 58)
    headers = [
        _SECTION_HEADER.unpack_from(code, table_offset + i * entry_size) for i in range(count)
    ]
    exported, missing = [], []
    for _, kind, _, _, offset, size, strings, _, _, _ in headers:
        if kind != _SYMBOL_TABLE:
            continue
        names = headers[strings][4]
        for at in range(offset, offset + size, _SYMBOL.size):
            name_at, info, _, section, _, _ = _SYMBOL.unpack_from(code, at)
            if not name_at or info >> 4 == 0:  # no name, or local
                continue
            name = code[names + name_at : code.index(b"\0", names + name_at)].decode()
            if section == 0:
                missing.append(name)
            elif info & 15 == _FUNCTION:
                exported.append(name)
    return exported, missing
