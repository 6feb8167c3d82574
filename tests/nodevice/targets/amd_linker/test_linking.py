"""Haulage's linker for AMD's GPUs against LLVM's, and as ROCm's loader takes what it makes."""

import struct

import pytest

from doubles import amd_loader
from doubles.amd_linked import assert_as_lld
from haulage.targets.amd_linker import link, reading
from support.amd_objects import ARCHITECTURES, amd_object, run, tool

X = "declare i32 @llvm.amdgcn.workitem.id.x()\n"

PLAIN = """
define amdgpu_kernel void @fill(ptr addrspace(1) %p, i32 %n) {
  store i32 %n, ptr addrspace(1) %p
  ret void
}"""

# All that a kernel can name: other functions, called by name and by address, constants, variables
# with and without content, those that others find, addresses of these in data, shared memory.
EVERYTHING = f"""{X}
@number = protected addrspace(1) externally_initialized global i64 5, align 8
@nothing = protected addrspace(1) externally_initialized global i32 0, align 4
@plain = addrspace(1) global i32 7, align 4
@kept = weak addrspace(1) global i32 9, align 4
@hidden = hidden addrspace(1) global i32 11, align 4
@own = internal addrspace(1) global [100 x i32] zeroinitializer, align 64
@table = internal addrspace(4) constant [8 x i32]
  [i32 1, i32 2, i32 3, i32 5, i32 8, i32 13, i32 21, i32 34], align 16
@text = internal addrspace(4) constant [4 x i8] c"abc\\00"
@addresses = addrspace(1) global [3 x ptr addrspace(1)] [ptr addrspace(1) @number,
  ptr addrspace(1) @plain,
  ptr addrspace(1) getelementptr (i8, ptr addrspace(1) @own, i64 20)], align 8
@functions = internal addrspace(4) constant [2 x ptr] [ptr @square, ptr @more], align 8
@static = internal addrspace(3) global [64 x i32] poison, align 16
@dynamic = external addrspace(3) global [0 x i8], align 16
define i32 @square(i32 %x) noinline {{
  %y = mul i32 %x, %x
  ret i32 %y
}}
define internal i32 @more(i32 %x) noinline {{
  %at = getelementptr [64 x i32], ptr addrspace(3) @static, i32 0, i32 %x
  %y = load i32, ptr addrspace(3) %at
  ret i32 %y
}}
define amdgpu_kernel void @first(ptr addrspace(1) %p, i32 %n, double %d, i8 %b) {{
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %table.at = getelementptr [8 x i32], ptr addrspace(4) @table, i32 0, i32 %i
  %a = load i32, ptr addrspace(4) %table.at
  %text.at = getelementptr [4 x i8], ptr addrspace(4) @text, i32 0, i32 %n
  %c = load volatile i8, ptr addrspace(4) %text.at
  %number = load volatile i64, ptr addrspace(1) @number
  %nothing = load volatile i32, ptr addrspace(1) @nothing
  %plain = load volatile i32, ptr addrspace(1) @plain
  %kept = load volatile i32, ptr addrspace(1) @kept
  %hidden = load volatile i32, ptr addrspace(1) @hidden
  %own.at = getelementptr [100 x i32], ptr addrspace(1) @own, i32 0, i32 %i
  store i32 %a, ptr addrspace(1) %own.at
  %static.at = getelementptr [64 x i32], ptr addrspace(3) @static, i32 0, i32 %i
  store i32 %a, ptr addrspace(3) %static.at
  %dynamic.at = getelementptr [0 x i8], ptr addrspace(3) @dynamic, i32 0, i32 %i
  %e = load volatile i8, ptr addrspace(3) %dynamic.at
  %squared = call i32 @square(i32 %a)
  %called = call i32 @more(i32 %n)
  %sum = add i32 %squared, %called
  store i32 %sum, ptr addrspace(1) %p
  ret void
}}
define amdgpu_kernel void @second(ptr addrspace(1) %p, i32 %n) {{
  %at = getelementptr [2 x ptr], ptr addrspace(4) @functions, i32 0, i32 %n
  %function = load ptr, ptr addrspace(4) %at
  %r = call i32 %function(i32 %n)
  store i32 %r, ptr addrspace(1) %p
  ret void
}}
define amdgpu_kernel void @third() {{
  ret void
}}"""

SWITCH = """
define amdgpu_kernel void @choose(ptr addrspace(1) %p, i32 %n) {
  switch i32 %n, label %other [ i32 0, label %a  i32 1, label %b  i32 2, label %c
                                i32 3, label %d  i32 4, label %e  i32 5, label %f ]
a: br label %end
b: br label %end
c: br label %end
d: br label %end
e: br label %end
f: br label %end
other: br label %end
end:
  %v = phi i32 [ 17, %a ], [ 5, %b ], [ 99, %c ], [ 3, %d ], [ 1000, %e ], [ 42, %f ], [ 0, %other ]
  store i32 %v, ptr addrspace(1) %p
  ret void
}"""

DEBUG = """
@counter = internal addrspace(1) global i64 0, align 8, !dbg !20
define internal i32 @twice(i32 %x) noinline !dbg !10 {
  %y = add i32 %x, %x, !dbg !12
  ret i32 %y, !dbg !12
}
define amdgpu_kernel void @lined(ptr addrspace(1) %p, i32 %n) !dbg !5 {
  %m = call i32 @twice(i32 %n), !dbg !8
  store i32 %m, ptr addrspace(1) %p, !dbg !8
  %old = load volatile i64, ptr addrspace(1) @counter, !dbg !9
  ret void, !dbg !9
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3, !4}
!llvm.ident = !{!30}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, producer: "haulage",
  isOptimized: true, emissionKind: FullDebug, globals: !23)
!1 = !DIFile(filename: "kernel.py", directory: "/somewhere")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !{i32 7, !"Dwarf Version", i32 5}
!4 = !{i32 1, !"amdhsa_code_object_version", i32 500}
!5 = distinct !DISubprogram(name: "lined", scope: !1, file: !1, line: 3, type: !6, unit: !0,
  scopeLine: 3, spFlags: DISPFlagDefinition)
!6 = !DISubroutineType(types: !7)
!7 = !{null}
!8 = !DILocation(line: 4, column: 5, scope: !5)
!9 = !DILocation(line: 5, column: 5, scope: !5)
!10 = distinct !DISubprogram(name: "twice", scope: !1, file: !1, line: 8, type: !6, unit: !0,
  scopeLine: 8, spFlags: DISPFlagDefinition)
!12 = !DILocation(line: 9, column: 5, scope: !10)
!20 = !DIGlobalVariableExpression(var: !21, expr: !DIExpression())
!21 = distinct !DIGlobalVariable(name: "counter", scope: !0, file: !1, line: 1, type: !22,
  isLocal: true, isDefinition: true)
!22 = !DIBasicType(name: "int", size: 64, encoding: DW_ATE_signed)
!23 = !{!20}
!30 = !{!"haulage"}
"""

MANY = "\n".join(
    f"@value_{i} = addrspace(1) global i32 {i % 3}, align 4\n{PLAIN.replace('@fill', f'@fill_{i}')}"
    for i in range(120)
)

SECTIONS = (
    """
@mine = addrspace(1) global i32 5, section "of_mine", align 4
@other = addrspace(1) global i32 0, section ".bss.other", align 128
@read = addrspace(4) constant i32 5, section ".rodata.other", align 4
@data = addrspace(1) global [3 x i8] c"abc", section ".data.other", align 1
@page = addrspace(1) global [8000 x i8] zeroinitializer, align 4096
@relative = addrspace(1) global ptr addrspace(1) @page, section ".data.rel.ro.other", align 8
define amdgpu_kernel void @elsewhere(ptr addrspace(1) %p) section ".text.elsewhere" {
  %a = load volatile i32, ptr addrspace(1) @mine
  %b = load volatile i32, ptr addrspace(1) @other
  %c = load volatile i32, ptr addrspace(4) @read
  %d = load volatile i8, ptr addrspace(1) @data
  %e = load volatile i8, ptr addrspace(1) @page
  ret void
}
"""
    + PLAIN
)

MODULES = {
    "plain": PLAIN,
    "everything": EVERYTHING,
    "switch": SWITCH,
    "debug": DEBUG,
    "many": MANY,
    "sections": SECTIONS,
}


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_is_what_llvms_linker_makes(architecture, module, tmp_path):
    assert_as_lld(amd_object(MODULES[module], architecture), tmp_path, tool("ld.lld"))


@pytest.mark.parametrize("module", ["everything", "sections", "debug"])
def test_it_is_what_llvms_linker_makes_of_unoptimised_code(module, tmp_path):
    assert_as_lld(amd_object(MODULES[module], "gfx1100", level=0), tmp_path, tool("ld.lld"))


@pytest.mark.parametrize("module", ["", "@only = addrspace(1) global i32 1"])
def test_sections_without_bytes_are_in_no_segment(module, tmp_path):
    assert_as_lld(amd_object(module), tmp_path, tool("ld.lld"))


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_llvms_tools_take_it(architecture, module, tmp_path):
    file = tmp_path / "kernel.hsaco"
    file.write_bytes(link(amd_object(MODULES[module], architecture)))
    said = run("llvm-readelf", "--all", str(file))
    assert "AMDGPU - HSA" in said
    assert "NT_AMDGPU_METADATA" in run("llvm-readelf", "--notes", str(file))
    assert "s_endpgm" in run("llvm-objdump", "-d", f"--mcpu={architecture}", str(file))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_rocms_loader_takes_it(architecture):
    loaded = amd_loader.load(link(amd_object(EVERYTHING, architecture)))
    assert loaded.kernels.keys() == {"first", "second", "third"}
    for kernel in loaded.kernels:
        assert loaded.entry(kernel) == loaded.functions[kernel].address
        assert loaded.entry(kernel) % 256 == 0
    assert loaded.variables.keys() == {"number", "nothing", "plain", "kept", "addresses"}
    variables = {name: loaded.read(v.address, v.nbytes) for name, v in loaded.variables.items()}
    assert variables["number"] == struct.pack("<q", 5)
    assert variables["nothing"] == bytes(4)
    assert variables["plain"] == struct.pack("<i", 7)
    addresses = struct.unpack("<3Q", variables["addresses"])
    assert addresses[0] == loaded.variables["number"].address
    assert addresses[1] == loaded.variables["plain"].address
    assert addresses[2] % 64 == 20
    assert loaded.read(addresses[2] - 20, 400) == bytes(400)


def test_code_reaches_what_it_names():
    """The distances that are written into code, from what the object wants."""
    code = amd_object(EVERYTHING)
    linked = link(code)
    loaded, object_ = amd_loader.load(linked), reading.read(code)
    (text,) = (section for section in object_.sections if section.name == ".text")
    (start,) = (
        each[3]
        for each in amd_loader.sections(linked)
        if amd_loader.section_name(linked, each) == ".text"
    )
    wanted: dict[str, set[int]] = {}
    relocations = object_.relocations[text.number]
    for low, high in zip(relocations[::2], relocations[1::2], strict=True):
        # The distance from behind the instruction that reads the program's counter.
        assert (low.kind, high.kind) in ((8, 9), (10, 11))
        at = loaded.base + start + low.offset
        parts = (loaded.read(at, 4), loaded.read(at - low.offset + high.offset, 4))
        distance = int.from_bytes(parts[0] + parts[1], "little", signed=True)
        place = at + distance - low.addend
        if low.kind == 8:
            place = loaded.word(place)
        wanted.setdefault(object_.symbols[low.symbol].name, set()).add(place)
    found = {**loaded.variables, **loaded.functions}
    for name in ("number", "nothing", "plain", "kept", "square"):
        assert wanted[name] == {found[name].address}
    (table,) = wanted["table"]
    assert loaded.read(table, 32) == struct.pack("<8i", 1, 2, 3, 5, 8, 13, 21, 34)
    (hidden,) = wanted["hidden"]
    assert loaded.read(hidden, 4) == struct.pack("<i", 11)


def test_the_same_object_becomes_the_same_bytes():
    code = amd_object(EVERYTHING)
    assert link(code) == link(code)


def test_debugging_information_names_the_lines(tmp_path):
    file = tmp_path / "kernel.hsaco"
    file.write_bytes(link(amd_object(DEBUG)))
    assert "No errors." in run("llvm-dwarfdump", "--verify", str(file))
    loaded = amd_loader.load(file.read_bytes(), base=0)
    entry = hex(loaded.entry("lined"))
    assert "kernel.py:" in run("llvm-symbolizer", f"--obj={file}", entry)
