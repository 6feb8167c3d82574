"""What launches would cost a GPU, as Python has it: lint_native.h tells what each function does."""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free


cdef extern from "lint_native.h" nogil:
    const int HAULAGE_LINT_GLOBAL, HAULAGE_LINT_SHARED, HAULAGE_LINT_BRANCH, HAULAGE_LINT_LOOP
    const int HAULAGE_LINT_COUNT, HAULAGE_LINT_FIGURES

    ctypedef struct haulage_lint_site:
        uint32_t kind, nbytes, group
        bint waits, taken_waits, exits

    ctypedef struct haulage_lint_shift:
        uint64_t low, high, beyond

    ctypedef uint64_t haulage_lint_figures[8]

    int haulage_lint_begin(
        const haulage_lint_site *, uint32_t, uint32_t, uint32_t, uint32_t, const uint64_t *,
        uint64_t, const haulage_lint_shift *, uint32_t, bint
    )
    uint64_t haulage_lint_end(haulage_lint_figures *, haulage_lint_figures *, uint64_t *)
    void *haulage_lint_thread(int64_t, int)
    void haulage_lint_access(void *, const void *, int64_t, int64_t)
    void haulage_lint_branch(void *, int64_t, int64_t, int64_t)
    void haulage_lint_loop(void *, int64_t, int64_t)
    void haulage_lint_count(void *, int64_t, int64_t)
    void haulage_lint_works(void *)


# Kinds of sites.
GLOBAL, SHARED, BRANCH, LOOP, COUNT = (
    HAULAGE_LINT_GLOBAL, HAULAGE_LINT_SHARED, HAULAGE_LINT_BRANCH, HAULAGE_LINT_LOOP,
    HAULAGE_LINT_COUNT,
)

# What measured kernels call, by name.
FOR_KERNELS = {
    "haulage_lint_thread": <uintptr_t>&haulage_lint_thread,
    "haulage_lint_access": <uintptr_t>&haulage_lint_access,
    "haulage_lint_branch": <uintptr_t>&haulage_lint_branch,
    "haulage_lint_loop": <uintptr_t>&haulage_lint_loop,
    "haulage_lint_count": <uintptr_t>&haulage_lint_count,
    "haulage_lint_works": <uintptr_t>&haulage_lint_works,
}


def begin(
    list sites not None, uint32_t groups, uint32_t threads, uint32_t lanes, measured,
    list shifts not None, *, bint keeps
):
    """Measure the launch that begins next.

    Args:
        sites: of each one (kind, bytes, group, waits, taken_waits, exits).
        groups: how many groups there are.
        threads, lanes: how many of a block, and of a warp.
        measured: the numbers of the blocks to measure, in order; None: all.
        shifts: of memory of the host (address, bytes, by how much its addresses are beyond what a
            GPU's copy would have).
        keeps: whether blocks wait for one another.

    Raises:
        MemoryError: there is none for that.
    """
    cdef Py_ssize_t count = len(sites), number, so_many = 0 if measured is None else len(measured)
    cdef haulage_lint_site *each = <haulage_lint_site *>calloc(count + 1, sizeof(each[0]))
    cdef uint64_t *blocks = <uint64_t *>calloc(so_many + 1, sizeof(blocks[0]))
    cdef Py_ssize_t shifted = len(shifts)
    cdef haulage_lint_shift *beyond = <haulage_lint_shift *>calloc(shifted + 1, sizeof(beyond[0]))
    try:
        if each == NULL or blocks == NULL or beyond == NULL:
            raise MemoryError
        for number in range(count):
            kind, nbytes, group, waits, taken_waits, exits = sites[number]
            each[number].kind, each[number].nbytes, each[number].group = kind, nbytes, group
            each[number].waits, each[number].taken_waits = waits, taken_waits
            each[number].exits = exits
        for number in range(so_many):
            blocks[number] = measured[number]
        for number in range(shifted):
            low, size, by = shifts[number]
            beyond[number].low, beyond[number].high, beyond[number].beyond = low, low + size, by
        if haulage_lint_begin(
            each, <uint32_t>count, groups, threads, lanes,
            NULL if measured is None else blocks, so_many, beyond,
            <uint32_t>shifted, keeps,
        ):
            raise MemoryError
    finally:
        free(each)
        free(blocks)
        free(beyond)


def end(uint32_t sites, uint32_t groups):
    """End it; returns the accesses that were measured, how many threads were measured, how many of
    these did nothing, and the figures of each site and of each group (see check_lint.c)."""
    cdef haulage_lint_figures *of_sites = (
        <haulage_lint_figures *>calloc(sites + 1, sizeof(of_sites[0]))
    )
    cdef haulage_lint_figures *of_groups = (
        <haulage_lint_figures *>calloc(groups + 1, sizeof(of_groups[0]))
    )
    cdef uint64_t threads[2]
    try:
        if of_sites == NULL or of_groups == NULL:
            raise MemoryError
        accesses = haulage_lint_end(of_sites, of_groups, threads)
        return (
            accesses, threads[0], threads[1],
            [[of_sites[at][n] for n in range(HAULAGE_LINT_FIGURES)] for at in range(sites)],
            [[of_groups[at][n] for n in range(HAULAGE_LINT_FIGURES)] for at in range(groups)],
        )
    finally:
        free(of_sites)
        free(of_groups)
