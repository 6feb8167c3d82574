"""What a code object for an AMD GPU says of its kernels, and whether that is what launches pass."""

import contextlib
import re
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doubles import amd_loader, comgr
from haulage.backends import message_pack
from haulage.backends.amd_driver.metadata import Places, places
from haulage.compiler.argument_block import argument_offsets, size_of
from haulage.errors import CompileError
from haulage.targets.amd_linker import link
from haulage.targets.amd_metadata import Argument, _note, kernels
from nodevice.targets.amd_linker.test_linking import EVERYTHING, MODULES, PLAIN
from support.amd_objects import ARCHITECTURES, amd_object, run


def linked(module: str = EVERYTHING, architecture: str = "gfx942") -> bytes:
    return link(amd_object(module, architecture))


def test_the_back_end_finds_arguments_at_the_same_places():
    code = linked()
    assert places(code) == {
        name: Places(tuple(each.offset for each in kernel.arguments if not each.is_hidden), None)
        for name, kernel in kernels(code).items()
    }


def test_arguments_are_where_the_kernel_reads_them():
    first = kernels(linked())["first"]
    assert [each for each in first.arguments if not each.is_hidden] == [
        Argument("p", "global_buffer", 0, 8),
        Argument("n", "by_value", 8, 4),
        Argument("d", "by_value", 16, 8),
        Argument("b", "by_value", 24, 1),
    ]
    assert (first.descriptor, first.argument_align) == ("first.kd", 8)
    # By address LLVM calls what could want any of the runtime's.
    second = kernels(linked())["second"]
    hidden = {each.kind for each in second.arguments if each.is_hidden}
    assert {"hidden_block_count_x", "hidden_group_size_z", "hidden_remainder_y"} <= hidden
    assert [each.name for each in second.arguments if not each.is_hidden] == ["p", "n"]
    assert kernels(linked())["third"].arguments == ()
    # Behind 25 bytes at a multiple of 8; 120 bytes into what is the runtime's.
    assert first.dynamic_shared_at == 32 + 120
    assert kernels(linked())["third"].dynamic_shared_at is None


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_is_said_is_what_the_hardware_is_told(architecture):
    """The note is the runtime's; the descriptor, which the hardware reads, says some of it too."""
    code = linked(architecture=architecture)
    loaded, found = amd_loader.load(code), kernels(code)
    assert found.keys() == loaded.kernels.keys() == {"first", "second", "third"}
    for name, kernel in found.items():
        said = struct.unpack("<III", loaded.read(loaded.kernels[name].address, 12))
        assert said == (kernel.shared_bytes, kernel.local_bytes, kernel.argument_bytes)
        assert kernel.lanes == (64 if architecture.startswith("gfx9") else 32)
        assert kernel.max_threads == 1024
    assert found["first"].shared_bytes == 256
    assert 0 < found["first"].registers <= 512
    assert 0 < found["first"].scalar_registers <= 128
    assert found["third"].shared_bytes == 0
    assert found["second"].uses_dynamic_stack
    assert not found["third"].uses_dynamic_stack


SPILLS = """
define amdgpu_kernel void @spill(ptr addrspace(1) %p, i32 %n) #0 {{
{loads}
  fence seq_cst
{stores}
  ret void
}}
attributes #0 = {{ "amdgpu-num-vgpr"="16" }}
""".format(
    loads="\n".join(
        f"  %a{i} = getelementptr i32, ptr addrspace(1) %p, i32 {i}\n"
        f"  %v{i} = load volatile i32, ptr addrspace(1) %a{i}"
        for i in range(48)
    ),
    stores="\n".join(f"  store volatile i32 %v{i}, ptr addrspace(1) %a{47 - i}" for i in range(48)),
)


def test_resources_have_names():
    took = kernels(linked(SPILLS, "gfx1100"))["spill"].resources
    assert took["registers"] <= 16
    assert took["spilled_registers"] > 0
    assert took["local_bytes"] >= 4 * took["spilled_registers"]
    assert took["shared_bytes"] == 0
    assert kernels(linked(SPILLS, "gfx90a"))["spill"].resources["lanes"] == 64
    easy = kernels(linked(PLAIN, "gfx1100"))["fill"].resources
    assert easy["spilled_registers"] == easy["spilled_scalar_registers"] == easy["local_bytes"] == 0


@pytest.mark.skipif(comgr.library() is None, reason="libamd_comgr is not installed")
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("architecture", ["gfx90a", "gfx1030"])
def test_amds_own_reader_finds_the_same(architecture, module):
    code = link(amd_object(MODULES[module], architecture))

    def as_text(value):
        if isinstance(value, dict):
            return {key: as_text(each) for key, each in value.items()}
        if isinstance(value, list):
            return [as_text(each) for each in value]
        # Booleans are "0" and "1" there.
        return value if isinstance(value, str) else str(int(value))

    assert comgr.metadata(code) == as_text(message_pack.read(_note(code)))
    loaded = amd_loader.load(code, base=0)
    found = {**loaded.variables, **loaded.functions}
    found |= {f"{name}.kd": kernel for name, kernel in loaded.kernels.items()}
    assert comgr.symbols(code) == {name: (x.address, x.nbytes) for name, x in found.items()}


@pytest.mark.parametrize("module", MODULES)
def test_llvms_reader_finds_the_same(module, tmp_path):
    file = tmp_path / "kernel.hsaco"
    file.write_bytes(linked(MODULES[module]))
    said = run("llvm-readelf", "--notes", str(file))
    keys = {
        ".kernarg_segment_size": "argument_bytes",
        ".private_segment_fixed_size": "local_bytes",
        ".sgpr_count": "scalar_registers",
        ".vgpr_count": "registers",
    }
    found = kernels(file.read_bytes())
    for key, name in keys.items():
        numbers = [int(each) for each in re.findall(rf"(?m)^ +{re.escape(key)}: +(\d+)$", said)]
        assert numbers == [getattr(kernel, name) for kernel in found.values()]


# --- what launches pass


KINDS = ("ptr", "double", "float", "half", "i8", "i16", "i32", "i64")


def kernel_of(kinds: tuple[str, ...], hidden: bool = False) -> str:
    named = ", ".join(f"{kind} %a{number}" for number, kind in enumerate(kinds))
    uses = "%x = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n" if hidden else ""
    uses += "%y = load volatile i32, ptr addrspace(4) %x\n" if hidden else ""
    declared = "declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n" if hidden else ""
    text = ", ".join(named.split(", ")).replace("ptr ", "ptr addrspace(1) ")
    return f"{declared}define amdgpu_kernel void @k({text}) {{\n{uses}ret void\n}}"


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.sampled_from(KINDS), max_size=12).map(tuple),
    st.booleans(),
    st.sampled_from(ARCHITECTURES),
)
def test_a_launch_packs_what_kernels_read(kinds, hidden, architecture):
    """All that Haulage's launches know of a kernel's arguments is their LLVM types."""
    kernel = kernels(linked(kernel_of(kinds, hidden), architecture))["k"]
    offsets, nbytes = argument_offsets(kinds)
    kernel.check_arguments(offsets, [size_of(kind) for kind in kinds])
    assert kernel.argument_bytes >= nbytes
    assert hidden == any(each.is_hidden for each in kernel.arguments)


KINDS_PASSED = ("ptr", "i8", "i32", "double")


@pytest.mark.parametrize(
    ("passed", "message"),
    [
        (("ptr", "i8", "i32"), "it has 4 arguments, and a launch passes 3"),
        ((*KINDS_PASSED, "i8"), "it has 4 arguments, and a launch passes 5"),
        (
            ("ptr", "i32", "i32", "double"),
            r"it reads argument 1 \(a1\), 1 bytes, at 8, and a launch passes 4 bytes at 8",
        ),
        (
            ("ptr", "i8", "i8", "double"),
            r"it reads argument 2 \(a2\), 4 bytes, at 12, and a launch passes 1 bytes at 9",
        ),
    ],
)
def test_a_launch_that_packs_something_else_is_found(passed, message):
    kernel = kernels(linked(kernel_of(KINDS_PASSED)))["k"]
    offsets, _ = argument_offsets(passed)
    with pytest.raises(CompileError, match=f"the code of k is not called as it is made: {message}"):
        kernel.check_arguments(offsets, [size_of(kind) for kind in passed])


def test_arguments_that_reach_into_the_runtimes_are_found():
    code = linked(kernel_of(("i64", "i64"), hidden=True))
    note = _note(code)
    # The first of the runtime's arguments is at 16; say that it is at 8.
    at = note.index(b"\xa7.offset\x10")
    spoiled = code.replace(note, note[: at + 8] + b"\x08" + note[at + 9 :])
    with pytest.raises(CompileError, match=r"passes 16 bytes, of its .* those from 8 on"):
        kernels(spoiled)["k"].check_arguments([0, 8], [8, 8])


def test_arguments_that_no_kernel_reads_are_none_of_the_runtimes():
    """LLVM lists them all if a kernel reads one of them; runtimes do not know them all."""
    kind = "hidden_dynamic_lds_size"
    code = amd_object(EVERYTHING)
    before, after = kernels(link(code)), kernels(link(code, unread=(kind,)))
    assert before["first"].dynamic_shared_at is not None
    for name, kernel in before.items():
        changed = [
            Argument(each.name, "hidden_none" if each.kind == kind else each.kind, *where)
            for each in kernel.arguments
            for where in [(each.offset, each.nbytes)]
        ]
        assert list(after[name].arguments) == changed
        assert after[name].dynamic_shared_at is None
        assert after[name].resources == kernel.resources
    loaded = amd_loader.load(link(code, unread=(kind,)))
    assert loaded.entry("first") == loaded.functions["first"].address
    assert link(code, unread=("hidden_heap_v2",)) == link(code)


# --- what cannot be read


def test_what_is_no_code_object_is_refused():
    for code in (b"", b"\x7fELF", amd_object(PLAIN), linked()[:300], linked()[:900]):
        with pytest.raises(CompileError, match="says nothing readable of its kernels: "):
            kernels(code)


def test_another_version_of_the_note_is_refused():
    code = linked(PLAIN)
    at = code.index(b"amdhsa.version") + 14
    assert code[at : at + 3] == b"\x92\x01\x02"
    with pytest.raises(CompileError, match=r"version 1 was expected, not \[2, 2\]"):
        kernels(code[: at + 1] + b"\x02" + code[at + 2 :])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=5))
def test_a_spoiled_note_is_read_or_refused(changes):
    code = linked()
    start, size = code.index(_note(code)), len(_note(code))
    spoiled = bytearray(code)
    for where, value in changes:
        spoiled[start + where % size] = value
    with contextlib.suppress(CompileError):
        kernels(bytes(spoiled))


# --- MessagePack


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("00", 0),
        ("7f", 127),
        ("e0", -32),
        ("ff", -1),
        ("cc80", 128),
        ("cd0100", 256),
        ("ce00010000", 65536),
        ("cf0000000100000000", 1 << 32),
        ("d080", -128),
        ("d18000", -32768),
        ("d280000000", -(1 << 31)),
        ("d38000000000000000", -(1 << 63)),
        ("ca3fc00000", 1.5),
        ("cb3ff8000000000000", 1.5),
        ("c0", None),
        ("c2", False),
        ("c3", True),
        ("a0", ""),
        ("a3616263", "abc"),
        ("d903616263", "abc"),
        ("da0003616263", "abc"),
        ("db00000003616263", "abc"),
        ("c403616263", b"abc"),
        ("c50003616263", b"abc"),
        ("c600000003616263", b"abc"),
        ("90", []),
        ("920102", [1, 2]),
        ("dc00020102", [1, 2]),
        ("dd000000020102", [1, 2]),
        ("80", {}),
        ("81a16101", {"a": 1}),
        ("de0001a16101", {"a": 1}),
        ("df00000001a16190", {"a": []}),
        ("a2c3bc", "ü"),
    ],
)
def test_message_pack_is_read(code, value):
    read = message_pack.read(bytes.fromhex(code))
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("", "it ends at 0, with 1 bytes wanted at 0"),
        ("0000", "1 bytes follow at 1"),
        ("a361", "it ends at 2, with 3 bytes wanted at 1"),
        ("c1", "the mark 0xc1 at 0 is not known"),
        ("d40000", "the mark 0xd4 at 0 is not known"),
        ("a1ff", "utf-8"),
        ("810102", "a name was expected before 2, found 1"),
        ("ddffffffff", "it ends at 5"),
        ("91" * 40 + "00", "more than 32 tables are in one another at"),
    ],
)
def test_what_is_no_message_pack_is_refused(code, message):
    with pytest.raises(ValueError, match=message):
        message_pack.read(bytes.fromhex(code))
