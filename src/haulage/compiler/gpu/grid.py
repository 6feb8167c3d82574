"""The barrier of a whole grid, whose blocks are all there at one time.

One thread of each block, chosen among those that are there, adds to a counter; the first block adds
what makes its highest bit change when all have come, and all wait for that. So the counter needs no
reset and counts on with the next barrier.

The counter is the driver's, which gives one to each cooperative launch, so that launches of one
kernel may run at the same time, by streams and by graphs. Its address is where CUDA's own
cooperative groups have it (`cooperative_groups/details/driver_abi.h` of the toolkit): the registers
`%envreg1` and `%envreg2` hold the upper and the lower half of the address of a size and the
counter, of 32 bits each. Code of others in the same kernel that waits as CUDA does counts on in it.
"""

from haulage.targets.nvidia import GRID_BARRIER

_LEADER = "haulage_grid_leader"
_DEFINITION = f"""
@{_LEADER} = internal addrspace(3) global i32 undef, align 4
declare void @llvm.nvvm.barrier.cta.sync.all(i32)
declare i32 @llvm.nvvm.read.ptx.sreg.envreg1()
declare i32 @llvm.nvvm.read.ptx.sreg.envreg2()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()
define internal void @{GRID_BARRIER}() convergent noinline nounwind {{
  %x = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %z = call i32 @llvm.nvvm.read.ptx.sreg.tid.z()
  %nx = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %ny = call i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
  %zy = mul i32 %z, %ny
  %rows = add i32 %zy, %y
  %before = mul i32 %rows, %nx
  %thread = add i32 %before, %x
  call void @llvm.nvvm.barrier.cta.sync.all(i32 0)
  store volatile i32 %thread, ptr addrspace(3) @{_LEADER}, align 4
  call void @llvm.nvvm.barrier.cta.sync.all(i32 0)
  %leader = load volatile i32, ptr addrspace(3) @{_LEADER}, align 4
  %leads = icmp eq i32 %leader, %thread
  br i1 %leads, label %arrive, label %wait
arrive:
  %high = call i32 @llvm.nvvm.read.ptx.sreg.envreg1()
  %low = call i32 @llvm.nvvm.read.ptx.sreg.envreg2()
  %high.wide = zext i32 %high to i64
  %low.wide = zext i32 %low to i64
  %shifted = shl i64 %high.wide, 32
  %address = or i64 %shifted, %low.wide
  %workspace = inttoptr i64 %address to ptr addrspace(1)
  %counter = getelementptr i8, ptr addrspace(1) %workspace, i64 4
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %bz = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %gx = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %gy = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
  %gz = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()
  %gxy = mul i32 %gx, %gy
  %blocks = mul i32 %gxy, %gz
  %bxy = or i32 %bx, %by
  %block = or i32 %bxy, %bz
  %is.first = icmp eq i32 %block, 0
  %rest = sub i32 %blocks, 1
  %step = sub i32 -2147483648, %rest
  %own = select i1 %is.first, i32 %step, i32 1
  fence syncscope("device") seq_cst
  %old = atomicrmw add ptr addrspace(1) %counter, i32 %own syncscope("device") seq_cst
  br label %look
look:
  %now = load atomic i32, ptr addrspace(1) %counter syncscope("device") acquire, align 4
  %changed = xor i32 %now, %old
  %all = icmp slt i32 %changed, 0
  br i1 %all, label %seen, label %look
seen:
  fence syncscope("device") seq_cst
  br label %wait
wait:
  call void @llvm.nvvm.barrier.cta.sync.all(i32 0)
  ret void
}}
"""


def with_grid_barrier(text: str) -> str:
    """A module's text in which the grid's barrier is defined if it is declared."""
    lines = text.split("\n")
    kept = [line for line in lines if not (line.startswith("declare ") and GRID_BARRIER in line)]
    if len(kept) == len(lines):
        return text
    known = "\n".join(kept)
    added = [
        line
        for line in _DEFINITION.split("\n")
        if not (line.startswith("declare ") and line.partition("@")[2].partition("(")[0] in known)
    ]
    return "\n".join([*kept, *added])
