"""n-d regions of memory, in the fewest axes: pure arithmetic."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

Axis = tuple[int, int, int]  # elements, bytes from one to the next in the target, in the source

# The largest piece that one instruction moves.
_WIDEST = 16


@dataclass(frozen=True)
class Region:
    """What a copy moves: runs of `run` bytes, at each place along the axes; outer axes first.

    Steps of the target are positive, those of the source any. The addresses are those of the first
    run.
    """

    target: int
    source: int
    axes: tuple[Axis, ...]
    run: int

    @property
    def runs(self) -> int:
        """How many there are."""
        return prod(size for size, _, _ in self.axes)

    @property
    def nbytes(self) -> int:
        """Of all runs."""
        return self.run * self.runs

    def target_extent(self) -> tuple[int, int]:
        """Addresses of the first byte of the target and behind the last one."""
        return self.target, self.target + self.run + sum((n - 1) * to for n, to, _ in self.axes)

    def source_extent(self) -> tuple[int, int]:
        """The same of the source."""
        low = sum((n - 1) * of for n, _, of in self.axes if of < 0)
        high = sum((n - 1) * of for n, _, of in self.axes if of > 0)
        return self.source + low, self.source + high + self.run

    def parts(self) -> "list[Region]":
        """The region cut along its first axis."""
        (size, to, of), *rest = self.axes
        return [
            replace(self, target=self.target + i * to, source=self.source + i * of, axes=(*rest,))
            for i in range(size)
        ]

    def pieces(self, most: int) -> "list[Region]":
        """The region cut into pieces of `most` bytes at the most; no run is longer."""
        if self.nbytes <= most:
            return [self]
        (size, to, of), *rest = self.axes
        each = self.nbytes // size
        if each > most:
            return [piece for part in self.parts() for piece in part.pieces(most)]
        step = most // each
        return [
            replace(
                self,
                target=self.target + i * to,
                source=self.source + i * of,
                axes=((min(step, size - i), to, of), *rest),
            )
            for i in range(0, size, step)
        ]

    def moved_to(self, target: int) -> "Region":
        """The same elements, into a dense target."""
        return replace(self, target=target, axes=_with_target(self.axes, self._dense()))

    def moved_from(self, source: int) -> "Region":
        """The same places, filled from a dense source."""
        dense = self._dense()
        axes = tuple((n, to, of) for (n, to, _), of in zip(self.axes, dense, strict=True))
        return replace(self, source=source, axes=axes)

    def _dense(self) -> list[int]:
        steps, step = [], self.run
        for size, _, _ in reversed(self.axes):
            steps.append(step)
            step *= size
        return steps[::-1]

    def in_units(self) -> tuple[int, tuple[Axis, ...]]:
        """(the size of the largest elements that can be moved one by one, the axes for them)."""
        steps = [step for _, to, of in self.axes for step in (to, of)]
        unit = gcd(_WIDEST, self.run, self.target, self.source, *steps)
        inner = ((self.run // unit, unit, unit),) if self.run > unit else ()
        return unit, (*self.axes, *inner)


def _with_target(axes: tuple[Axis, ...], steps: list[int]) -> tuple[Axis, ...]:
    return tuple((n, to, of) for (n, _, of), to in zip(axes, steps, strict=True))


def region(
    target: int,
    target_strides: Sequence[int],
    source: int,
    source_strides: Sequence[int],
    shape: Sequence[int],
    itemsize: int,
) -> Region | None:
    """What `Backend.copy_nd` is asked to copy; None if that is nothing."""
    if 0 in shape or not itemsize:
        return None
    axes: list[Axis] = []
    for size, to, of in zip(shape, target_strides, source_strides, strict=True):
        if size == 1:
            continue
        if to < 0:
            target, source = target + (size - 1) * to, source + (size - 1) * of
            to, of = -to, -of
        axes.append((size, to, of))
    axes.sort(key=lambda axis: (axis[1], abs(axis[2])))  # inner ones first
    run = itemsize
    while axes and axes[0][1] == axes[0][2] == run:
        run *= axes.pop(0)[0]
    merged: list[Axis] = []
    for size, to, of in axes:
        if merged:
            inner, inner_to, inner_of = merged[-1]
            if to == inner * inner_to and of == inner * inner_of:
                merged[-1] = (inner * size, inner_to, inner_of)
                continue
        merged.append((size, to, of))
    return Region(target, source, tuple(reversed(merged)), run)
