"""Conversions between halves and wider floats, for processors that lack one of them.

LLVM calls them by the names of the compilers' run-time libraries, which not every process has
loaded. Here they are in integer arithmetic, compiled by LLVM itself, so that both sides agree on
how a half is passed.
"""

import functools
from collections.abc import Callable
from typing import Any

from haulage.backends.cpu_driver import loader

# All three round to the nearest, ties to even. A sum with 2**28 has its last bit where the smallest
# half has its only one; so it rounds what is below the smallest normal half, 2**-14.
_IR = """
declare double @llvm.fabs.f64(double)

define half @__truncdfhf2(double %x) {
  %bits = bitcast double %x to i64
  %shifted = lshr i64 %bits, 48
  %sign = and i64 %shifted, 32768
  %size = and i64 %bits, 9223372036854775807
  %moved = sub i64 %size, 4539628424389459968
  %last.at = lshr i64 %moved, 42
  %last = and i64 %last.at, 1
  %most = add i64 %moved, 2199023255551
  %up = add i64 %most, %last
  %normal = lshr i64 %up, 42
  %positive = call double @llvm.fabs.f64(double %x)
  %sum = fadd double %positive, 0x41B0000000000000
  %sum.bits = bitcast double %sum to i64
  %small = and i64 %sum.bits, 2047
  %is.small = icmp ult i64 %size, 4544132024016830464
  %finite = select i1 %is.small, i64 %small, i64 %normal
  %is.large = icmp uge i64 %size, 4679237813814689792
  %number = select i1 %is.large, i64 31744, i64 %finite
  %is.nan = icmp ugt i64 %size, 9218868437227405312
  %payload.at = lshr i64 %bits, 42
  %payload = and i64 %payload.at, 1023
  %nan = or i64 %payload, 32256
  %unsigned = select i1 %is.nan, i64 %nan, i64 %number
  %wide = or i64 %unsigned, %sign
  %narrow = trunc i64 %wide to i16
  %half = bitcast i16 %narrow to half
  ret half %half
}

define half @__truncsfhf2(float %x) {
  %wide = fpext float %x to double
  %half = call half @__truncdfhf2(double %wide)
  ret half %half
}

define float @__extendhfsf2(half %x) {
  %bits = bitcast half %x to i16
  %wide = zext i16 %bits to i32
  %size = and i32 %wide, 32767
  %sign.at = and i32 %wide, 32768
  %sign = shl i32 %sign.at, 16
  %shifted = shl i32 %size, 13
  %normal = add i32 %shifted, 939524096
  %special = or i32 %shifted, 2139095040
  %quiet = or i32 %special, 4194304
  %is.nan = icmp ugt i32 %size, 31744
  %nan = select i1 %is.nan, i32 %quiet, i32 %special
  %is.special = icmp uge i32 %size, 31744
  %large = select i1 %is.special, i32 %nan, i32 %normal
  %count = uitofp i32 %size to float
  %small = fmul float %count, 0x3E70000000000000
  %small.bits = bitcast float %small to i32
  %is.small = icmp ult i32 %size, 1024
  %unsigned = select i1 %is.small, i32 %small.bits, i32 %large
  %all = or i32 %unsigned, %sign
  %float = bitcast i32 %all to float
  ret float %float
}
"""


@functools.cache
def _code() -> Any:
    return loader.link_ir("half", list(PROVIDED), _IR)


def _address(name: str) -> int:
    return int(_code()[name])


# Name -> what gives its address; the functions are made when the first kernel asks for one.
PROVIDED: dict[str, Callable[[], int]] = {
    name: functools.partial(_address, name)
    for name in ("__truncdfhf2", "__truncsfhf2", "__extendhfsf2")
}
