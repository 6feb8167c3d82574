"""How code for the CPU reads its counters."""

import platform
from typing import Any

from haulage.targets.cpu_ir import declare

# POSIX's number, on Linux; `time.monotonic_ns()` reads the same clock.
_CLOCK_MONOTONIC = 1
# Processors whose counter of ticks every program may read.
_WITH_TICKS = ("x86_64", "amd64")


def counter(builder: Any, which: str) -> Any:
    """The 64-bit value of the counter "ticks" or "nanoseconds"."""
    return builder.call(_function(builder.module, which), [])


def _function(module: Any, which: str) -> Any:
    """`i64 haulage.<which>()`, which stays a call: nothing moves across it."""
    from llvmlite import ir

    i32, i64 = ir.IntType(32), ir.IntType(64)
    name = f"haulage.{which}"
    known = module.globals.get(name)
    if known is not None:
        return known
    function = ir.Function(module, ir.FunctionType(i64, []), name)
    function.linkage = "linkonce_odr"
    for attribute in ("noinline", "optnone", "nounwind"):
        function.attributes.add(attribute)
    inside = ir.IRBuilder(function.append_basic_block())
    if which == "ticks" and platform.machine().lower() in _WITH_TICKS:
        read = declare(module, "llvm.readcyclecounter", ir.FunctionType(i64, []))
        inside.ret(inside.call(read, []))
        return function
    time = inside.alloca(ir.ArrayType(i64, 2))
    pointer = inside.bitcast(time, ir.PointerType())
    kind = ir.FunctionType(i32, [i32, ir.PointerType()])
    inside.call(declare(module, "clock_gettime", kind), [i32(_CLOCK_MONOTONIC), pointer])
    seconds, rest = (
        inside.load(inside.gep(time, [i32(0), i32(part)]), typ=i64) for part in range(2)
    )
    inside.ret(inside.add(inside.mul(seconds, i64(1_000_000_000)), rest))
    return function
