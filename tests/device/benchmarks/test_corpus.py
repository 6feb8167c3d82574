"""Every program of the benchmarks' corpus at its small size, against its reference."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.corpus import checks, programs


@pytest.mark.parametrize("name", programs())
def test_a_program_of_the_corpus_agrees_with_its_reference(name, device):
    if device.kind != "cpu":
        pytest.skip("the corpus is about the CPU device")
    running = programs()[name].on_device(small=True)
    for _ in range(2):
        running.run()
        assert running.disagreement() is None


def test_what_checks_cost_is_told_for_each_program_and_setting(device):
    if device.kind != "cpu":
        pytest.skip("kernels are checked on the CPU device")
    found = checks.measure(["suite-saxpy", "breadth-first-levels"], 2, True, lambda *_: None)
    saxpy, search = found["checks"].values()
    assert {len(each) for each in saxpy["times"].values()} == {2}
    assert [*saxpy["times"]] == ["unchecked", "bounds", "memcheck", "all", "lint"]
    assert (saxpy["findings"], saxpy["wrong"]) == ([], None)
    # Its threads write one flag without a word of order, and have lists of any length.
    assert search["findings"] == ["divergence", "race"]
    lines = checks.told(found)
    assert lines[1].startswith("suite-saxpy ")
    assert lines[2].endswith("divergence, race")
    assert len(lines) == 5
