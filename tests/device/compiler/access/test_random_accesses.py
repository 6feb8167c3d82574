"""What random kernels are said to do with their arguments is what they do."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from device.compiler.access import access_checks, random_accesses
from device.compiler.access.changed_accesses import changed
from device.compiler.access.test_access import SIGNATURE, WHOLES, made
from device.compiler.simt.test_random_kernels import as_often_as_wanted
from haulage.errors import CompileError

# In this way of running threads, code for the CPU is made soonest.
WAYS = ("scalar",)

GRIDS = (1, 3, (2, 2))
BLOCKS = (4, (2, 2), (4, 4))


@pytest.mark.usefixtures("way")
@as_often_as_wanted
@given(
    lines=random_accesses.programs,
    block=st.sampled_from(BLOCKS),
    shapes=st.lists(
        st.tuples(*(st.integers(1, 9) for _ in "nm"), st.integers(-1, 9), st.integers(0, 3)),
        min_size=2,
        max_size=2,
    ),
    seed=st.integers(0, 99),
)
def test_random_kernels_do_what_they_are_said_to(device, lines, block, shapes, seed):
    kernel = random_accesses.kernel(lines)
    random = np.random.default_rng(seed)
    for size, columns, n, c in shapes:
        arrays = [random.normal(size=size) for _ in "xyuvw"]
        matrix = random.normal(size=(size, columns))
        for grid in GRIDS:
            access_checks.check(kernel, grid, block, (*arrays, matrix, n, c))


@pytest.mark.usefixtures("way")
@as_often_as_wanted
@given(
    lines=changed(tuple(WHOLES)),
    block=st.sampled_from(BLOCKS),
    shapes=st.lists(
        st.tuples(*(st.integers(1, 9) for _ in "nm"), st.integers(0, 9), st.integers(0, 3)),
        min_size=2,
        max_size=2,
    ),
)
def test_changed_kernels_do_what_they_are_said_to(device, lines, block, shapes):
    kernel = made(lines)
    try:
        kernel.access(SIGNATURE)
    except CompileError:
        # A variable may be missing now.
        assume(False)
    random = np.random.default_rng(0)
    for size, columns, n, k in shapes:
        x, y, m = (random.normal(size=shape) for shape in (size, size, (size, columns)))
        for grid in GRIDS:
            access_checks.check(kernel, grid, block, (x, y, m, n, np.uint8(k)))
