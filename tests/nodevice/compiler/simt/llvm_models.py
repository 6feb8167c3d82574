"""Models of small LLVM functions for the tests of the CPU transformation's passes."""

import re
from pathlib import Path

from haulage.compiler import llvm
from haulage.compiler.simt.ir import reader
from haulage.compiler.simt.ir.model import Function
from haulage.targets.cpu import host

FILES = Path(__file__).with_name("passes")

_LIMITS = {
    "threadIdx": ((0, 1024),) * 3,
    "blockIdx": ((0, 2147483647), (0, 65535), (0, 65535)),
    "blockDim": ((1, 1025),) * 3,
    "gridDim": ((1, 2147483647), (1, 65536), (1, 65536)),
}
INDICES = ", ".join(
    [
        "ptr %.ret",
        *(
            f"i32 range(i32 {least}, {end}) %{name}.{axis}"
            for name, limits in _LIMITS.items()
            for axis, (least, end) in zip("xyz", limits, strict=True)
        ),
        "ptr %dynamicShared, i64 %dynamicSharedBytes",
    ]
)
ARRAY = (
    r"ptr %arg.\1.0, ptr %arg.\1.1, i64 %arg.\1.2, i64 %arg.\1.3, ptr %arg.\1.4, "
    r"i64 %arg.\1.5.0, i64 %arg.\1.6.0"
)

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


def kernel_of_file(text: str) -> tuple[str, tuple[int, ...]]:
    """The module of a file `passes/NAME.ll`, and the size of a block."""
    kernel = re.sub(r"(?m)^;.*\n", "", text).replace("INDICES", INDICES)
    kernel = str(llvm.parse(re.sub(r"\bARRAY (\w+)", ARRAY, kernel)))
    sizes = re.findall(r"(?m)^; BLOCK: (.+)$", text)[0].split(",")
    return kernel, tuple(map(int, [*sizes, 1, 1][:3]))
