"""What NVIDIA's samples of compute-sanitizer do wrong, with and without the mistake."""

import numpy as np

from haulage import cuda
from support.checked.marks import Case

WARP = 32


@cuda.jit
def sum_of_a_block(x, out, waits):
    room = cuda.shared.array(128, np.int32)
    t = cuda.threadIdx.x
    room[t] = x[t] + t  # race: block_error
    if waits:
        cuda.syncthreads()
    if t == 0:
        out[0] = 0
        for k in range(128):
            out[0] += room[k]  # race: block_error


@cuda.jit
def sums_of_warps(x, out, waits):
    room = cuda.shared.array(2 * WARP, np.int32)
    sums = cuda.shared.array(2, np.int32)
    t, warp = cuda.threadIdx.x, cuda.threadIdx.x // WARP
    room[t] = x[t] + t  # race: warp_error
    if waits:
        cuda.syncwarp()
    if t % WARP == 0:
        sums[warp] = 0
        for k in range(WARP):
            sums[warp] += room[WARP * warp + k]  # race: warp_error
    cuda.syncthreads()
    if t == 0:
        out[0] = sums[0] + sums[1]


@cuda.jit
def sum_in_pieces(x, out, all_wait):
    room = cuda.shared.array(64, np.int32)
    t = cuda.threadIdx.x
    room[t] = 0
    cuda.syncthreads()
    for piece in range(16):
        at = 64 * piece + t
        if at < x.size:
            room[t] += x[at]
            if not all_wait:
                cuda.syncthreads()  # barrier: divergent_threads
        if all_wait:
            cuda.syncthreads()
    if t == 0:
        out[0] = 0
        for k in range(64):
            out[0] += room[k]


@cuda.jit
def sum_of_half_a_warp(out, most):
    room = cuda.shared.array(WARP, np.int32)
    t = cuda.threadIdx.x
    mask = cuda.ballot_sync(0xFFFFFFFF, t < 16)
    if t <= most:
        room[t] = t
        cuda.syncwarp(mask)  # barrier: illegal_syncwarp
        total = 0
        for k in range(16):
            total += room[k]
        out[t] = total
    cuda.syncthreads()


@cuda.jit
def add_own_number(x):
    i = cuda.grid(1)
    x[i] += i  # uninitialized: memset_error


@cuda.jit
def twice(x, out, n):
    t = cuda.threadIdx.x
    if t < n:
        out[t] = 2 * x[t]  # uninitialized: suppressions_initcheck


def _in_blocks(waits):
    sum_of_a_block[1, 128](np.zeros(128, np.int32), np.zeros(1, np.int32), waits)


def _in_warps(waits):
    sums_of_warps[1, 64](np.zeros(64, np.int32), np.zeros(1, np.int32), waits)


def _in_pieces(all_wait):
    sum_in_pieces[1, 64](np.zeros(64 * 16 - 16, np.int32), np.zeros(1, np.int32), all_wait)


def _in_half_a_warp(wrong):
    sum_of_half_a_warp[1, WARP](np.zeros(WARP, np.int32), 16 if wrong else 15)


def _set(bytes_of_all):
    """A fill that was given elements instead of bytes."""
    x = cuda.device_array(64, np.int32)
    x.view(np.uint8)[: 64 * (4 if bytes_of_all else 1)] = 0
    add_own_number[2, WARP](x)


def _double(left_out):
    x = cuda.device_array(123, np.int32)
    x.view(np.uint8)[: 4 * 123 - left_out] = 0
    twice[1, 123](x, np.zeros(123, np.int32), 123)


_SAMPLES = (
    (sum_of_a_block, _in_blocks, False, True, "block_error"),
    (sums_of_warps, _in_warps, False, True, "warp_error"),
    (sum_in_pieces, _in_pieces, False, True, "divergent_threads"),
    (sum_of_half_a_warp, _in_half_a_warp, True, False, "illegal_syncwarp"),
    (add_own_number, _set, False, True, "memset_error"),
    (twice, _double, 1, 0, "suppressions_initcheck"),
)


def cases():
    """All of them, with the mistake and without it."""
    made = []
    for kernel, launch, wrong, right, name in _SAMPLES:
        checks = ("init",) if kernel in (add_own_number, twice) else Case.checks
        for given, planted in ((wrong, [name]), (right, [])):
            label = "-".join([name, *([] if planted else ["right"])])
            run = lambda launch=launch, given=given: launch(given)  # noqa: E731
            made.append(Case(label, kernel, run, frozenset(planted), checks=checks))
    return made
