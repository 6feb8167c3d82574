"""Checked launches as Python has them: check_native.h tells what each function does."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free


cdef extern from "check_native.h" nogil:
    const int HAULAGE_RACE, HAULAGE_UNWRITTEN, HAULAGE_ANOTHER_BARRIER, HAULAGE_NOT_IN_MASK
    const int HAULAGE_ABSENT_LANE, HAULAGE_MISSED_BARRIER, HAULAGE_WIDE_WARP, HAULAGE_KIND_AT
    const int HAULAGE_FROM_NONE, HAULAGE_FROM_LANE, HAULAGE_FROM_XOR, HAULAGE_FROM_UP
    const int HAULAGE_FROM_DOWN
    const int HAULAGE_SITE_BITS, HAULAGE_SIZE_AT, HAULAGE_RANGE_AT, HAULAGE_NO_RANGE
    const int HAULAGE_SHARED, HAULAGE_HAS_VALUE, HAULAGE_ONLY_READS, HAULAGE_TAKES, HAULAGE_ARRAYS
    const int HAULAGE_COUNTERS

    ctypedef struct haulage_check_range:
        uint64_t low, high
        uint8_t *written
        uint32_t shift
        bint races

    ctypedef struct haulage_check_found:
        uint32_t kind, site, other, thread, other_thread
        uint32_t array
        uint64_t block, other_block, address, count, origin
        bint same, has_other

    ctypedef struct haulage_check_sample:
        uint64_t plain, checked

    ctypedef int64_t (*haulage_check_code)(const void *, uint64_t, uint64_t) noexcept nogil

    int haulage_check_sample_blocks(
        const haulage_check_sample *, uint64_t, haulage_check_code, haulage_check_code
    )
    int64_t haulage_check_entry(const void *, uint64_t, uint64_t) noexcept

    int haulage_check_begin(
        const haulage_check_range *, uint32_t, uint64_t, uint32_t, uint32_t, bint, bint, bint, bint,
    )
    uint32_t haulage_check_end(uint64_t *)
    void haulage_check_at(uint32_t, haulage_check_found *)
    bint haulage_check_stray(uint64_t, haulage_check_found *)
    void *haulage_check_thread(int64_t, int)
    void haulage_check_read(void *, const void *, int64_t)
    void haulage_check_write(void *, const void *, int64_t, int64_t)
    void haulage_check_atomic(void *, const void *, int64_t)
    void haulage_check_operated(void *)
    void haulage_check_swapped(void *, int64_t, int64_t, int64_t)
    void haulage_check_barrier(void *, int64_t)
    void haulage_check_passed(void *)
    void haulage_check_ended(void *, int, int)
    void haulage_check_grid_passed(void *)
    void haulage_check_warp(void *, int64_t, int64_t)
    void haulage_check_warp_passed(void *)
    void haulage_check_exchange(void *, int64_t, int64_t)
    void haulage_check_exchanged(void *, int64_t, int64_t)
    void haulage_check_fence(void *, int64_t)
    void haulage_check_array(void *, const void *, int64_t)
    void haulage_check_unwritten(void *, int64_t, int64_t)
    uint64_t *haulage_check_counters()
    uint64_t haulage_check_count(uint32_t)


RACE, UNWRITTEN = HAULAGE_RACE, HAULAGE_UNWRITTEN
ANOTHER_BARRIER, NOT_IN_MASK = HAULAGE_ANOTHER_BARRIER, HAULAGE_NOT_IN_MASK
ABSENT_LANE, MISSED_BARRIER = HAULAGE_ABSENT_LANE, HAULAGE_MISSED_BARRIER
# Of exchanges of lanes: whether warps have 64, where the kind is, and the kinds.
WIDE_WARP, KIND_AT, FROM_NONE = HAULAGE_WIDE_WARP, HAULAGE_KIND_AT, HAULAGE_FROM_NONE
FROM = {
    "lane": HAULAGE_FROM_LANE,
    "xor": HAULAGE_FROM_XOR,
    "up": HAULAGE_FROM_UP,
    "down": HAULAGE_FROM_DOWN,
}
SITE_BITS, SIZE_AT, RANGE_AT, NO_RANGE = (
    HAULAGE_SITE_BITS, HAULAGE_SIZE_AT, HAULAGE_RANGE_AT, HAULAGE_NO_RANGE
)
SHARED, HAS_VALUE, ONLY_READS = HAULAGE_SHARED, HAULAGE_HAS_VALUE, HAULAGE_ONLY_READS
TAKES = HAULAGE_TAKES
# So many arrays in shared memory are known.
ARRAYS = HAULAGE_ARRAYS
# So many counters there are in a process.
COUNTERS = HAULAGE_COUNTERS

# What runs the blocks of a launch of which only some are checked: see `sample_blocks`.
ENTRY = <uintptr_t>&haulage_check_entry

# What checked kernels call, by name.
FOR_KERNELS = {
    "haulage_check_thread": <uintptr_t>&haulage_check_thread,
    "haulage_check_read": <uintptr_t>&haulage_check_read,
    "haulage_check_write": <uintptr_t>&haulage_check_write,
    "haulage_check_atomic": <uintptr_t>&haulage_check_atomic,
    "haulage_check_operated": <uintptr_t>&haulage_check_operated,
    "haulage_check_swapped": <uintptr_t>&haulage_check_swapped,
    "haulage_check_barrier": <uintptr_t>&haulage_check_barrier,
    "haulage_check_passed": <uintptr_t>&haulage_check_passed,
    "haulage_check_ended": <uintptr_t>&haulage_check_ended,
    "haulage_check_grid_passed": <uintptr_t>&haulage_check_grid_passed,
    "haulage_check_warp": <uintptr_t>&haulage_check_warp,
    "haulage_check_warp_passed": <uintptr_t>&haulage_check_warp_passed,
    "haulage_check_exchange": <uintptr_t>&haulage_check_exchange,
    "haulage_check_exchanged": <uintptr_t>&haulage_check_exchanged,
    "haulage_check_fence": <uintptr_t>&haulage_check_fence,
    "haulage_check_array": <uintptr_t>&haulage_check_array,
    "haulage_check_unwritten": <uintptr_t>&haulage_check_unwritten,
    "haulage_check_counters": <uintptr_t>&haulage_check_counters,
}


def begin(
    list ranges not None, uint64_t blocks, uint32_t threads, uint32_t shared_shift,
    *, bint races, bint unwritten, bint keeps, bint parallel,
):
    """Check the launch that begins next.

    Args:
        ranges: of its memory: (address, bytes, address of the bytes that say which were written or
            0, log2 of the bytes of a cell, whether races are looked for).
        blocks, threads: how many of the grid, and of a block.
        shared_shift: log2 of the bytes of shared memory that a cell stands for.
        races, unwritten: what is looked for in shared memory.
        keeps: whether blocks wait for one another.
        parallel: whether several threads of the system run them.

    Raises:
        MemoryError: there is no memory for that, or there are too many blocks.
    """
    cdef Py_ssize_t count = len(ranges), number
    cdef haulage_check_range *each = <haulage_check_range *>calloc(count + 1, sizeof(each[0]))
    cdef uintptr_t written
    if each == NULL:
        raise MemoryError
    try:
        for number in range(count):
            low, nbytes, written, shift, looked = ranges[number]
            each[number].low, each[number].high = low, low + nbytes
            each[number].written = <uint8_t *>written
            each[number].shift, each[number].races = shift, looked
        if haulage_check_begin(
            each, <uint32_t>count, blocks, threads, shared_shift, races, unwritten, keeps, parallel,
        ):
            raise MemoryError
    finally:
        free(each)


def sample_blocks(list samples not None, uintptr_t plain, uintptr_t checked):
    """Let `ENTRY` run some blocks by checked code, and all others by plain code.

    Args:
        samples: pairs: the number of a block for the plain code and for the checked one; in order.
        plain, checked: the addresses of the entries of both.

    Raises:
        MemoryError: there is none for that.
    """
    cdef Py_ssize_t count = len(samples), number
    cdef haulage_check_sample *each = <haulage_check_sample *>calloc(count + 1, sizeof(each[0]))
    if each == NULL:
        raise MemoryError
    try:
        for number in range(count):
            each[number].plain, each[number].checked = samples[number]
        if haulage_check_sample_blocks(
            each, count, <haulage_check_code>plain, <haulage_check_code>checked
        ):
            raise MemoryError
    finally:
        free(each)


def end():
    """End it; returns the accesses that were checked, and what was found: (kind, site, site of the
    other or None, block, thread, block and thread of the other, address, count, whether all wrote
    what was there, number of the array in shared memory that begins last before the address, and
    where; `ARRAYS` if none does)."""
    cdef uint64_t accesses
    cdef uint32_t count = haulage_check_end(&accesses), number
    cdef haulage_check_found at
    found = []
    for number in range(count):
        haulage_check_at(number, &at)
        found.append((
            at.kind, at.site, at.other if at.has_other else None, at.block, at.thread,
            at.other_block, at.other_thread, at.address, at.count, bool(at.same),
            at.array, at.origin,
        ))
    return accesses, found


def stray(uint64_t address):
    """(site, block, thread) of the last access of an address that was outside of all ranges; None
    if it is not known."""
    cdef haulage_check_found at
    if not haulage_check_stray(address, &at):
        return None
    return at.site, at.block, at.thread


def counts(uint32_t number):
    """What threads of kernels have counted by now: a list of the first `number` counters."""
    cdef uint32_t counter
    return [haulage_check_count(counter) for counter in range(min(number, <uint32_t>COUNTERS))]
