"""What `kernel.access` says of a launch, compared with what the launch does.

A launch is made several times, with other bytes in the arrays. An argument that is not written
keeps its own; one that is not read changes no result; one that is wholly overwritten ends with the
same bytes whatever was in it.
"""

import numpy as np

from haulage import cuda

# Around each array, for threads whose index is out of its bounds.
_ROOM = 512


class _Given:
    """An array for launches, in the midst of other memory."""

    def __init__(self, like):
        self.like = like
        self.whole = cuda.device_array(like.size + 2 * _ROOM, like.dtype)
        self.array = self.whole[_ROOM : _ROOM + like.size].reshape(like.shape)

    def fill(self, random):
        """Random bytes, among which are NaNs."""
        made = random.integers(0, 256, self.whole.nbytes, np.uint8).view(self.whole.dtype)
        if made.dtype == np.bool_:
            made = made.view(np.uint8) % 2 == 1
        self.whole.copy_to_device(made)

    def set(self, values):
        self.array.copy_to_device(np.ascontiguousarray(values))

    def bytes(self):
        return (
            np.ascontiguousarray(self.array.copy_to_host())
            .view(np.uint8)
            .reshape(self.like.size, -1)
        )


def _launched(kernel, grid, block, args, filled, seed):
    """The bytes of all arrays before and behind a launch, in which `filled` has random ones."""
    given = {number: _Given(arg) for number, arg in enumerate(args) if isinstance(arg, np.ndarray)}
    random = np.random.default_rng(seed)
    for number, each in given.items():
        each.fill(np.random.default_rng(number))
        if number == filled:
            each.fill(random)
        else:
            each.set(args[number])
    before = {number: each.bytes() for number, each in given.items()}
    kernel[grid, block](*(given[n].array if n in given else arg for n, arg in enumerate(args)))
    cuda.synchronize()
    return before, {number: each.bytes() for number, each in given.items()}


def check(kernel, grid, block, args):
    """Make launches, and compare. Gives the numbers of the arguments that are said to be wholly
    overwritten by them."""
    before, behind = _launched(kernel, grid, block, args, None, 0)
    overwritten = []
    for number, access in enumerate(kernel.access().arguments):
        if access is None:
            continue
        what = f"argument {number}: {access}"
        if not access.writes:
            np.testing.assert_array_equal(behind[number], before[number], what)
        whole = access.overwrites(grid, block, args)
        if whole:
            overwritten.append(number)
        if access.reads:
            assert not whole, what
            continue
        runs = [_launched(kernel, grid, block, args, number, seed) for seed in (1, 2)]
        for other, expected in behind.items():
            if other != number:
                for _, found in runs:
                    np.testing.assert_array_equal(found[other], expected, f"{what}, {other}")
        (first, first_behind), (second, second_behind) = (
            (one[number], other[number]) for one, other in runs
        )
        same = (first_behind == second_behind).all(axis=1)
        if whole:
            assert same.all(), f"{what}: elements {np.flatnonzero(~same)} are left"
        kept = (first_behind == first).all(axis=1) & (second_behind == second).all(axis=1)
        assert (same | kept).all(), f"{what}: what is written depends on what was there"
    return overwritten


def truly_overwritten(kernel, grid, block, args, number):
    """Whether a launch leaves nothing of what was in an argument."""
    one, other = (_launched(kernel, grid, block, args, number, seed)[1] for seed in (1, 2))
    return np.array_equal(one[number], other[number])
