"""The suite against other runtimes: what becomes of times, and of peers that are not there."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from benchmarks import __main__ as command  # noqa: E402
from benchmarks import environments, outcomes, page, tables  # noqa: E402
from benchmarks.contestants import Contestant, Unable  # noqa: E402
from benchmarks.peers import HAULAGE, PEERS  # noqa: E402

from haulage.cli.bench.problems import PROBLEMS  # noqa: E402


def _right(*names: str) -> dict[str, dict[str, float]]:
    return {name: {"error": 1e-7, "allowed": 1e-6} for name in names}


def _run() -> outcomes.Run:
    """Haulage is level with Intel in saxpy, twice as slow as PoCL, and NumPy is wrong."""
    run = outcomes.empty()
    run["machine"] = {
        **dict.fromkeys(("date", "processor", "system", "python", "numpy", "numba"), "x"),
        "llvmlite": "x",
        "cores": 2,
        "limits": {"gigaflops": 100.0, "triad": 20.0, "copy": 20.0},
    }
    run["peers"] = {
        "haulage": {"about": "Haulage"},
        "intel": {"about": "Intel 1"},
        "warp": {"skipped": "not installed"},
    }
    outcome: dict[str, Any] = {
        "size": 1 << 24,
        "times": {"haulage": [10.0] * 3, "intel": [10.0] * 3, "pocl": [5.0, None, 5.0]},
        "agreements": _right("haulage", "intel", "pocl"),
        "skipped": {"taichi": "it fell over"},
    }
    outcome["times"]["numpy"] = [1.0] * 3
    outcome["agreements"]["numpy"] = {"error": 2e-6, "allowed": 1e-6}
    outcomes.add_case(run, "saxpy", outcome)
    launch = {"haulage": [0.004] * 3, "njit": [0.001] * 3}
    outcomes.add_case(
        run,
        "launch-3",
        {"size": 1, "times": launch, "agreements": _right(*launch), "skipped": {}},
    )
    small = {"haulage": [0.1], "simulator": [1000.0]}
    outcome = {"size": 70, "times": small, "agreements": _right(*small), "skipped": {}}
    outcomes.add_case(run, "stencil", outcome, "small")
    run["compile"] = {"saxpy": {"haulage": [50.0], "njit": [500.0]}}
    part = {"cold": [900.0], "cached": [300.0], "import": [200.0]}
    run["start"] = {"saxpy": {"haulage": part, "njit": part}}
    return run


def test_ratios_are_of_the_rounds_that_both_took_part_in() -> None:
    pairs = {(pair.case, pair.peer): pair for pair in outcomes.pairs(_run())}
    assert pairs["saxpy", "intel"].ratio.value == 1
    assert pairs["saxpy", "pocl"].ratio.value == 0.5
    assert pairs["saxpy", "pocl"].rounds == 2


def test_bars_limits_and_wrong_results_are_told_apart() -> None:
    pairs = {(pair.case, pair.peer): pair for pair in outcomes.pairs(_run())}
    assert pairs["saxpy", "intel"].limit is None
    assert pairs["saxpy", "numpy"].limit is not None
    assert pairs["saxpy", "numpy"].wrong
    assert not pairs["saxpy", "pocl"].wrong


def test_a_run_comes_back_from_its_file_and_grows_pair_by_pair(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    outcomes.write(_run(), path)
    kept = outcomes.read(path)
    assert kept == json.loads(json.dumps(_run()))
    newer = outcomes.empty()
    outcome = {
        "size": 1 << 24,
        "times": {"haulage": [8.0], "taichi": [16.0]},
        "agreements": _right("haulage", "taichi"),
        "skipped": {},
    }
    outcomes.add_case(newer, "saxpy", outcome)
    outcomes.merge(kept, newer)
    pairs = {pair.peer: pair for pair in outcomes.pairs(kept) if pair.case == "saxpy"}
    assert pairs["taichi"].ratio.value == 2
    assert pairs["intel"].ratio.value == 1
    assert kept["cases"]["saxpy"]["skipped"] == {}
    assert kept["machine"]["cores"] == 2


def test_the_table_names_who_was_skipped_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    tables.print_run(_run())
    told = capsys.readouterr().out
    assert "skipped: warp: not installed" in told
    assert "skipped: taichi in saxpy: it fell over" in told
    (line,) = [line for line in told.splitlines() if line.startswith("saxpy              pocl")]
    assert line.split()[2:5] == ["10", "5", "0.50"]
    assert not tables.any_wrong(_run())


def test_a_wrong_result_of_haulages_counts() -> None:
    run = _run()
    run["cases"]["saxpy"]["error"] = 1.0
    assert tables.any_wrong(run)


def test_the_page_says_where_haulage_is_behind_and_why() -> None:
    text = page.text(_run(), {"saxpy": "a reason", "": "a general remark"})
    behind = text.split("## Where Haulage is behind")[1].split("##")[0]
    (row,) = [line for line in behind.splitlines() if line.startswith("| saxpy")]
    assert row.startswith("| saxpy | PoCL | 0.50 (0.50 to 0.50) | 1 | a reason |")
    assert "a general remark" in text
    assert "skipped: not installed" in text
    assert "(1 wrong)" in text
    assert "| stencil | 70 | 0.1 | 1000 |" in text
    assert "| 4.00" in text.replace("*", "")


def test_every_remark_is_about_a_case() -> None:
    remarks = json.loads(page.REMARKS.read_text(encoding="utf-8"))
    assert set(remarks) <= {"", *PROBLEMS}


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    from benchmarks import picture

    picture.draw(_run(), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_limits_are_of_cases_that_there_are() -> None:
    for peer in PEERS.values():
        assert set(peer.limits) <= {"*", *PROBLEMS}


def test_a_peer_that_is_not_installed_is_named_and_skipped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environments, "HOME", tmp_path)
    (tmp_path / "pocl").mkdir()
    (tmp_path / "pocl" / "failed").write_text("no apt-get here")
    assert environments.missing(PEERS["intel"]) == (
        "not installed: python -m benchmarks peers --make"
    )
    assert environments.missing(PEERS["pocl"]) == "no apt-get here"
    assert environments.missing(HAULAGE) is None
    words = ["launch-0", "--small", "--rounds", "1", "--peers", "intel,numpy", "--json"]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    assert command.main() == 0
    told = json.loads(capsys.readouterr().out)
    assert told["peers"]["intel"] == {"skipped": "not installed: python -m benchmarks peers --make"}
    assert told["peers"]["numpy"]["about"].startswith("NumPy")
    assert list(told["small"]) == ["launch-0"]
    assert not told["cases"]


def test_a_peer_that_dies_is_told_and_started_again_for_the_next_case() -> None:
    contestant = Contestant(PEERS["numpy"])
    try:
        contestant.process.kill()
        contestant.process.wait()
        with pytest.raises(Unable, match="its process ended"):
            contestant.ask("about")
        contestant.revive()
        assert contestant.ask("about").startswith("NumPy")
        with pytest.raises(Unable, match="KeyError"):
            contestant.ask("setup", case="sort", small=True)
    finally:
        contestant.close()


@pytest.mark.parametrize(
    ("words", "no"),
    [
        (["sort"], "nothing is named sort"),
        (["--peers", "cupy"], "cupy is none"),
        (["--peers", "simulator"], "add --small"),
        (["--rounds", "0"], "above 0"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    words: list[str], no: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    assert command.main() == 2
    told = capsys.readouterr().err
    assert no in told
    assert told.count("\n") == 1


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_tree_and_the_scan_in_c_have_the_same_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["reduce-tree", "scan", "--small", "--rounds", "1", "--peers", "c", "--json"]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    assert command.main() == 0
    told = json.loads(capsys.readouterr().out)
    for case in ("reduce-tree", "scan"):
        assert told["small"][case]["skipped"] == {}
        entry = told["small"][case]["peers"]["c"]
        assert entry["error"] <= entry["allowed"]
