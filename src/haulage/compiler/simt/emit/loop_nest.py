"""Writes the nest of loops over a block's threads in which a region runs.

Rooms, slots and states are numbered in the order of the loops: neighbours in the innermost loop are
neighbours in memory. What a program can see of a thread, its indices and its warp, is not changed
by that order.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from haulage.compiler.simt.ir.axes import AXES


@dataclass(frozen=True)
class LoopNest:
    """The loops with names that end in `number`: `axes`, outermost first, of a block of `sizes`
    threads.

    `ranges` has for each axis the first index and the one behind the last; none may be empty.

    With `faults` the largest fault of all threads is carried through: `%fault.this.K` is a
    thread's, `%fault.now.K` is the result. Control comes from the block named `before`. The
    innermost loop goes on by `step`.
    """

    number: str
    before: str
    sizes: tuple[int, int, int]
    axes: tuple[str, ...]
    ranges: Mapping[str, tuple[str, str]]
    faults: bool
    step: str = "1"

    @property
    def innermost(self) -> str:
        return self.axes[-1]

    @property
    def innermost_size(self) -> int:
        return self.sizes[AXES.index(self.innermost)]

    @property
    def last_label(self) -> str:
        """The block behind the loops, which `closing` opens."""
        return f"out.{self.axes[0]}.{self.number}"

    def thread(self) -> tuple[str, str, str]:
        """The values of threadIdx.x, .y and .z inside."""
        x, y, z = (f"%{axis}.{self.number}" if axis in self.axes else "0" for axis in AXES)
        return x, y, z

    def opening(self) -> list[str]:
        """Lines up to the loops' body; they make `%thread.K`, the thread's number (an i64)."""
        k = self.number
        lines: list[str] = []
        before = self.before
        outer_fault = "0"
        for axis in self.axes:
            lines += [
                f"  br label %loop.{axis}.{k}",
                f"loop.{axis}.{k}:",
                f"  %{axis}.{k} = phi i32 [ {self.ranges[axis][0]}, %{before} ], "
                f"[ %{axis}.after.{k}, %latch.{axis}.{k} ]",
            ]
            if self.faults:
                lines.append(
                    f"  %fault.{axis}.{k} = phi i32 [ {outer_fault}, %{before} ], "
                    f"[ %fault.now.{k}, %latch.{axis}.{k} ]"
                )
                outer_fault = f"%fault.{axis}.{k}"
            before = f"loop.{axis}.{k}"
        return lines + self.thread_number(self.thread(), k)

    def thread_number(self, thread: tuple[str, str, str], suffix: str) -> list[str]:
        """Lines that make `%thread.SUFFIX` of the indices of a thread."""
        lines = []
        sum_so_far = "0"
        for axis, weight in zip(self.axes, _weights(self.sizes, self.axes), strict=True):
            index = thread[AXES.index(axis)]
            lines += [
                f"  %{axis}.part.{suffix} = mul nuw nsw i32 {index}, {weight}",
                f"  %{axis}.sum.{suffix} = add nuw nsw i32 {sum_so_far}, %{axis}.part.{suffix}",
            ]
            sum_so_far = f"%{axis}.sum.{suffix}"
        return [*lines, f"  %thread.{suffix} = zext i32 {sum_so_far} to i64"]

    def closing(self, note: str, outer: Callable[[], str] | None = None) -> list[str]:
        """Lines behind the loops; `note` is added to the branch of the innermost one, and what
        `outer` makes to that of each other one."""
        k = self.number
        lines: list[str] = []
        if self.faults:
            lines.append(
                f"  %fault.now.{k} = call i32 @llvm.umax.i32"
                f"(i32 %fault.{self.innermost}.{k}, i32 %fault.this.{k})"
            )
        for axis in reversed(self.axes):
            end = self.ranges[axis][1]
            if axis != self.innermost:
                note = outer() if outer is not None else ""
            step = self.step if axis == self.innermost else "1"
            lines += [
                f"  br label %latch.{axis}.{k}",
                f"latch.{axis}.{k}:",
                f"  %{axis}.after.{k} = add nuw nsw i32 %{axis}.{k}, {step}",
                f"  %{axis}.more.{k} = icmp ult i32 %{axis}.after.{k}, {end}",
                f"  br i1 %{axis}.more.{k}, label %loop.{axis}.{k}, label %out.{axis}.{k}{note}",
                f"out.{axis}.{k}:",
            ]
        return lines


def looped_axes(sizes: tuple[int, int, int], order: str) -> tuple[str, ...]:
    """The axes of `order` (outermost first) that need a loop; the last if none does."""
    axes = tuple(axis for axis in order if sizes[AXES.index(axis)] > 1)
    return axes or (order[-1],)


def _weights(sizes: tuple[int, int, int], axes: tuple[str, ...]) -> list[int]:
    """How many threads follow one another in one step of each axis."""
    counts = [sizes[AXES.index(axis)] for axis in axes]
    return [prod(counts[position + 1 :]) for position in range(len(counts))]
