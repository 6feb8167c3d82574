"""The corpus of kernels: its registry, what is made of times, and the command."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from haulage.compiler.simt.passes import optional

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks import __main__ as command
from benchmarks import page, passes
from benchmarks.corpus import GROUPS, programs, results
from benchmarks.corpus.program import View, program, wrong

ON, OFF = [1.0, 1.0, 1.0], [1.2, 1.2, 1.2]


def _found() -> results.Found:
    """Fission makes three kernels of five faster; fusion does nothing, and without it one fails."""
    found = results.empty()
    found["machine"] = dict.fromkeys(("processor", "cores", "date", "numba", "llvmlite"), "x")
    found["passes"] = {"fission": "cuts loops", "fusion": "joins loops"}
    for number in range(5):
        entry = results.new_kernel("scans")
        entry["compile"] = {"fission": [100.0, 80.0], "fusion": [100.0, 100.0]}
        entry["unchanged"] = ["fusion"]
        if number < 3:
            entry["times"]["fission"] = {"on": ON, "off": OFF}
        else:
            entry["unchanged"].append("fission")
        found["kernels"][f"k{number}"] = entry
    found["kernels"]["k4"]["unchanged"] = ["fission"]
    found["kernels"]["k4"]["failed"]["fusion"] = "its process ended"
    return found


def _beside(ours: list[float], theirs: list[float]) -> dict[str, Any]:
    times = {"haulage": ours, "njit": theirs}
    return {"group": "scans", "times": times, "wrong": {}, "block": "4 x 256"}


# ---- the registry -------------------------------------------------------------------------------


def test_the_corpus_has_at_least_130_kernels_and_most_have_loops_beside_them() -> None:
    every = programs()
    assert len(every) >= 130
    assert {each.group for each in every.values()} == {name.replace("_", " ") for name in GROUPS}
    made = [each.made(small=True) for each in every.values() if each.group != "suite"]
    assert sum(bool(each.loops) for each in made) >= 60


def test_the_data_of_a_program_is_the_same_each_time() -> None:
    first, second = (programs()["axpy"].made(small=True) for _ in range(2))
    for a, b in zip(first.launches[0].args, second.launches[0].args, strict=True):
        assert np.array_equal(a, b)


def test_two_programs_cannot_have_one_name() -> None:
    with pytest.raises(ValueError, match="two programs axpy"):
        program("axpy", 1, 1)(lambda n, rng: None)


def test_a_view_is_the_same_part_of_every_array() -> None:
    array = np.arange(12).reshape(3, 4)
    assert np.array_equal(View(array).of(array), array.T)
    assert np.array_equal(View(array, np.s_[::2]).of(array + 1), array[::2] + 1)


@pytest.mark.parametrize(
    ("result", "expected", "told"),
    [
        (np.array([1, 2]), [1, 2], None),
        (np.array([1, 3]), [1, 2], "1 of 2 elements differ"),
        (np.array([1.0, 2.0]), [1.0, 2.0 + 1e-12], None),
        (np.array([1.0, 2.0]), [1.0, 2.1], "1 of 2 elements are off by up to 0.1"),
        (np.array([1.0, np.nan]), [1.0, 2.0], "1 of 2 elements are off by up to nan"),
        (np.array([1j, 2]), [1j, 2], None),
        (np.array([1.0]), [[1.0]], "its shape is (1,), not (1, 1)"),
    ],
)
def test_what_is_wrong_with_a_result(result: np.ndarray, expected: Any, told: str | None) -> None:
    assert wrong(result, expected) == told


# ---- passes -------------------------------------------------------------------------------------


def test_a_pass_is_judged_by_its_mean_its_large_gains_and_what_goes_wrong_without_it() -> None:
    fission, fusion = results.rows(_found())
    assert fission.kernels == 5
    assert fission.unchanged == 2
    assert fission.mean == pytest.approx(1.2 ** (3 / 5))
    assert list(fission.gains) == ["k0", "k1", "k2"]
    assert fission.compiling == pytest.approx(0.2)
    assert fission.earns_its_place
    assert fusion.mean == 1
    assert fusion.needed == {"k4": "its process ended"}
    assert fusion.earns_its_place


def test_a_pass_that_slows_kernels_down_does_not_earn_its_place() -> None:
    found = _found()
    del found["passes"]["fusion"]
    for name in ("k0", "k1", "k2"):
        found["kernels"][name]["times"]["fission"] = {"on": OFF, "off": ON}
    (fission,) = results.rows(found)
    assert list(fission.losses) == ["k0", "k1", "k2"]
    assert not fission.gains
    assert not fission.earns_its_place


def test_a_ratio_whose_interval_holds_1_is_not_named() -> None:
    found = _found()
    noisy = {"on": [1.0, 2.0, 1.0, 2.0, 1.0], "off": [2.0, 1.0, 2.0, 1.0, 1.1]}
    found["kernels"]["k0"]["times"]["fission"] = noisy
    assert "k0" not in results.rows(found)[0].gains


def test_what_goes_wrong_with_all_passes_too_is_not_laid_upon_one() -> None:
    found = _found()
    found["kernels"]["k4"]["failed"][""] = "2 of 4 elements differ"
    assert not results.rows(found)[1].needed
    assert results.any_wrong(found)


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "passes.json"
    results.keep(_found(), path)
    found = results.read(path)
    assert found == json.loads(json.dumps(_found()))
    assert results.missing_passes(found, "k0", ["fission", "fusion", "unrolling"]) == ["unrolling"]
    assert results.missing_passes(found, "k9", ["fission"]) == ["fission"]


def test_the_page_has_a_row_for_each_pass_and_names_kernels() -> None:
    text = results.page(_found())
    assert "| fission | 1.116 | 3 | 3 | 0 | 0 | 3 of 5 | 20.0 % |  | yes |" in text
    assert "Faster by it: k0 1.20 (1.20 to 1.20), k1" in text
    assert "Without it k4: its process ended." in text
    told = list(results.told_passes(_found()))
    assert sum(line.startswith("  + ") for line in told) == 3


def test_the_page_is_drawn_where_there_is_a_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from benchmarks import picture
    from benchmarks.memory import picture as of_memory

    monkeypatch.setattr(page, "ROOT", tmp_path)
    for name in ("PAGE", "PICTURE", "PASSES", "PAGE_OF_PASSES"):
        monkeypatch.setattr(page, name, tmp_path / name)
    for module in (picture, of_memory):
        monkeypatch.setattr(module, "draw", lambda *arguments: None)
    assert "PAGE_OF_PASSES" not in page.draw()
    results.keep(_found(), tmp_path / "PASSES")
    assert "PAGE_OF_PASSES" in page.draw()
    assert "## fusion" in (tmp_path / "PAGE_OF_PASSES").read_text(encoding="utf-8")


def test_the_list_of_passes_is_the_compilers() -> None:
    assert tuple(passes.known()) == optional()
    assert passes.with_passes_off(["fission", "fusion"]) == {
        "HAULAGE_CPU_PASSES": "-fission,-fusion"
    }
    assert passes.with_passes_off(["scalar"]) == {"HAULAGE_CPU_THREADS": "scalar"}
    assert passes.with_passes_off([]) == {}


# ---- beside njit --------------------------------------------------------------------------------


def test_kernels_behind_njit_are_named_the_worst_first() -> None:
    found = results.empty()
    found["corpus"] = {
        "level": _beside([1.0] * 3, [1.0] * 3),
        "slow": _beside([4.0] * 3, [1.0] * 3),
        "slower": _beside([16.0] * 3, [1.0] * 3),
        "wrong": _beside([9.0] * 3, [1.0] * 3) | {"wrong": {"haulage": "1 of 2 elements differ"}},
        "alone": {"group": "scans", "times": {"haulage": [2.0] * 3}, "wrong": {}},
    }
    told = "\n".join(results.told_corpus(found))
    assert (
        "3 kernels beside njit: geometric mean 0.25 (0.25 by the fastest rounds), 2 below 0.8"
        in told
    )
    assert told.index("slower  ", told.index("worst first")) < told.index("  slow  ")
    assert "wrong: WRONG: haulage: 1 of 2 elements differ" in told
    assert results.any_wrong(found)
    assert results.has_corpus(found, "level", {"haulage", "njit"})
    assert not results.has_corpus(found, "other", {"haulage"})


# ---- the command --------------------------------------------------------------------------------


def _run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    monkeypatch.setenv("HAULAGE_DEVICE", "cpu")
    return command.main()


def test_a_kernel_is_compiled_and_run_with_and_without_a_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    into = tmp_path / "passes.json"
    words = ["--what", "passes", "--passes", "scalar", "--small", "--rounds", "1"]
    assert _run([*words, "axpy", "--into", str(into)], monkeypatch) == 0
    assert "scalar" in capsys.readouterr().out
    entry = results.read(into)["kernels"]["axpy"]
    assert entry["unchanged"] == ["scalar"] or list(entry["times"]) == ["scalar"]
    assert not entry["failed"]
    before = into.read_text(encoding="utf-8")
    assert _run([*words, "axpy", "--into", str(into), "--json"], monkeypatch) == 0
    assert json.loads(before)["kernels"] == results.read(into)["kernels"]


def test_the_corpus_is_run_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--what", "corpus", "axpy", "--peers", "none", "--small", "--rounds", "1", "--json"]
    assert _run(words, monkeypatch) == 0
    entry = json.loads(capsys.readouterr().out)["corpus"]["axpy"]
    assert list(entry["times"]) == ["haulage"]
    assert entry["wrong"] == {}


@pytest.mark.parametrize(
    ("words", "no"),
    [
        (["--what", "corpus", "knitting"], "no kernel of the corpus is named knitting"),
        (["--what", "corpus", "--peers", "numpy"], "njit only, not numpy"),
        (["--what", "passes", "--passes", "knitting"], "knitting is none; known are"),
        (["--what", "passes", "--passes", "scalar", "--rounds", "0"], "above 0"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    words: list[str], no: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(words, monkeypatch) == 2
    told = capsys.readouterr().err
    assert no in told
    assert told.count("\n") == 1
