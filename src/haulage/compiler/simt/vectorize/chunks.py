"""Writes the loop over a block's threads in which a region runs for a chunk of them at a time."""

from dataclasses import dataclass
from math import prod

from haulage.compiler.simt.emit.loop_bounds import Ranges
from haulage.compiler.simt.ir.axes import AXES


@dataclass(frozen=True)
class ChunkLoop:
    """The loop around region `number`, as `loop_nest.LoopNest` with `width` threads a turn: the
    indices are those of the first of them.

    With `ranges`, the first index and the one behind the last for each axis, it is for those
    threads only: `%from.K` and `%to.K` are the lanes that are in the range of the fastest axis,
    and chunks without any are passed over. What the last chunk came to is `%next.all.K` then, and
    `%fault.now.all.K` the largest fault.
    """

    number: int
    before: str
    sizes: tuple[int, int, int]
    axes: tuple[str, ...]
    faults: bool
    width: int
    ranges: Ranges | None = None

    @property
    def last_label(self) -> str:
        """The block behind the loop, which `closing` opens."""
        return f"out.{self.number}"

    @property
    def suffix(self) -> str:
        """How the names of what the chunks came to end."""
        return str(self.number) if self.ranges is None else f"all.{self.number}"

    @property
    def _fault(self) -> str:
        return f"%fault.now.{self.suffix}"

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
        if self.ranges is not None:
            lines.append(
                f"  %next.old.{k} = phi i32 [ 0, %{self.before} ], [ %next.all.{k}, %latch.{k} ]"
            )
        if self.faults:
            lines.append(
                f"  %fault.{k} = phi i32 [ 0, %{self.before} ], [ {self._fault}, %latch.{k} ]"
            )
        rest = f"%first.{k}"
        for axis in reversed(self.axes):
            size = self.sizes[AXES.index(axis)]
            lines += [
                f"  %{axis}.{k} = urem i32 {rest}, {size}",
                f"  %{axis}.above.{k} = udiv i32 {rest}, {size}",
            ]
            rest = f"%{axis}.above.{k}"
        return [*lines, f"  %thread.{k} = zext i32 %first.{k} to i64", *self._check()]

    def _check(self) -> list[str]:
        """Lines that find the lanes in the ranges, and pass over a chunk without any."""
        if self.ranges is None:
            return []
        k, fastest = self.number, self.axes[-1]
        first, end = self.ranges[fastest]
        lines = [
            f"  %from.{k} = call i32 @llvm.usub.sat.i32(i32 {first}, i32 %{fastest}.{k})",
            f"  %to.end.{k} = call i32 @llvm.usub.sat.i32(i32 {end}, i32 %{fastest}.{k})",
            f"  %to.{k} = call i32 @llvm.umin.i32(i32 %to.end.{k}, i32 {self.width})",
            f"  %some.{fastest}.{k} = icmp ult i32 %from.{k}, %to.{k}",
        ]
        some = f"%some.{fastest}.{k}"
        for axis in self.axes[:-1]:
            first, end = self.ranges[axis]
            lines += [
                f"  %above.{axis}.{k} = icmp uge i32 %{axis}.{k}, {first}",
                f"  %below.{axis}.{k} = icmp ult i32 %{axis}.{k}, {end}",
                f"  %in.{axis}.{k} = and i1 %above.{axis}.{k}, %below.{axis}.{k}",
                f"  %some.{axis}.{k} = and i1 {some}, %in.{axis}.{k}",
            ]
            some = f"%some.{axis}.{k}"
        return [*lines, f"  br i1 {some}, label %some.{k}, label %latch.{k}", f"some.{k}:"]

    def _kept(self, name: str, before: str) -> list[str]:
        """Lines at the latch: what a chunk came to, or the one before it if it was passed over."""
        if self.ranges is None:
            return []
        k = self.number
        new = f"%{name}.all.{k}"
        return [f"  {new} = phi i32 [ %{name}.{k}, %some.{k} ], [ {before}, %chunks.{k} ]"]

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
            *self._kept("next", f"%next.old.{k}"),
            *(self._kept("fault.now", f"%fault.{k}") if self.faults else []),
            f"  %first.after.{k} = add nuw nsw i32 %first.{k}, {self.width}",
            f"  %chunks.more.{k} = icmp ult i32 %first.after.{k}, {prod(self.sizes)}",
            f"  br i1 %chunks.more.{k}, label %chunks.{k}, label %out.{k}",
            f"out.{k}:",
        ]
