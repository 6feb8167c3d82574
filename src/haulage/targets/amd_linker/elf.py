"""The numbers and structures of ELF that linking code for AMD GPUs takes (System V ABI, chapters 4
and 5, and LLVM's "User Guide for AMDGPU Backend")."""

import struct

IDENTITY = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian, version 1
HSA = 64  # EI_OSABI
CODE_OBJECT_5 = 3  # EI_ABIVERSION
MACHINE = 224  # e_machine EM_AMDGPU
RELOCATABLE, SHARED = 1, 3  # e_type

# sh_type
PROGBITS, SYMTAB, STRTAB, RELA, HASH, DYNAMIC, NOTE, NOBITS, DYNSYM = 1, 2, 3, 4, 5, 6, 7, 8, 11
INIT_ARRAY, FINI_ARRAY, PREINIT_ARRAY, GROUP = 14, 15, 16, 17
GNU_HASH = 0x6FFFFFF6
ADDRESS_SIGNIFICANCE = 0x6FFF4C03  # of use to linkers that fold equal functions

# sh_flags
WRITE, ALLOC, EXECUTE, MERGE, STRINGS, INFO_LINK = 1, 2, 4, 0x10, 0x20, 0x40
IN_GROUP, THREAD_LOCAL, COMPRESSED, RETAIN = 0x200, 0x400, 0x800, 0x200000
EXCLUDE = 0x80000000  # of no use to what is linked

# st_shndx
UNDEFINED, RESERVED, SHARED_MEMORY, ABSOLUTE, COMMON = 0, 0xFF00, 0xFF00, 0xFFF1, 0xFFF2

# Symbols: binding, kind and visibility
LOCAL, GLOBAL, WEAK = 0, 1, 2
UNTYPED, OBJECT, FUNCTION, SECTION, FILE, OF_THREAD = 0, 1, 2, 3, 4, 6
DEFAULT, INTERNAL, HIDDEN, PROTECTED = 0, 1, 2, 3

# p_type and p_flags
LOAD, DYNAMIC_TABLE, NOTES, HEADERS, STACK, READ_ONLY_LATER = (
    1,
    2,
    4,
    6,
    0x6474E551,
    0x6474E552,
)
CAN_EXECUTE, CAN_WRITE, CAN_READ = 1, 2, 4

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
SYMBOL_ENTRY = struct.Struct("<IBBHQQ")
RELOCATION_ENTRY = struct.Struct("<QQq")
DYNAMIC_ENTRY = struct.Struct("<QQ")
NOTE_HEADER = struct.Struct("<III")


def up(number: int, align: int) -> int:
    """The next multiple of `align`, a power of two."""
    return (number + align - 1) & -align
