"""Bits, bytes and strings."""

import numpy as np
from numba import int32, prange, uint8, uint32

from benchmarks.corpus.program import Launch, Made, over, over2, parallel, program
from haulage import cuda


@cuda.jit
def count_bits(words, out):
    i = cuda.grid(1)
    if i < words.size:
        out[i] = cuda.popc(words[i])


@parallel
def count_bits_loop(words, out):
    for i in prange(words.size):
        v = words[i]
        v = v - ((v >> uint32(1)) & uint32(0x55555555))
        v = (v & uint32(0x33333333)) + ((v >> uint32(2)) & uint32(0x33333333))
        v = (v + (v >> uint32(4))) & uint32(0x0F0F0F0F)
        out[i] = uint32(v * uint32(0x01010101)) >> uint32(24)


@program("bit-counts", 1 << 23, 3000)
def _(n, rng):
    words, out = rng.integers(0, 1 << 32, n, np.uint32), np.zeros(n, np.int32)
    return Made(
        [Launch(count_bits, over(n, 256), 256, (words, out))],
        lambda: [(out, np.bitwise_count(words))],
        [(count_bits_loop, (words, out))],
    )


@cuda.jit
def hamming_matrix(a, b, out):
    j, i = cuda.grid(2)
    if i < a.shape[0] and j < b.shape[0]:
        total = 0
        for k in range(a.shape[1]):
            total += cuda.popc(a[i, k] ^ b[j, k])
        out[i, j] = total


@program("hamming-distances", 1200, 30)
def _(n, rng):
    a, b = (rng.integers(0, 1 << 62, (n, 8), np.int64) for _ in "ab")
    out = np.zeros((n, n), np.int32)
    return Made(
        [Launch(hamming_matrix, over2((n, n), (16, 16)), (16, 16), (a, b, out))],
        lambda: [(out, np.bitwise_count(a[:, None] ^ b).sum(2))],
    )


@cuda.jit
def find_pattern(text, pattern, found):
    """Each thread compares from its place on, up to the first difference."""
    i = cuda.grid(1)
    if i > text.size - pattern.size:
        return
    for k in range(pattern.size):
        if text[i + k] != pattern[k]:
            return
    found[i] = 1


@parallel
def find_pattern_loop(text, pattern, found):
    for i in prange(text.size - pattern.size + 1):
        same = 1
        for k in range(pattern.size):
            if text[i + k] != pattern[k]:
                same = 0
                break
        found[i] = same


@program("pattern-search", 1 << 21, 4000)
def _(n, rng):
    text, pattern = rng.integers(97, 101, n, np.uint8), np.frombuffer(b"abcda", np.uint8).copy()
    found = np.zeros(n, np.int8)

    def expect():
        windows = np.lib.stride_tricks.sliding_window_view(text, 5)
        return [(found, np.pad((windows == pattern).all(1).astype(np.int8), (0, 4)))]

    args = (text, pattern, found)
    return Made(
        [Launch(find_pattern, over(n, 256), 256, args)], expect, [(find_pattern_loop, args)]
    )


@cuda.jit
def letters_in_lines(text, starts, letter, counts):
    line = cuda.grid(1)
    if line < counts.size:
        total = 0
        for k in range(starts[line], starts[line + 1]):
            if text[k] == letter:
                total += 1
        counts[line] = total


@parallel
def letters_in_lines_loop(text, starts, letter, counts):
    for line in prange(counts.size):
        total = 0
        for k in range(starts[line], starts[line + 1]):
            if text[k] == letter:
                total += 1
        counts[line] = total


@program("letters-in-lines", 20000, 200)
def _(n, rng):
    starts = np.concatenate([[0], np.cumsum(rng.integers(1, 90, n))]).astype(np.int64)
    text, counts = rng.integers(97, 110, starts[-1], np.uint8), np.zeros(n, np.int32)
    args = (text, starts, 101, counts)

    def expect():
        sums = np.concatenate([[0], np.cumsum(text == 101)])
        return [(counts, sums[starts[1:]] - sums[starts[:-1]])]

    return Made(
        [Launch(letters_in_lines, over(n, 128), 128, args)],
        expect,
        [(letters_in_lines_loop, args)],
    )


@cuda.jit
def edit_distances(a, b, out):
    """A pair of words a thread, with one row of the table in an array of its own."""
    i = cuda.grid(1)
    if i >= a.shape[0]:
        return
    row = cuda.local.array(17, int32)
    for j in range(17):
        row[j] = j
    for k in range(a.shape[1]):
        diagonal = row[0]
        row[0] = k + 1
        for j in range(1, 17):
            above = row[j]
            cost = 0 if a[i, k] == b[i, j - 1] else 1
            row[j] = min(diagonal + cost, min(above, row[j - 1]) + 1)
            diagonal = above
    out[i] = row[16]


@parallel
def edit_distances_loop(a, b, out):
    for i in prange(a.shape[0]):
        row = np.empty(17, np.int32)
        for j in range(17):
            row[j] = j
        for k in range(a.shape[1]):
            diagonal = row[0]
            row[0] = k + 1
            for j in range(1, 17):
                above = row[j]
                cost = 0 if a[i, k] == b[i, j - 1] else 1
                row[j] = min(diagonal + cost, min(above, row[j - 1]) + 1)
                diagonal = above
        out[i] = row[16]


@program("edit-distances-local-row", 6000, 80)
def _(n, rng):
    a, b = (rng.integers(0, 4, (n, 16), np.uint8) for _ in "ab")
    out = np.zeros(n, np.int32)

    def expect():
        row = np.tile(np.arange(17), (n, 1))
        for k in range(16):
            new = np.empty_like(row)
            new[:, 0] = k + 1
            for j in range(1, 17):
                step = np.minimum(row[:, j], new[:, j - 1]) + 1
                new[:, j] = np.minimum(row[:, j - 1] + (a[:, k] != b[:, j - 1]), step)
            row = new
        return [(out, row[:, 16])]

    return Made(
        [Launch(edit_distances, over(n, 64), 64, (a, b, out))],
        expect,
        [(edit_distances_loop, (a, b, out))],
    )


@cuda.jit
def longest_common(a, b, table, diagonal):
    """One diagonal of the table of the longest common subsequence."""
    i = 1 + cuda.grid(1)
    j = diagonal - i
    if i <= a.size and 1 <= j <= b.size:
        if a[i - 1] == b[j - 1]:
            table[i, j] = table[i - 1, j - 1] + 1
        else:
            table[i, j] = max(table[i - 1, j], table[i, j - 1])


@parallel
def longest_common_loop(a, b, table, diagonal):
    for i in prange(max(1, diagonal - b.size), min(a.size, diagonal - 1) + 1):
        j = diagonal - i
        if a[i - 1] == b[j - 1]:
            table[i, j] = table[i - 1, j - 1] + 1
        else:
            table[i, j] = max(table[i - 1, j], table[i, j - 1])


@program("common-subsequence-diagonals", 500, 40)
def _(n, rng):
    a, b = rng.integers(0, 4, n, np.uint8), rng.integers(0, 4, n, np.uint8)
    table = np.zeros((n + 1, n + 1), np.int32)

    def expect():
        out = np.zeros((n + 1, n + 1), np.int32)
        for i in range(1, n + 1):
            best = np.where(b == a[i - 1], out[i - 1, :-1] + 1, out[i - 1, 1:])
            out[i, 1:] = np.maximum.accumulate(best)
        return [(table, out)]

    calls = [(a, b, table, d) for d in range(2, 2 * n + 1)]
    return Made(
        [Launch(longest_common, over(n, 128), 128, args) for args in calls],
        expect,
        [(longest_common_loop, args) for args in calls],
    )


@cuda.jit
def hash_rows(rows, out):
    i = cuda.grid(1)
    if i < rows.shape[0]:
        h = uint32(2166136261)
        for k in range(rows.shape[1]):
            h = uint32((h ^ rows[i, k]) * uint32(16777619))
        out[i] = h


@parallel
def hash_rows_loop(rows, out):
    for i in prange(rows.shape[0]):
        h = uint32(2166136261)
        for k in range(rows.shape[1]):
            h = uint32((h ^ rows[i, k]) * uint32(16777619))
        out[i] = h


@program("hash-of-rows", 120000, 200)
def _(n, rng):
    rows, out = rng.integers(0, 256, (n, 32), np.uint8), np.zeros(n, np.uint32)

    def expect():
        h = np.full(n, 2166136261, np.uint32)
        for k in range(32):
            h = (h ^ rows[:, k]) * np.uint32(16777619)
        return [(out, h)]

    return Made(
        [Launch(hash_rows, over(n, 128), 128, (rows, out))], expect, [(hash_rows_loop, (rows, out))]
    )


def _crc_table():
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table.astype(np.uint32)


@cuda.jit
def checksums(rows, table, out):
    room = cuda.shared.array(256, uint32)
    for k in range(cuda.threadIdx.x, 256, cuda.blockDim.x):
        room[k] = table[k]
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < rows.shape[0]:
        crc = uint32(0xFFFFFFFF)
        for k in range(rows.shape[1]):
            crc = uint32((crc >> uint32(8)) ^ room[(crc ^ rows[i, k]) & uint32(0xFF)])
        out[i] = crc ^ uint32(0xFFFFFFFF)


@parallel
def checksums_loop(rows, table, out):
    for i in prange(rows.shape[0]):
        crc = uint32(0xFFFFFFFF)
        for k in range(rows.shape[1]):
            crc = uint32((crc >> uint32(8)) ^ table[(crc ^ rows[i, k]) & uint32(0xFF)])
        out[i] = crc ^ uint32(0xFFFFFFFF)


@program("checksums-by-a-shared-table", 20000, 150)
def _(n, rng):
    import zlib

    rows, out = rng.integers(0, 256, (n, 48), np.uint8), np.zeros(n, np.uint32)
    args = (rows, _crc_table(), out)
    return Made(
        [Launch(checksums, over(n, 128), 128, args)],
        lambda: [(out, np.array([zlib.crc32(row.tobytes()) for row in rows], np.uint32))],
        [(checksums_loop, args)],
    )


@cuda.jit
def caesar(text, shift, out):
    i = cuda.grid(1)
    if i < text.size:
        c = text[i]
        if 97 <= c <= 122:
            out[i] = uint8(97 + (c - 97 + shift) % 26)
        elif 65 <= c <= 90:
            out[i] = uint8(65 + (c - 65 + shift) % 26)
        else:
            out[i] = c


@parallel
def caesar_loop(text, shift, out):
    for i in prange(text.size):
        c = text[i]
        if 97 <= c <= 122:
            out[i] = uint8(97 + (c - 97 + shift) % 26)
        elif 65 <= c <= 90:
            out[i] = uint8(65 + (c - 65 + shift) % 26)
        else:
            out[i] = c


@program("caesar", 1 << 20, 2000)
def _(n, rng):
    text, out = rng.integers(32, 127, n, np.uint8), np.zeros(n, np.uint8)

    def expect():
        c = text.astype(int)
        low, up = 97 + (c - 97 + 3) % 26, 65 + (c - 65 + 3) % 26
        moved = np.where((c >= 97) & (c <= 122), low, np.where((c >= 65) & (c <= 90), up, c))
        return [(out, moved.astype(np.uint8))]

    return Made(
        [Launch(caesar, over(n, 256), 256, (text, 3, out))],
        expect,
        [(caesar_loop, (text, 3, out))],
    )
