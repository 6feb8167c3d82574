"""The reader of LLVM's text tells of each instruction what LLVM itself tells."""

import pytest

from haulage.compiler import llvm
from haulage.compiler.simt.ir import reader, writer
from haulage.compiler.simt.ir.types import first_type, split_list

TEXT = """
declare { i32, i1 } @llvm.uadd.with.overflow.i32(i32, i32)
declare i32 @printf(ptr, ...)
declare noundef nonnull align 16 ptr @room()
declare <4 x float> @wide(ptr)
declare void @"odd name %x"(i32)

define i32 @f(ptr noalias writeonly captures(none) %p, i32 range(i32 0, 1024) %"a b", float %c.1,
              ptr %g, i1 %t) alwaysinline {
entry:
  %sum = add nuw nsw i32 %"a b", 1
  %low = trunc nuw i32 %sum to i8
  %wide = zext nneg i8 %low to i64
  %real = uitofp nneg i32 %sum to float
  %product = fmul nnan contract float %real, %c.1
  %minus = fneg fast float %product
  %or = or disjoint i64 %wide, 256
  %at = getelementptr inbounds nuw [4 x { i32, float }], ptr %p, i64 0, i64 %or, i32 1
  %one = load float, ptr %at, align 4
  %again = load atomic i32, ptr %g seq_cst, align 4
  %twice = load volatile <4 x i32>, ptr %g
  store float %minus, ptr %at, align 4
  %less = icmp samesign ult i32 %sum, 5
  %lesses = icmp slt <4 x i32> %twice, <i32 1, i32 2, i32 3, i32 4>
  %ordered = fcmp nnan olt float %one, %c.1
  %chosen = select nsz i1 %less, float %one, float %minus
  %vector = select <4 x i1> %lesses, <4 x i32> %twice, <4 x i32> zeroinitializer
  %both = call { i32, i1 } @llvm.uadd.with.overflow.i32(i32 %sum, i32 %again)
  %first = extractvalue { i32, i1 } %both, 0
  %other = insertvalue { i32, i1 } %both, i1 %t, 1
  %said = tail call range(i32 0, 9) i32 (ptr, ...) @printf(ptr %g, i32 %first)
  %pointer = call noundef nonnull align 16 ptr @room()
  %floats = call fast <4 x float> @wide(ptr %pointer)
  call void @"odd name %x"(i32 %said)
  call void %g(i32 %said)
  %element = extractelement <4 x float> %floats, i32 %said
  %filled = insertelement <4 x float> %floats, float %chosen, i64 0
  %two = shufflevector <4 x float> %filled, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %old = atomicrmw volatile add ptr %g, i32 %sum syncscope("agent") seq_cst, align 4
  %max = atomicrmw fmax ptr %g, float %element monotonic
  %swap = cmpxchg weak ptr %g, i64 %or, i64 0 seq_cst acquire
  %frozen = freeze i32 %old
  %room = alloca [16 x i8], align 16
  %number = ptrtoint ptr %room to i64
  %pointers = getelementptr i8, ptr %p, <4 x i32> %vector
  fence syncscope("singlethread") seq_cst
  br i1 %ordered, label %"loop body", label %done

"loop body":
  %turn = phi i32 [ 0, %entry ], [ %next, %"loop body" ]
  %pair = phi [2 x i32] [ [i32 1, i32 2], %entry ], [ zeroinitializer, %"loop body" ]
  %next = add i32 %turn, 1
  %more = icmp ne i32 %next, %frozen
  br i1 %more, label %"loop body", label %done

done:
  br label %last

last:
  ret i32 %"a b"
}
"""


@pytest.fixture(scope="module")
def module():
    return llvm.parse(TEXT)


def test_each_instruction_is_read_as_llvm_has_it(module):
    theirs = module.get_function("f")
    function = reader.read(str(module), "f")
    assert [p.name for p in function.parameters] == ["%p", '%"a b"', "%c.1", "%g", "%t"]
    assert function.parameters[1].type == "i32 range(i32 0, 1024)"
    assert list(function.blocks) == ["%entry", '%"loop body"', "%done", "%last"]
    ours = [item for block in function.blocks.values() for item in block.instructions()]
    refs = [item for block in theirs.blocks for item in block.instructions]
    assert len(ours) == len(refs)
    for item, ref in zip(ours, refs, strict=True):
        assert (item.opcode, item.type) == (ref.opcode, str(ref.type)), item.text
        assert (item.result or "%").strip('%"') == ref.name, item.text
        operands = list(ref.operands)
        named = [
            operand.name
            for operand in operands
            if operand.value_kind.name in ("argument", "instruction")
        ]
        assert [name.strip('%"') for name in item.uses] == named, item.text
        if item.opcode == "call" and item.callee is not None:
            assert item.callee == list(ref.operands)[-1].name


def test_instructions_are_written_as_they_were_read(module):
    lines = [line.strip() for line in reader.definition(str(module), "f") if line[:2] == "  "]
    items = [reader.read_instruction(line) for line in lines]
    assert [writer.written(item) for item in items] == lines
    assert [item.text for item in items] == lines


def test_targets_and_the_sources_of_phis_are_in_the_order_of_the_text(module):
    function = reader.read(str(module), "f")
    assert function.blocks["%entry"].successors == ('%"loop body"', "%done")
    assert function.blocks['%"loop body"'].phis[1].incoming == (
        ("[i32 1, i32 2]", "%entry"),
        ("zeroinitializer", '%"loop body"'),
    )


def test_types_with_brackets_and_lists_of_them():
    assert first_type("{ i32, [2 x { i8, ptr }] } %x, 0") == "{ i32, [2 x { i8, ptr }] }"
    assert split_list("ptr %a, <2 x i32> <i32 1, i32 2>, i32 (ptr, ...) %f") == [
        "ptr %a",
        "<2 x i32> <i32 1, i32 2>",
        "i32 (ptr, ...) %f",
    ]
    assert split_list('i32 %"a, (b", label %c') == ['i32 %"a, (b"', "label %c"]
    assert split_list(" ") == []


@pytest.mark.parametrize(
    "line",
    [
        "%own = alloca [200 x i8], align 16, addrspace(5)",
        "%x = load float, ptr addrspace(1) %p, align 4, !invariant.load !3, !noundef !2",
        'store atomic i32 %v, ptr addrspace(3) %p syncscope("agent") release, align 4',
        "%c = addrspacecast ptr addrspace(5) %own to ptr",
        "%g = getelementptr inbounds i8, ptr addrspace(4) %args, i64 8",
        "%r = call range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !range !1",
        '%t = tail call { i32, i1 } asm sideeffect "shfl.sync $0|p, $1, $2;", "=r,=b,r"(i32 %v) #3',
        "call void @f(ptr noundef nonnull align 16 dereferenceable(8) %p, i32 range(i32 0, 5) 3)",
        "%i = call i8 @g(ptr byval({ i32, i64 }) align 8 %p, ptr getelementptr (i8, ptr @t, i8 4))",
        "switch i32 %v, label %other [ i32 -1, label %a i32 7, label %b ]",
        'br i1 %c, label %"a, b", label %d, !prof !4',
        "switch i8 %v, label %other [  ]",
        "%d = fdiv double %x, 2.000000e+00, !fpmath !1",
        "%p = phi <2 x i1> [ <i1 true, i1 false>, %a ], [ %v, %b ], !haulage.x !2",
        'call void asm sideeffect "a, (b", "~{memory}"(), !srcloc !5',
        "%s = select <2 x i1> <i1 true, i1 false>, <2 x i8> splat (i8 1), <2 x i8> %v",
        "%m = mul i64 %x, sub (i64 0, i64 ptrtoint (ptr @t to i64))",
        "%c = icmp eq i64 %x, add (i64 ptrtoint (ptr @t to i64), i64 8)",
        "call void @f(i64 noundef sub (i64 0, i64 ptrtoint (ptr @t to i64)))",
        "fence seq_cst",
        'fence syncscope("agent") release, !dbg !31',
        "%o = atomicrmw add ptr %p, i32 1 acq_rel, align 4, !dbg !31",
    ],
)
def test_forms_of_gpus_and_of_constants_come_back_as_they_were(line):
    assert writer.written(reader.read_instruction(line)) == line


def test_an_instruction_that_no_kernel_has_is_an_error():
    with pytest.raises(AssertionError, match="va_arg"):
        reader.read_instruction("%x = va_arg ptr %list, i32")
    with pytest.raises(AssertionError, match="true"):
        reader.read_instruction("switch i1 %x, label %d [ i1 true, label %a ]")


def test_a_constant_expression_is_one_operand():
    item = reader.read_instruction("%m = mul i64 %x, sub (i64 0, i64 ptrtoint (ptr @t to i64))")
    assert item.operands[1].text == "sub (i64 0, i64 ptrtoint (ptr @t to i64))"
    call = reader.read_instruction(
        "call void @f(i64 noundef add (i64 ptrtoint (ptr @t to i64), i64 8))"
    )
    assert (call.operands[0].attributes, call.operands[0].text[:5]) == ("noundef", "add (")


NUMBERS = """
define i32 @f(i64 %i) {
entry:
  %at = getelementptr float, ptr inttoptr (i64 4096 to ptr), i64 %i
  %first = load float, ptr inttoptr (i64 4096 to ptr), align 4
  store float %first, ptr inttoptr (i64 8192 to ptr), align 4
  store float 1.0, ptr %at, align 4
  ret i32 0
}
"""


def test_addresses_that_are_numbers_have_names_of_their_own():
    function = reader.read(str(llvm.parse(NUMBERS)), "f")
    body = function.blocks["%entry"].body
    assert [item.text for item in body[:2]] == [
        "%haulage.address.0 = inttoptr i64 4096 to ptr",
        "%haulage.address.1 = inttoptr i64 8192 to ptr",
    ]
    assert [item.uses for item in body[2:]] == [
        ("%haulage.address.0", "%i"),
        ("%haulage.address.0",),
        ("%first", "%haulage.address.1"),
        ("%at",),
    ]
