"""The part of the benchmarks about SmartArrays: what is measured, and what the page says of it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import benchmarks.__main__ as command
from benchmarks import outcomes
from benchmarks.smart import section
from benchmarks.smart.cases import DEVICE, HOST, PROGRAMS, SMART, USES


def _smart() -> dict[str, Any]:
    def program(seconds: float, copies: int) -> dict[str, Any]:
        return {"seconds": [seconds] * 3, "copies": copies, "nbytes": copies * 1000}

    return {
        "date": "2026-01-02",
        "uses": {
            "launch-1": {
                SMART: [9000.0, 20000.0, 30000.0],
                DEVICE: [3000.0] * 3,
                HOST: [5000.0] * 3,
            },
            "read": {SMART: [4000.0] * 3, HOST: [50.0, 100.0, 100.0]},
        },
        "jacobi": {
            **{"size": 64, "steps": 40, "every": 10},
            "programs": {
                "smart": program(2.0, 12),
                "by hand": program(1.0, 12),
                "host": program(1.0, 0),
                "apart": program(5.0, 2060),
            },
        },
    }


def test_the_page_compares_smart_arrays_with_what_stands_beside_them() -> None:
    text = "\n".join(section.lines(_smart()))
    assert "on 2026-01-02" in text
    launch = USES["launch-1"].title
    assert f"| {launch} | **9.00** | 3.00 | 5.00 | 3.0 |" in text
    assert "| `a[3]` | **4,000** | 50.0 | 80 |" in text
    assert "15 in each of 3 rounds" in text
    assert "`examples/jacobi.py --size 64 --steps 40 --every 10`, 3 runs" in text
    assert "| SmartArrays | 12 | 12,000 | 2.00 (2.00 to 2.00) |" in text
    assert "| device arrays, copied by hand | 12 | 12,000 | 1 |" in text
    assert "| 2,060 | 2,060,000 | 5.00 (5.00 to 5.00) |" in text


def test_a_page_of_a_run_without_smart_arrays_has_no_such_part() -> None:
    assert list(section.lines(outcomes.empty()["smart"])) == []
    kept = outcomes.empty() | {"smart": _smart()}
    outcomes.merge(kept, outcomes.empty())
    assert kept["smart"] == _smart()


def test_the_command_measures_each_use_and_each_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--what", "smart", "--rounds", "1", "--small", "--json"]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    assert command.main() == 0
    smart = json.loads(capsys.readouterr().out)["smart"]
    assert set(smart["uses"]) == set(USES)
    for use, times in smart["uses"].items():
        assert tuple(times) == USES[use].kinds
        assert all(len(ns) == 1 and ns[0] > 0 for ns in times.values())
    programs = smart["jacobi"]["programs"]
    assert set(programs) == set(PROGRAMS)
    assert [programs[name]["copies"] for name in ("smart", "by hand", "apart")] == [6, 6, 184]
