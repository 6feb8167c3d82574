"""Writes the loops over the blocks of a range: along rows of the grid's fastest axis, block after
block, or run after run of them (`block_coalescing.py`).

A loop over the blocks' numbers would divide twice for each block, and nothing that only the other
two indices decide would stay in registers.
"""

from haulage.compiler.simt.loops.block_coalescing import WIDTH, Run


def block_indices(order: str = "zyx", block: str = "block", index: str = "blockIdx") -> list[str]:
    """Lines that make a block's indices, named `index`, of the linear number `block`, which counts
    along the axes of `order`, fastest last."""
    slow, middle, fast = tuple(order)
    return [
        f"  %{index}.{fast}.wide = urem i64 %{block}, %wide.{fast}",
        f"  %{index}.rows = udiv i64 %{block}, %wide.{fast}",
        f"  %{index}.{middle}.wide = urem i64 %{index}.rows, %wide.{middle}",
        f"  %{index}.{slow}.wide = udiv i64 %{index}.rows, %wide.{middle}",
        *(f"  %{index}.{axis} = trunc i64 %{index}.{axis}.wide to i32" for axis in "xyz"),
    ]


def rows(order: str, label: str, run: Run | None = None) -> tuple[list[str], list[str]]:
    """Lines before and behind the loop over the blocks of a row, which run it for all rows.

    The first lines end the block `label`. In the loop the block's indices are `%blockIdx.x` and so
    on, its number `%block`, and `%fault` the largest before it; lines between the two make
    `%fault.now`. With runs these are a run's first block, and `%width` is how wide it is.
    """
    opening, step, wide = ([], "1", "1") if run is None else _run(run)
    slow, middle, fast = tuple(order)
    before = [
        *block_indices(order, "first", "begin"),
        "  br label %row",
        "row:",
        f"  %row.first = phi i64 [ %first, %{label} ], [ %row.last, %row.end ]",
        f"  %row.fault = phi i32 [ 0, %{label} ], [ %fault.now, %row.end ]",
        f"  %row.begin = phi i32 [ %begin.{fast}, %{label} ], [ 0, %row.end ]",
        *(
            f"  %blockIdx.{axis} = phi i32 [ %begin.{axis}, %{label} ], [ %{axis}.next, %row.end ]"
            for axis in (middle, slow)
        ),
        f"  %row.left = sub i32 %gridDim.{fast}, %row.begin",
        "  %row.left.wide = zext i32 %row.left to i64",
        "  %row.full = add i64 %row.first, %row.left.wide",
        "  %row.last = call i64 @llvm.umin.i64(i64 %row.full, i64 %last)",
        "  br label %blocks",
        "blocks:",
        "  %block = phi i64 [ %row.first, %row ], [ %block.after, %blocks ]",
        "  %fault = phi i32 [ %row.fault, %row ], [ %fault.now, %blocks ]",
        f"  %blockIdx.{fast} = phi i32 [ %row.begin, %row ], [ %{fast}.next, %blocks ]",
        *opening,
    ]
    behind = [
        f"  %{fast}.next = add nuw i32 %blockIdx.{fast}, {step}",
        f"  %block.after = add nuw nsw i64 %block, {wide}",
        "  %more = icmp ult i64 %block.after, %row.last",
        "  br i1 %more, label %blocks, label %row.end",
        "row.end:",
        f"  %middle.after = add nuw i32 %blockIdx.{middle}, 1",
        f"  %middle.full = icmp eq i32 %middle.after, %gridDim.{middle}",
        f"  %{middle}.next = select i1 %middle.full, i32 0, i32 %middle.after",
        "  %carry = zext i1 %middle.full to i32",
        f"  %{slow}.next = add nuw i32 %blockIdx.{slow}, %carry",
        "  %more.rows = icmp ult i64 %row.last, %last",
        "  br i1 %more.rows, label %row, label %end",
    ]
    return before, behind


def _run(run: Run) -> tuple[list[str], str, str]:
    """Lines that make `%width`, and the blocks of a run as an i32 and an i64."""
    lines = [
        "  %run.left = sub nuw nsw i64 %row.last, %block",
        f"  %run.wide = call i64 @llvm.umin.i64(i64 %run.left, i64 {run.blocks})",
        "  %run = trunc i64 %run.wide to i32",
        f"  {WIDTH} = mul nuw nsw i32 %run, {run.size}",
    ]
    return lines, "%run", "%run.wide"
