"""Numbers too small to be normal count as zero in a kernel with all of fastmath."""

import re

_FLUSH = '"denormal-fp-math-f32"="preserve-sign,preserve-sign"'
_DEFINED = re.compile(r"(?m)^(define .*\)(?: (?:local_)?unnamed_addr)?)( [^)\n]*\{)$")


def flushing(text: str) -> str:
    """A module's text whose functions take numbers too small to be normal for zero."""
    return _DEFINED.sub(rf"\1 {_FLUSH}\2", text)
