"""Every program of the benchmarks' corpus at its small size, against its reference."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.corpus import programs

# Programs whose results are wrong, and why.
WRONG = {
    "ising-checkerboard": "LLVM's vectoriser makes a division that all lanes share under the mask "
    "of the first lane alone",
}


CASES = [
    pytest.param(name, marks=pytest.mark.xfail(reason=WRONG[name], strict=True))
    if name in WRONG
    else name
    for name in programs()
]


@pytest.mark.parametrize("name", CASES)
def test_a_program_of_the_corpus_agrees_with_its_reference(name, device):
    if device.kind != "cpu":
        pytest.skip("the corpus is about the CPU device")
    running = programs()[name].on_device(small=True)
    for _ in range(2):
        running.run()
        assert running.disagreement() is None
