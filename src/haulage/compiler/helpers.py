"""Functions of Numba's library for the host that kernels use, in LLVM's language.

So a kernel needs no library of any kind, on any device, and they are inlined like its own code.
"""

# NumPy's order of elements is by rows: where an array with these strides is not contiguous in that
# order, a reshape would need a copy, which 0 says. Else there are only new strides to set, and the
# number of elements has to stay as it is.
_RESHAPE = """
define internal i32 @numba_attempt_nocopy_reshape(i64 %nd, ptr %dims, ptr %strides, i64 %newnd,
    ptr %newdims, ptr %newstrides, i64 %itemsize, i32 %fortran) alwaysinline {
entry:
  br label %old
old:
  %i = phi i64 [ %nd, %entry ], [ %i.next, %old.axis ]
  %size = phi i64 [ 1, %entry ], [ %size.next, %old.axis ]
  %rows = phi i1 [ true, %entry ], [ %rows.next, %old.axis ]
  %old.more = icmp sgt i64 %i, 0
  br i1 %old.more, label %old.axis, label %new
old.axis:
  %i.next = sub i64 %i, 1
  %dim.at = getelementptr i64, ptr %dims, i64 %i.next
  %dim = load i64, ptr %dim.at, align 8
  %stride.at = getelementptr i64, ptr %strides, i64 %i.next
  %stride = load i64, ptr %stride.at, align 8
  %expected = mul i64 %size, %itemsize
  %is.expected = icmp eq i64 %stride, %expected
  %is.one = icmp eq i64 %dim, 1
  %fits = or i1 %is.expected, %is.one
  %rows.next = and i1 %rows, %fits
  %size.next = mul i64 %size, %dim
  br label %old
new:
  %j = phi i64 [ %newnd, %old ], [ %j.next, %new.axis ]
  %newsize = phi i64 [ 1, %old ], [ %newsize.next, %new.axis ]
  %new.more = icmp sgt i64 %j, 0
  br i1 %new.more, label %new.axis, label %done
new.axis:
  %j.next = sub i64 %j, 1
  %newstride = mul i64 %newsize, %itemsize
  %newstride.at = getelementptr i64, ptr %newstrides, i64 %j.next
  store i64 %newstride, ptr %newstride.at, align 8
  %newdim.at = getelementptr i64, ptr %newdims, i64 %j.next
  %newdim = load i64, ptr %newdim.at, align 8
  %newsize.next = mul i64 %newsize, %newdim
  br label %new
done:
  %same = icmp eq i64 %size, %newsize
  %empty = icmp eq i64 %size, 0
  %in.place = or i1 %rows, %empty
  %both = and i1 %same, %in.place
  %status = zext i1 %both to i32
  ret i32 %status
}
"""

_RESHAPE_DECLARED = "declare i32 @numba_attempt_nocopy_reshape("


def with_helpers(text: str) -> str:
    """A module's text in which the helpers that it declares are defined."""
    if _RESHAPE_DECLARED not in text:
        return text
    lines = [line for line in text.splitlines() if not line.startswith(_RESHAPE_DECLARED)]
    return "\n".join([*lines, _RESHAPE])
