"""Divisions of 128-bit integers, for which no processor has an instruction.

LLVM makes such numbers of how often a loop turns that may end beyond 64 bits (`while i <= n`), and
calls these by the names of the compilers' run-time libraries, which not every process has loaded.
"""

import functools
from collections.abc import Callable
from typing import Any

from haulage.backends.cpu_driver import loader

# Bit by bit, as on paper; where both numbers are of 64 bits, by the processor's own division.
_DIVIDE = """
define internal i128 @divide(i128 %n, i128 %d, i1 %is.rest) {
start:
  %both = or i128 %n, %d
  %is.short = icmp ult i128 %both, 18446744073709551616
  br i1 %is.short, label %short, label %long
short:
  %n.64 = trunc i128 %n to i64
  %d.64 = trunc i128 %d to i64
  %quotient.64 = udiv i64 %n.64, %d.64
  %rest.64 = urem i64 %n.64, %d.64
  %found.64 = select i1 %is.rest, i64 %rest.64, i64 %quotient.64
  %found.short = zext i64 %found.64 to i128
  ret i128 %found.short
long:
  br label %next
next:
  %bit = phi i32 [ 127, %long ], [ %bit.after, %next ]
  %quotient = phi i128 [ 0, %long ], [ %quotient.after, %next ]
  %rest = phi i128 [ 0, %long ], [ %rest.after, %next ]
  %place = zext i32 %bit to i128
  %shifted = lshr i128 %n, %place
  %digit = and i128 %shifted, 1
  %rest.twice = shl i128 %rest, 1
  %rest.more = or i128 %rest.twice, %digit
  %carry = icmp slt i128 %rest, 0
  %reaches = icmp uge i128 %rest.more, %d
  %fits = or i1 %carry, %reaches
  %less = sub i128 %rest.more, %d
  %rest.after = select i1 %fits, i128 %less, i128 %rest.more
  %quotient.twice = shl i128 %quotient, 1
  %one = zext i1 %fits to i128
  %quotient.after = or i128 %quotient.twice, %one
  %bit.after = sub i32 %bit, 1
  %is.last = icmp eq i32 %bit, 0
  br i1 %is.last, label %end, label %next
end:
  %found = select i1 %is.rest, i128 %rest.after, i128 %quotient.after
  ret i128 %found
}

define internal i128 @size(i128 %x) {
  %negative = icmp slt i128 %x, 0
  %opposite = sub i128 0, %x
  %found = select i1 %negative, i128 %opposite, i128 %x
  ret i128 %found
}
"""

_UNSIGNED = """
define i128 @{name}(i128 %n, i128 %d) {{
  %found = call i128 @divide(i128 %n, i128 %d, i1 {is_rest})
  ret i128 %found
}}
"""

# A rest has the sign of what was divided.
_SIGNED = """
define i128 @{name}(i128 %n, i128 %d) {{
  %n.size = call i128 @size(i128 %n)
  %d.size = call i128 @size(i128 %d)
  %found = call i128 @divide(i128 %n.size, i128 %d.size, i1 {is_rest})
  %signs = xor i128 %n, %d
  %deciding = select i1 {is_rest}, i128 %n, i128 %signs
  %negative = icmp slt i128 %deciding, 0
  %opposite = sub i128 0, %found
  %signed = select i1 %negative, i128 %opposite, i128 %found
  ret i128 %signed
}}
"""

_IR = _DIVIDE + "".join(
    text.format(name=name, is_rest=is_rest)
    for text, name, is_rest in (
        (_UNSIGNED, "__udivti3", "false"),
        (_UNSIGNED, "__umodti3", "true"),
        (_SIGNED, "__divti3", "false"),
        (_SIGNED, "__modti3", "true"),
    )
)


@functools.cache
def _code() -> Any:
    # Quickly, also as LLVM makes a division of what divides when it optimises.
    return loader.link_ir("wide_division", list(PROVIDED), _IR, quickly=True)


def _address(name: str) -> int:
    return int(_code()[name])


# Name -> what gives its address; the functions are made when the first kernel asks for one.
PROVIDED: dict[str, Callable[[], int]] = {
    name: functools.partial(_address, name)
    for name in ("__udivti3", "__umodti3", "__divti3", "__modti3")
}
