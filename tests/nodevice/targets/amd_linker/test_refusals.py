"""What Haulage's linker for AMD's GPUs does not link, it says; damaged objects too."""

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulage.errors import CompileError
from haulage.targets.amd_linker import elf, link
from nodevice.targets.amd_linker.test_linking import DEBUG, EVERYTHING, PLAIN
from support.amd_objects import TRIPLE, amd_object

USE = """
define amdgpu_kernel void @use(ptr addrspace(1) %p) {
  %v = load volatile i32, ptr addrspace(1) @it
  store i32 %v, ptr addrspace(1) %p
  ret void
}"""

CALL = """
define amdgpu_kernel void @use(ptr addrspace(1) %p) {
  %v = call i32 @it(i32 3)
  store i32 %v, ptr addrspace(1) %p
  ret void
}"""

MODULES = {
    "an undefined function": (
        f"declare i32 @it(i32)\n{CALL}",
        r"it is undefined; define it in the same module, or link .* AMD's device libraries",
    ),
    "an undefined variable": (f"@it = external addrspace(1) global i32\n{USE}", "it is undefined"),
    "a weak undefined variable": (
        f"@it = extern_weak addrspace(1) global i32\n{USE}",
        "it is undefined",
    ),
    "a common symbol": (
        f"@it = common addrspace(1) global i32 0\n{USE}",
        "it is a common symbol; give the variable another linkage",
    ),
    "a COMDAT group": (
        f"$it = comdat any\n@it = linkonce_odr addrspace(1) global i32 5, comdat\n{USE}",
        r"section \.group belongs to a COMDAT group; give what is in it internal linkage",
    ),
    "a thread-local variable": (
        f"@it = thread_local addrspace(1) global i32 0\n{PLAIN}",
        r"section \.tbss has thread-local variables, which GPUs do not have; use local arrays",
    ),
    "an alignment beyond a page": (
        f"@it = addrspace(1) global i32 1, align 65536\n{USE}",
        r"section \.data wants addresses that are multiples of 65536, and the loader gives "
        "multiples of 4096",
    ),
    "a name for a part of a variable": (
        "@it = addrspace(1) global [4 x i32] [i32 1, i32 2, i32 3, i32 4]\n"
        f"@half = alias i32, getelementptr (i8, ptr addrspace(1) @it, i64 8)\n{USE}",
        r"symbol half, of 16 bytes, reaches out of section \.data; an alias of a part",
    ),
    "functions to call first, in a section that is named so": (
        f'@it = addrspace(1) global i32 1, section ".ctors.65535"\n{USE}',
        r"section \.ctors\.65535 names functions to call first",
    ),
    "a section that the linker makes": (
        f'@it = addrspace(1) global i32 1, section ".got"\n{USE}',
        r"section \.got has the name of one that the linker makes; give it another",
    ),
    "a name with a version": (f'@"it@V1" = addrspace(1) global i32 1\n{PLAIN}', "it@V1 has a ver"),
}


@pytest.mark.parametrize("what", MODULES)
def test_what_cannot_be_linked_is_refused(what):
    module, message = MODULES[what]
    with pytest.raises(CompileError, match=f"code for an AMD GPU cannot be linked: {message}"):
        link(amd_object(module))


def changed(code: bytes, at: int, kind: str, value: int) -> bytes:
    """The object with a number written at a place."""
    made = bytearray(code)
    struct.pack_into(f"<{kind}", made, at, value)
    return bytes(made)


def header_of(code: bytes, name: str) -> int:
    """Where the header of a section is."""
    (table,), (count, names) = (
        struct.unpack_from("<Q", code, 40),
        struct.unpack_from("<HH", code, 60),
    )
    (names_at,) = struct.unpack_from("<Q", code, table + 64 * names + 24)
    for at in range(table, table + 64 * count, 64):
        start = names_at + struct.unpack_from("<I", code, at)[0]
        if code[start : code.index(b"\0", start)].decode() == name:
            return at
    raise AssertionError(name)


def place_of(code: bytes, name: str) -> int:
    """Where a section's bytes are."""
    return struct.unpack_from("<Q", code, header_of(code, name) + 24)[0]


def plain() -> bytes:
    return amd_object(PLAIN)


OBJECTS = {
    "no object": (lambda: b"", "expected a 64-bit little-endian ELF object, got 0 bytes"),
    "text": (lambda: b"\t.text\n", "got 7 bytes that begin with b'.t.text.n'"),
    "an archive": (lambda: b"!<arch>\n" + plain(), "archive of objects; link one object"),
    "bitcode": (lambda: b"BC\xc0\xde" + bytes(60), "LLVM bitcode; compile it to an object first"),
    "its own result": (lambda: link(plain()), r"no relocatable object \(e_type 3\)"),
    "code object v6": (
        lambda: amd_object(PLAIN, version=600),
        "EI_ABIVERSION is 4, and that of code object v5 is 3.*amdhsa_code_object_version",
    ),
    "code for graphics": (
        lambda: changed(plain(), 7, "B", 65),
        rf"another system \(EI_OSABI 65\); compile it for the triple {TRIPLE}",
    ),
    "code for the host": (lambda: changed(plain(), 18, "H", 62), "is for machine 62"),
    "32 bits": (lambda: changed(plain(), 4, "B", 1), "expected a 64-bit"),
    "a relocation of the future": (
        lambda: changed(plain(), place_of(plain(), ".rela.rodata") + 8, "I", 99),
        r"\.rodata wants fill in a way that is not known here \(relocation 99\)",
    ),
    "an address in 32 bits": (
        lambda: changed(plain(), place_of(plain(), ".rela.rodata") + 8, "I", 6),
        r"\.rodata wants the address of fill in 32 bits.*position-independent",
    ),
    "an address in what is only read": (
        lambda: changed(plain(), place_of(plain(), ".rela.rodata") + 8, "I", 3),
        r"\.rodata has the address of fill, which the loader has to write, and is read-only",
    ),
    "a distance beyond 32 bits": (
        lambda: changed(
            changed(plain(), place_of(plain(), ".rela.rodata") + 8, "I", 4),
            place_of(plain(), ".rela.rodata") + 16,
            "Q",
            1 << 40,
        ),
        r"\.rodata wants fill within 32 bits, and it is 0x100000[0-9a-f]+",
    ),
    "a relocation outside": (
        lambda: changed(plain(), place_of(plain(), ".rela.rodata"), "Q", 60),
        r"damaged: something is to be written at 60 of \.rodata, which has 64 bytes",
    ),
    "an unknown section": (
        lambda: changed(plain(), header_of(plain(), ".rodata") + 4, "I", 0x70000001),
        r"section \.rodata is of a kind that is not known here \(type 1879048193",
    ),
    "functions to call first": (
        lambda: changed(plain(), header_of(plain(), ".rodata") + 4, "I", 14),
        r"section \.rodata names functions to call first, and nobody calls them",
    ),
    "a compressed section": (
        lambda: changed(plain(), header_of(plain(), ".rodata") + 8, "Q", 0x802),
        r"section \.rodata is compressed",
    ),
    "more than a GPU has": (
        lambda: changed(
            changed(plain(), header_of(plain(), ".rodata") + 4, "I", 8),
            header_of(plain(), ".rodata") + 32,
            "Q",
            1 << 60,
        ),
        r"section \.rodata has 1152921504606846976 bytes, more than any GPU has",
    ),
    "shared memory without an address": (
        lambda: changed(plain(), place_of(plain(), ".symtab") + 24 + 6, "H", 0xFF00),
        "is shared memory without an address",
    ),
    "no symbols": (
        lambda: changed(plain(), header_of(plain(), ".symtab") + 4, "I", 1),
        "damaged: it has 0 symbol tables",
    ),
}


@pytest.mark.parametrize("what", OBJECTS)
def test_objects_that_are_none_or_another_are_refused(what):
    make, message = OBJECTS[what]
    with pytest.raises(
        CompileError, match=f"(?s)code for an AMD GPU cannot be linked: .*{message}"
    ):
        link(make())


def test_an_absolute_symbol_is_a_number():
    """As LLVM's `k.num_vgpr`; here one that code wants to know."""
    code = bytearray(plain())
    (info,) = struct.unpack_from("<Q", code, place_of(code, ".rela.rodata") + 8)
    symbol = place_of(code, ".symtab") + 24 * (info >> 32)
    struct.pack_into("<HQ", code, symbol + 6, elf.ABSOLUTE, 0x1234_5678_9ABC)
    struct.pack_into("<QIIq", code, place_of(code, ".rela.rodata"), 16, 2, info >> 32, 0)
    linked = link(bytes(code))
    assert struct.unpack_from("<I", linked, place_of(linked, ".rodata") + 16) == (0x1234,)
    struct.pack_into("<QIIq", code, place_of(code, ".rela.rodata"), 16, 4, info >> 32, 0)
    with pytest.raises(CompileError, match="the distance to fill, which is a number and no place"):
        link(bytes(code))


def test_what_is_of_no_use_to_what_is_linked_is_left_out():
    """As clang's list of the symbols whose addresses matter."""
    code = bytearray(plain())
    header = header_of(code, ".note.GNU-stack")
    struct.pack_into("<IQ", code, header + 4, elf.ADDRESS_SIGNIFICANCE, elf.EXCLUDE)
    assert link(bytes(code)) == link(plain())
    struct.pack_into("<IQ", code, header + 4, elf.PROGBITS, elf.EXCLUDE)
    assert link(bytes(code)) == link(plain())


def test_a_symbol_that_is_there_twice_is_refused():
    code = bytearray(amd_object(EVERYTHING))
    start = place_of(code, ".symtab")
    (size,) = struct.unpack_from("<Q", code, header_of(code, ".symtab") + 32)
    struct.pack_into(
        "<I", code, start + size - 24, *struct.unpack_from("<I", code, start + size - 48)
    )
    with pytest.raises(CompileError, match="is defined twice"):
        link(bytes(code))


@pytest.mark.parametrize("module", ["plain", "everything", "debug"])
def test_a_truncated_object_is_refused(module):
    code = amd_object({"plain": PLAIN, "everything": EVERYTHING, "debug": DEBUG}[module])
    for length in [*range(200), *range(200, len(code), 37), len(code) - 1]:
        with pytest.raises(CompileError):
            link(code[:length])


NUMBERS = st.one_of(
    st.integers(0, 300), st.integers(0, 2**64 - 1), st.sampled_from([0xFFF1, 0xFFF2, 2**63])
)
KINDS = st.sampled_from("BHIQ")


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from([PLAIN, EVERYTHING, DEBUG]),
    st.lists(st.tuples(st.integers(0), KINDS, NUMBERS), min_size=1, max_size=6),
    st.sampled_from(["header", "sections", ".symtab", ".rela.rodata", ".note", "all"]),
)
def test_a_spoiled_object_is_linked_or_refused(module, changes, part):
    """Numbers in a part of it become others: whatever comes of that, the linker ends, and knows the
    reason if it gives nothing."""
    code = amd_object(module)
    (table,) = struct.unpack_from("<Q", code, 40)
    start, end = {"header": (0, 64), "sections": (table, len(code)), "all": (0, len(code))}.get(
        part, (0, 0)
    )
    if part.startswith("."):
        start, size = struct.unpack_from("<QQ", code, header_of(code, part) + 24)
        end = start + size
    for where, kind, value in changes:
        nbytes = struct.calcsize(kind)
        at = start + where % (end - start - nbytes + 1)
        code = changed(code, at, kind, value % (1 << 8 * nbytes))
    with contextlib.suppress(CompileError):
        link(code, unread=("hidden_dynamic_lds_size",))
