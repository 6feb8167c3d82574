"""What tries the tests' kernels for GPUs counts each once, and misses none that fails."""

from collections.abc import Iterator

import numpy as np
import pytest

import haulage
from codegen import collector
from codegen.collector import Collector, Outcome
from haulage import cuda, roc

SIGNATURE = "void(int64[::1])"


@pytest.fixture
def started() -> Iterator[Collector]:
    made = Collector(kinds=["nvidia"])
    # What pytest itself was told to try is left in its place at the end.
    made.start()
    yield made
    made.stop()


def test_a_kernel_is_tried_once_and_for_one_architecture(started: Collector) -> None:
    def doubled(x):
        x[cuda.grid(1)] *= 2

    haulage.compile(doubled, SIGNATURE)
    haulage.compile(doubled, SIGNATURE)
    outcome = started.stop()
    assert outcome.kernels == 1
    assert sum(outcome.assembled.values()) == 1
    assert outcome.failures == []


def test_all_architectures_are_tried_where_that_is_wanted() -> None:
    made = Collector(all_of_them=True)
    made.start()

    def tripled(x):
        x[cuda.grid(1)] *= 3

    haulage.compile(tripled, SIGNATURE)
    every = [each for kind in collector.ARCHITECTURES.values() for each in kind]
    assert made.stop().assembled == dict.fromkeys(every, 1)


def test_words_of_wavefronts_are_refused_by_design(started: Collector) -> None:
    def waits(x):
        roc.wavebarrier()
        x[roc.get_global_id(0)] += 1

    def permutes(x):
        x[0] = roc.ds_permute(0, np.int32(x[0]))

    for kernel in (waits, permutes):
        roc.jit(SIGNATURE)(kernel)
    outcome = started.stop()
    assert (outcome.kernels, outcome.refused, outcome.failures) == (0, 2, [])


@pytest.mark.parametrize("kind", list(collector.ARCHITECTURES))
def test_arrays_that_no_gpu_has_room_for_are_refused_by_design(kind: str) -> None:
    started = Collector(kinds=[kind])
    started.start()

    def hoards(x):
        room = cuda.shared.array(1 << 20, np.float32)
        room[x[0]] = 1
        cuda.syncthreads()
        x[1] = room[x[2]]

    haulage.compile(hoards, SIGNATURE)
    outcome = started.stop()
    assert (outcome.kernels, outcome.refused, outcome.failures) == (0, 1, [])


def test_code_that_the_assembler_refuses_is_a_failure_that_names_the_kernel() -> None:
    def refused(code: bytes, launch: object) -> tuple[str, ...]:
        raise AssertionError("line 3: what is this?")

    started = Collector(check=refused)
    started.start()
    started.where = lambda: "this test"

    def quadrupled(x):
        x[cuda.grid(1)] *= 4

    haulage.compile(quadrupled, SIGNATURE)
    ((where, what),) = started.stop().failures
    assert "this test" in where
    assert "quadrupled" in where
    assert "what is this?" in what


def test_what_several_processes_found_is_added_up() -> None:
    whole = collector.together(
        Outcome(
            kernels=number,
            refusals={"too large": 1},
            programs={"ld.lld": number},
            assembled={"sm_75": number, f"sm_{number}": 1},
            failures=[("there", "that")],
        )
        for number in (1, 2)
    )
    assert (whole.kernels, whole.refused) == (3, 2)
    assert whole.assembled == {"sm_75": 3, "sm_1": 1, "sm_2": 1}
    assert whole.programs == {"ld.lld": 3}
    assert whole.failures == [("there", "that")] * 2
    assert "3 kernels, 5 codes checked" in whole.line()
    assert "2 refused by design, 2 failed; 2 times too large" in whole.line()
