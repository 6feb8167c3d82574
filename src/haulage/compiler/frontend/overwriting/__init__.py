"""Which launches of a kernel write every element of an array, found in Numba's typed IR.

There `x[i] = ...` is one statement, the place of a thread one call and `x.size` one attribute; in
LLVM's they are arithmetic that its passes have rewritten. What is looked for is a proof, from what
is known to few kinds of expressions (`values.py`): an element is taken, and it is followed where
the thread goes that it belongs to (`ways.py`). What is met besides is not known, so the thread may
go either way there.

Whether the array is read, or a thread may stop before it writes, is not asked here: see
`compiler/access`.
"""

from haulage.compiler.frontend.overwriting.proof import wholes

__all__ = ["wholes"]
