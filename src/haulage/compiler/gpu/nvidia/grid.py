"""What the barrier of a grid is made of on NVIDIA's GPUs.

The counter is the driver's, which gives one to each cooperative launch, so that launches of one
kernel may run at the same time, by streams and by graphs. Its address is where CUDA's own
cooperative groups have it (`cooperative_groups/details/driver_abi.h` of the toolkit): the registers
`%envreg1` and `%envreg2` hold the upper and the lower half of the address of a size and the
counter, of 32 bits each. Code of others in the same kernel that waits as CUDA does counts on in it.
"""

from haulage.compiler.gpu.grid import GridWords

_READ = "llvm.nvvm.read.ptx.sreg."
_BARRIER = "llvm.nvvm.barrier.cta.sync.all"
_REGISTERS = (
    *("envreg1", "envreg2", "tid.x", "tid.y", "tid.z", "ntid.x", "ntid.y"),
    *("ctaid.x", "ctaid.y", "ctaid.z", "nctaid.x", "nctaid.y", "nctaid.z"),
)

WORDS = GridWords(
    read=_READ,
    barrier=f"call void @{_BARRIER}(i32 0)",
    counter="""
  %high = call i32 @llvm.nvvm.read.ptx.sreg.envreg1()
  %low = call i32 @llvm.nvvm.read.ptx.sreg.envreg2()
  %high.wide = zext i32 %high to i64
  %low.wide = zext i32 %low to i64
  %shifted = shl i64 %high.wide, 32
  %address = or i64 %shifted, %low.wide
  %workspace = inttoptr i64 %address to ptr addrspace(1)
  %counter = getelementptr i8, ptr addrspace(1) %workspace, i64 4
""",
    scope="device",
    others="\n".join(
        [
            f"declare void @{_BARRIER}(i32)",
            *(f"declare i32 @{_READ}{name}()" for name in _REGISTERS),
        ]
    ),
)
