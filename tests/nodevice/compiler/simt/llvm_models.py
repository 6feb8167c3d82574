"""Models of small LLVM functions for the tests of the CPU transformation's passes."""

from haulage.compiler import llvm
from haulage.compiler.simt.ir import reader
from haulage.compiler.simt.ir.model import Function
from haulage.targets.cpu import host

BARRIER = "declare void @haulage.barrier(i32)\n"

# Each thread sums elements that are ROW apart from its neighbour's and TURN from turn to turn,
# until turn LAST.
SUMS = """
define i32 @kernel(i32 %threadIdx.x, i32 %threadIdx.y, i32 %threadIdx.z, i64 %n, ptr %data) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %start = mul nsw i64 %t, ROW
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %loop ]
  %sum = phi float [ 0.0, %entry ], [ %sum.next, %loop ]
  %k.next = add nuw nsw i64 %k, 1
  %step = mul nsw i64 %k, TURN
  %place = add nsw i64 %start, %step
  %address = getelementptr float, ptr %data, i64 %place
  %value = load float, ptr %address
  %sum.next = fadd float %sum, %value
  %done = icmp eq i64 %k.next, LAST
  br i1 %done, label %end, label %loop
end:
  %own = getelementptr float, ptr %data, i64 %t
  store float %sum.next, ptr %own
  ret i32 0
}
"""


def model_of(text: str) -> Function:
    """The model of the one function that `text` defines."""
    module = llvm.parse(text)
    llvm.run_passes(module, host(), "instruction_namer")
    (function,) = (item for item in module.functions if not item.is_declaration)
    return reader.read(str(module), function.name)
