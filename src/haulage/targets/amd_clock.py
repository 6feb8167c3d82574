"""Counters of AMD's GPUs, and how a thread lets others work."""

from typing import Any

from haulage.targets.amd_architectures import version
from haulage.targets.gpu_ir import call

# A variable of the module: ticks in a millisecond of the clock that all processors have. It differs
# from card to card, so whoever loads the code writes there what the driver says, as the back end
# does; it is 100 MHz where nobody does, as on most.
CLOCK_RATE = "haulage_clock_rate"
_USUAL_RATE = 100_000
_NANOSECONDS = 1_000_000

# Clocks of one `s_sleep 1`, which are about as many nanoseconds or fewer.
_SLEEP = 64


def counter(builder: Any, which: str, architecture: str) -> Any:
    """The 64-bit value of a counter; see `Target.counter`."""
    # Of its cycles gfx11 counts the low 20 bits only.
    has_cycles = version(architecture)[0] != 11
    if which == "ticks" and has_cycles:
        return _read(builder, "llvm.readcyclecounter")
    ticks = _read(builder, "llvm.readsteadycounter")
    return ticks if which == "ticks" else _nanoseconds(builder, ticks)


def _read(builder: Any, name: str) -> Any:
    from llvmlite import ir

    # LLVM would move accesses of memory across the reading.
    builder.fence("seq_cst", "singlethread")
    value = call(builder, name, ir.IntType(64), [])
    builder.fence("seq_cst", "singlethread")
    return value


def _nanoseconds(builder: Any, ticks: Any) -> Any:
    from llvmlite import ir

    i32, i64 = ir.IntType(32), ir.IntType(64)
    variable = builder.module.globals.get(CLOCK_RATE)
    if variable is None:
        variable = ir.GlobalVariable(builder.module, i32, CLOCK_RATE, addrspace=1)
        variable.linkage = "weak_odr"
        variable.initializer = i32(_USUAL_RATE)
    rate = builder.zext(builder.load(variable, typ=i32), i64)
    # A product of all ticks would be too large after two days.
    whole, rest = builder.udiv(ticks, rate), builder.urem(ticks, rate)
    many = builder.mul(whole, i64(_NANOSECONDS))
    return builder.add(many, builder.udiv(builder.mul(rest, i64(_NANOSECONDS)), rate))


def pause(builder: Any, nanoseconds: Any) -> None:
    """Let others work for about so long; see `Target.pause`."""
    from llvmlite import ir

    i32 = ir.IntType(32)
    turns = builder.udiv(nanoseconds, i32(_SLEEP))
    before = builder.basic_block
    look, end = (builder.append_basic_block(f"pause.{part}") for part in ("look", "end"))
    builder.branch(look)
    builder.position_at_end(look)
    turn = builder.phi(i32)
    turn.add_incoming(i32(0), before)
    call(builder, "llvm.amdgcn.s.sleep", ir.VoidType(), [i32(1)])
    following = builder.add(turn, i32(1))
    turn.add_incoming(following, look)
    builder.cbranch(builder.icmp_unsigned("<", following, turns), look, end)
    builder.position_at_end(end)
