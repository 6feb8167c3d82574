"""Broadcasting, and merging the axes of a loop over several arrays: arithmetic on strides."""

from collections.abc import Sequence

from haulage.runtime.geometry.layout import Ints


def broadcast_strides(shape: Ints, strides: Ints, to: Ints) -> Ints:
    """Strides with which an array of `shape` is walked as one of shape `to`, which it fits."""
    new = len(to) - len(shape)
    steps = (0 if n == 1 else step for n, step in zip(shape, strides, strict=True))
    return (0,) * new + tuple(steps)


def merged(shape: Ints, strides: Sequence[Ints]) -> tuple[Ints, list[Ints]]:
    """The fewest axes for a loop over arrays of one shape, of which the last leads.

    Axes go in the order of the last array's memory, and become one where every array allows it.
    At least one axis is left.
    """
    leader = strides[-1]
    axes = sorted(
        (axis for axis, n in enumerate(shape) if n != 1), key=lambda axis: -abs(leader[axis])
    )
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis in axes:
        n = shape[axis]
        if sizes and all(
            own[-1] == given[axis] * n for own, given in zip(steps, strides, strict=True)
        ):
            sizes[-1] *= n
            for own, given in zip(steps, strides, strict=True):
                own[-1] = given[axis]
        else:
            sizes.append(n)
            for own, given in zip(steps, strides, strict=True):
                own.append(given[axis])
    if not sizes:
        return (1,), [(0,)] * len(strides)
    return tuple(sizes), [tuple(own) for own in steps]
