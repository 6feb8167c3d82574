"""Coroutine lowering on small functions: the coroutine of a thread, and the schedulers."""

import re

import pytest

from haulage.compiler import llvm
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.coroutines import cooperative_grid, lowering
from haulage.compiler.simt.emit import entry
from haulage.compiler.simt.emit.block_function import HEAP_DECLARATIONS
from haulage.compiler.simt.ir import reader
from haulage.compiler.simt.ir.writer import definition
from haulage.targets.cpu import BARRIER, GRID_BARRIER, HIDDEN_NAMES, WAVE_BARRIER, host

WORDS = {"dynamicShared": "ptr", "dynamicSharedBytes": "i64"}
HIDDEN = ", ".join(f"{WORDS.get(name, 'i32')} %{name}" for name in HIDDEN_NAMES)

# Each thread goes round a barrier in a loop as often as it says.
KERNEL = f"""
define i32 @haulage.kernel(ptr %ret, {HIDDEN}, ptr %data) {{
entry:
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %k.next, %loop ]
  %k.next = add i32 %k, 1
  call void @BARRIER(i32 7)
  store i32 %k, ptr %data, align 4
  %more = icmp ult i32 %k.next, %threadIdx.x
  br i1 %more, label %loop, label %end
end:
  ret i32 0
}}
"""


def _body(barrier=BARRIER):
    function = reader.read(KERNEL.replace("BARRIER", barrier), "haulage.kernel")
    return Body("", function, (), (), False, False)


def _lowered(barrier=BARRIER, cooperative=False):
    text = lowering.write(_body(barrier), (16, 4, 1), cooperative)
    names = re.findall(r"(?m)^define internal \S+ @(haulage\.(?!frame)[\w.]+)", text)
    functions = {name: reader.read(text, name) for name in names}
    return f"{HEAP_DECLARATIONS}\n{text}", functions


def _calls(function, word):
    return [item for item in function.instructions() if item.callee == word]


def test_a_thread_is_suspended_at_each_barrier_and_at_its_end():
    _, functions = _lowered()
    thread = functions["haulage.thread"]
    finals = [item.operands[1].text for item in _calls(thread, "llvm.coro.suspend")]
    assert finals == ["false", "true"]
    assert not _calls(thread, BARRIER)
    # Its state tells where it waits.
    assert "store i32 7, ptr %state" in [item.text for item in thread.blocks["%loop"].body]


def test_phis_know_the_block_in_which_a_thread_was_resumed():
    _, functions = _lowered()
    thread = functions["haulage.thread"]
    (phi,) = thread.blocks["%loop"].phis
    (_, resumed) = phi.sources
    assert resumed != "%loop"
    assert thread.blocks[resumed].successors == ("%loop", "%end")


@pytest.mark.parametrize(
    ("barrier", "cooperative"),
    [(BARRIER, False), (BARRIER, True), (WAVE_BARRIER, False), (GRID_BARRIER, True)],
)
def test_llvm_splits_all_coroutines(barrier, cooperative):
    text, functions = _lowered(barrier, cooperative)
    assert ("haulage.wave" in functions) == (barrier == WAVE_BARRIER)
    started = entry.write(_body(), 64, "zyx")
    if cooperative:
        started = cooperative_grid.write_entry(_body())
    module = llvm.parse(f"{text}\n\n{definition(started)}")
    llvm.optimise(module, host(), 3, widen=False)
    assert not re.search(r"call .*@llvm\.coro\.(begin|suspend|id)", str(module))


def test_a_block_that_waits_for_the_grid_returns_and_goes_on_in_its_next_round():
    _, functions = _lowered(GRID_BARRIER, cooperative=True)
    block = functions["haulage.block"]
    assert not _calls(block, "llvm.coro.suspend")
    begun = block.blocks["%block.start"].terminator
    assert "%round" in begun.targets
    waiting = block.blocks["%all.for.grid"]
    assert waiting.body[0].text == "store i32 1, ptr %frame"
    assert waiting.terminator.opcode == "ret"
    # The frames of its threads stay; whoever frees the block's frees them.
    assert not _calls(block, "haulage_free")
