"""What the barrier of a grid is made of on AMD's GPUs.

The counter is the back end's (`backends.amd_driver.counters`), which passes its address behind the
user's arguments: right before the hidden ones, which all functions know the place of.
"""

from haulage.compiler.gpu.grid import GridWords
from haulage.targets.amd import BLOCKS_AT, THREADS_AT

_READ = "haulage_register."
_HARDWARE = """
define internal i32 @{name}() alwaysinline nounwind {{
  %value = call i32 @llvm.amdgcn.{intrinsic}()
  ret i32 %value
}}
declare i32 @llvm.amdgcn.{intrinsic}()
"""
_IMPLICIT = """
define internal i32 @{name}() alwaysinline nounwind {{
  %base = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %place = getelementptr i8, ptr addrspace(4) %base, i64 {offset}
  %value = load i{bits}, ptr addrspace(4) %place, align {align}
  %wide = {widened}
  ret i32 %wide
}}
"""


def _definitions() -> str:
    parts = [
        "declare void @llvm.amdgcn.s.barrier()",
        "declare void @llvm.amdgcn.s.sleep(i32)",
        "declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()",
    ]
    for register, intrinsic in (("tid", "workitem.id"), ("ctaid", "workgroup.id")):
        for axis in "xyz":
            name = f"{_READ}{register}.{axis}"
            parts.append(_HARDWARE.format(name=name, intrinsic=f"{intrinsic}.{axis}"))
    for register, offsets, bits in (("ntid", THREADS_AT, 16), ("nctaid", BLOCKS_AT, 32)):
        widened = "zext i16 %value to i32" if bits == 16 else "or i32 %value, 0"
        for axis in "xyz":
            name = f"{_READ}{register}.{axis}"
            given = {"offset": offsets[axis], "bits": bits, "align": bits // 8}
            parts.append(_IMPLICIT.format(name=name, widened=widened, **given))
    return "\n".join(parts)


WORDS = GridWords(
    read=_READ,
    barrier="\n".join(
        [
            'fence syncscope("workgroup") release',
            "  call void @llvm.amdgcn.s.barrier()",
            '  fence syncscope("workgroup") acquire',
        ]
    ),
    counter="""
  %hidden = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %counter.at = getelementptr i8, ptr addrspace(4) %hidden, i64 -8
  %counter = load ptr addrspace(1), ptr addrspace(4) %counter.at, align 8
""",
    scope="agent",
    others=_definitions(),
    inlined="alwaysinline",
    # The others of the compute unit work on.
    pause="  call void @llvm.amdgcn.s.sleep(i32 1)",
    # What each wavefront has written is seen by the device, not only by its own block.
    before='  fence syncscope("agent") release',
    behind='  fence syncscope("agent") acquire',
)
