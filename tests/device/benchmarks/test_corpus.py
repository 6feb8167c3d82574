"""Every program of the benchmarks' corpus at its small size, against its reference."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.corpus import programs


@pytest.mark.parametrize("name", programs())
def test_a_program_of_the_corpus_agrees_with_its_reference(name, device):
    if device.kind != "cpu":
        pytest.skip("the corpus is about the CPU device")
    running = programs()[name].on_device(small=True)
    for _ in range(2):
        running.run()
        assert running.disagreement() is None
