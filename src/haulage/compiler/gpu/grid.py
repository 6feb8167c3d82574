"""The barrier of a whole grid, whose blocks are all there at one time.

One thread of each block, chosen among those that are there, adds to a counter; the first block adds
what makes its highest bit change when all have come, and all wait for that. So the counter needs no
reset and counts on with the next barrier. Where it is, and how a block's own threads wait, is the
maker's: `GridWords`.
"""

from typing import NamedTuple

from haulage.targets.gpu_ir import GRID_BARRIER

_LEADER = "haulage_grid_leader"


class GridWords(NamedTuple):
    """What the barrier is made of on GPUs of one maker, in LLVM's language.

    `read` is how the names begin of the functions for `tid.x`, `ntid.x`, `ctaid.x` and `nctaid.x`;
    `barrier` waits for the block; `counter` makes `%counter`, the address of 32 bits; `scope` is
    LLVM's for the device; `pause` goes before each look at the counter, `before` and `behind` are
    for all threads at both ends; `others` are declarations and definitions.
    """

    read: str
    barrier: str
    counter: str
    scope: str
    others: str
    inlined: str = "noinline"
    pause: str = ""
    before: str = ""
    behind: str = ""


_DEFINITION = """
@LEADER = internal addrspace(3) global i32 undef, align 4
OTHERS
define internal void @NAME() convergent INLINED nounwind {
BEFORE
  %x = call i32 @READ.tid.x()
  %y = call i32 @READ.tid.y()
  %z = call i32 @READ.tid.z()
  %nx = call i32 @READ.ntid.x()
  %ny = call i32 @READ.ntid.y()
  %zy = mul i32 %z, %ny
  %rows = add i32 %zy, %y
  %before = mul i32 %rows, %nx
  %thread = add i32 %before, %x
  BARRIER
  store volatile i32 %thread, ptr addrspace(3) @LEADER, align 4
  BARRIER
  %leader = load volatile i32, ptr addrspace(3) @LEADER, align 4
  %leads = icmp eq i32 %leader, %thread
  br i1 %leads, label %arrive, label %wait
arrive:
COUNTER
  %bx = call i32 @READ.ctaid.x()
  %by = call i32 @READ.ctaid.y()
  %bz = call i32 @READ.ctaid.z()
  %gx = call i32 @READ.nctaid.x()
  %gy = call i32 @READ.nctaid.y()
  %gz = call i32 @READ.nctaid.z()
  %gxy = mul i32 %gx, %gy
  %blocks = mul i32 %gxy, %gz
  %bxy = or i32 %bx, %by
  %block = or i32 %bxy, %bz
  %is.first = icmp eq i32 %block, 0
  %rest = sub i32 %blocks, 1
  %step = sub i32 -2147483648, %rest
  %own = select i1 %is.first, i32 %step, i32 1
  fence syncscope("SCOPE") seq_cst
  %old = atomicrmw add ptr addrspace(1) %counter, i32 %own syncscope("SCOPE") seq_cst
  br label %look
look:
PAUSE
  %now = load atomic i32, ptr addrspace(1) %counter syncscope("SCOPE") acquire, align 4
  %changed = xor i32 %now, %old
  %all = icmp slt i32 %changed, 0
  br i1 %all, label %seen, label %look
seen:
  fence syncscope("SCOPE") seq_cst
  br label %wait
wait:
  BARRIER
BEHIND
  ret void
}
"""


def with_grid_barrier(text: str, words: GridWords) -> str:
    """A module's text in which the grid's barrier is defined if it is declared."""
    if GRID_BARRIER not in text:
        return text
    lines = text.split("\n")
    kept = [line for line in lines if not (line.startswith("declare ") and GRID_BARRIER in line)]
    if len(kept) == len(lines):
        return text
    known = "\n".join(kept)
    added = [
        line
        for line in _definition(words).split("\n")
        if not (line.startswith("declare ") and line.partition("@")[2].partition("(")[0] in known)
    ]
    return "\n".join([*kept, *added])


def _definition(words: GridWords) -> str:
    made = _DEFINITION.replace("OTHERS", words.others.strip("\n"))
    for token, part in (
        ("COUNTER", words.counter.strip("\n")),
        ("BARRIER", words.barrier),
        ("PAUSE", words.pause),
        ("BEFORE", words.before),
        ("BEHIND", words.behind),
        ("SCOPE", words.scope),
        ("INLINED", words.inlined),
        ("@READ.", f"@{words.read}"),
        ("@LEADER", f"@{_LEADER}"),
        ("@NAME", f"@{GRID_BARRIER}"),
    ):
        made = made.replace(token, part)
    return made
