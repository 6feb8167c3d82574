"""Words between the lanes of a warp are single instructions on NVIDIA's GPUs."""

import numpy as np
import pytest

import haulage
from doubles.nvidia_code import instructions, words
from haulage import cuda, roc
from haulage.errors import CompileError

_ALL = 0xFFFFFFFF


def exchanged(kernel, signature, architecture="sm_90"):
    """The instructions of a kernel that exchange something between lanes."""
    starts = ("shfl", "vote", "match", "activemask", "bar.")
    return [
        line for line in instructions(kernel, signature, architecture) if starts_with(line, starts)
    ]


def starts_with(line, starts):
    return any(line.startswith(start) for start in starts)


def vote(x, out):
    i = cuda.threadIdx.x
    if cuda.all_sync(_ALL, x[i] > 0):
        out[0] = 1
    if cuda.any_sync(_ALL, x[i] > 1):
        out[1] = 1
    if cuda.eq_sync(_ALL, x[i] > 2):
        out[2] = 1
    out[3] = cuda.ballot_sync(_ALL, x[i] > 3)


def test_each_vote_is_one_instruction() -> None:
    found = [line.split()[0] for line in exchanged(vote, "void(int32[::1], int32[::1])")]
    kinds = ("all.pred", "any.pred", "uni.pred", "ballot.b32")
    assert found == [f"vote.sync.{kind}" for kind in kinds]


def shuffle(x, out, n):
    i = cuda.threadIdx.x
    out[i] = cuda.shfl_sync(_ALL, x[i], n)
    out[i + 32] = cuda.shfl_up_sync(_ALL, x[i], n)
    out[i + 64] = cuda.shfl_down_sync(_ALL, x[i], n)
    out[i + 96] = cuda.shfl_xor_sync(_ALL, x[i], n)


@pytest.mark.parametrize(
    ("kind", "each"), [("int32", 1), ("float32", 1), ("int64", 2), ("float64", 2)]
)
def test_a_shuffle_is_one_instruction_for_32_bits(kind: str, each: int) -> None:
    code = instructions(shuffle, f"void({kind}[::1], {kind}[::1], int32)")
    found = [line for line in code if line.startswith("shfl")]
    assert [line.split()[0] for line in found] == [
        f"shfl.sync.{which}.b32" for which in ("idx", "up", "down", "bfly") for _ in range(each)
    ]
    # The lanes that have nobody to read from, and the mask.
    ends = [line.split(", ", 3)[3] for line in found]
    assert ends == [f"{clamp}, -1;" for clamp in (31, 0, 31, 31) for _ in range(each)]
    assert not any(line.startswith("and.b32") for line in code)


def like(x, y, out):
    i = cuda.threadIdx.x
    out[0] = cuda.match_any_sync(_ALL, x[i])
    lanes, same = cuda.match_all_sync(_ALL, y[i])
    out[1] = lanes if same else 0
    out[2] = cuda.activemask()
    out[3] = cuda.lanemask_lt()
    out[4] = cuda.laneid
    out[5] = cuda.warpsize
    cuda.syncwarp()
    cuda.syncwarp(0xFF)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_120"])
def test_lanes_find_their_like_and_themselves_by_one_instruction(architecture: str) -> None:
    code = instructions(like, "void(int32[::1], float64[::1], uint32[::1])", architecture)
    found = [line.split()[0] for line in code if starts_with(line, ("match", "active", "bar"))]
    assert (
        found
        == ["match.any.sync.b32", "match.all.sync.b64", "activemask.b32"] + ["bar.warp.sync"] * 2
    )
    assert sum("%lanemask_lt" in line for line in code) == 1
    assert sum("%laneid" in line for line in code) == 1


def test_a_function_with_a_word_of_lanes_is_not_moved_into_a_branch() -> None:
    @cuda.jit(device=True)
    def voted(x):
        return cuda.ballot_sync(_ALL, x > 3)

    def kernel(x, out):
        votes = voted(x[cuda.threadIdx.x])
        if out[0] > 5:
            out[1] = votes

    found = words(kernel, "void(int32[::1], int32[::1])")
    assert found.index("vote.sync.ballot.b32") < found.index("bra")


def test_words_of_wavefronts_work_in_warps_of_cuda() -> None:
    def permuted(x):
        i = cuda.threadIdx.x
        x[i] = roc.ds_permute(x[i], x[i + 1])

    found = words(permuted, "void(int32[::1])")
    assert found.count("vote.sync.ballot.b32") == 5
    assert found.count("shfl.sync.idx.b32") == 1


def _bpermute(x):
    x[0] = roc.ds_bpermute(1, x[0])


def _permute(x):
    x[0] = roc.ds_permute(1, x[0])


def _activelane(x):
    x[0] = roc.activelanepermute_wavewidth(x[0], 1, 0, False)


def _laneid(x):
    x[0] = cuda.laneid


def _wait(x):
    roc.wavebarrier()


@pytest.mark.parametrize(
    ("kernel", "word"),
    [
        (_bpermute, "ds_bpermute"),
        (_permute, "ds_permute"),
        (_activelane, "activelanepermute_wavewidth"),
        (_laneid, "laneid"),
        (_wait, "wavebarrier"),
    ],
)
def test_words_of_wavefronts_of_64_are_refused_by_name(kernel, word: str) -> None:
    with pytest.raises(CompileError, match=f"{word}: .*sm_90 has warps of 32"):
        haulage.compile(roc.jit(kernel), "void(int32[::1])", "sm_90")


def test_other_words_of_roc_make_code() -> None:
    @roc.jit
    def reverse(x):
        room = roc.shared.array(64, np.float32)
        i = roc.get_local_id(0)
        room[i] = x[roc.get_global_id(0)]
        roc.barrier(roc.CLK_LOCAL_MEM_FENCE)
        x[roc.get_global_id(0)] = room[63 - i]

    found = words(reverse, "void(float32[::1])")
    assert found.count("barrier.sync") == 1
    assert "ld.shared.b32" in found
