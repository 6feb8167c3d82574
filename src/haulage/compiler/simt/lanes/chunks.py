"""Writes the loop over a block's threads in which a piece runs for a chunk of them at a time."""

from dataclasses import dataclass
from math import prod

from haulage.compiler.simt.loop_nest import AXES


@dataclass(frozen=True)
class ChunkLoop:
    """The loop around piece `number`, as `loop_nest.LoopNest` with `width` threads a turn: the
    indices are those of the first of them."""

    number: int
    before: str
    sizes: tuple[int, int, int]
    axes: tuple[str, ...]
    faults: bool
    width: int

    @property
    def last_label(self) -> str:
        """The block behind the loop, which `closing` opens."""
        return f"out.{self.number}"

    def thread(self) -> tuple[str, str, str]:
        """The values of threadIdx.x, .y and .z inside."""
        x, y, z = (f"%{axis}.{self.number}" if axis in self.axes else "0" for axis in AXES)
        return x, y, z

    def opening(self) -> list[str]:
        """Lines up to the loop's body; they make `%thread.K`, the thread's number (an i64)."""
        k = self.number
        lines = [
            f"  br label %chunks.{k}",
            f"chunks.{k}:",
            f"  %first.{k} = phi i32 [ 0, %{self.before} ], [ %first.after.{k}, %latch.{k} ]",
        ]
        if self.faults:
            lines.append(
                f"  %fault.{k} = phi i32 [ 0, %{self.before} ], [ %fault.now.{k}, %latch.{k} ]"
            )
        rest = f"%first.{k}"
        for axis in reversed(self.axes):
            size = self.sizes[AXES.index(axis)]
            lines += [
                f"  %{axis}.{k} = urem i32 {rest}, {size}",
                f"  %{axis}.above.{k} = udiv i32 {rest}, {size}",
            ]
            rest = f"%{axis}.above.{k}"
        return [*lines, f"  %thread.{k} = zext i32 %first.{k} to i64"]

    def closing(self) -> list[str]:
        """Lines behind the loop's body."""
        k = self.number
        lines: list[str] = []
        if self.faults:
            lines.append(
                f"  %fault.now.{k} = call i32 @llvm.umax.i32(i32 %fault.{k}, i32 %fault.this.{k})"
            )
        return [
            *lines,
            f"  br label %latch.{k}",
            f"latch.{k}:",
            f"  %first.after.{k} = add nuw nsw i32 %first.{k}, {self.width}",
            f"  %chunks.more.{k} = icmp ult i32 %first.after.{k}, {prod(self.sizes)}",
            f"  br i1 %chunks.more.{k}, label %chunks.{k}, label %out.{k}",
            f"out.{k}:",
        ]
