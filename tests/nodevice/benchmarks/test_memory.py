"""The memory part of the benchmarks: traces, models of policies, and what the page says of them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import benchmarks.__main__ as command
from benchmarks import outcomes
from benchmarks.memory import allocations, fragmentation, ours, policies, section, traces
from benchmarks.memory.policies import MIB

# ---- traces -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", traces.NAMES)
def test_a_recorded_trace_is_what_its_generator_makes(name: str) -> None:
    assert traces.read(name) == traces.NAMES[name]()


@pytest.mark.parametrize("name", traces.NAMES)
def test_a_trace_frees_only_what_is_live_and_fills_the_memory(name: str) -> None:
    operations = traces.read(name)
    live: dict[int, int] = {}
    count = 0
    for size, which in operations:
        if size:
            live[count] = size
            count += 1
        else:
            del live[which]
    assert len(operations) == traces.OPERATIONS
    assert fragmentation.live(operations)[-1] == sum(live.values())
    assert 0.99 * traces.MOST_LIVE < max(fragmentation.live(operations)) <= traces.MOST_LIVE


def test_sizes_of_the_first_trace_are_log_uniform_and_those_of_the_second_drift() -> None:
    sizes = [size for size, _ in traces.read("log-uniform") if size]
    decades = [sum(low <= size < 8 * low for size in sizes) for low in (256, 2**12, 2**16, 2**20)]
    assert max(decades) < 1.2 * min(decades)
    sizes = [size for size, _ in traces.read("drifting-batches") if size]
    assert 1.8 < max(sizes) / max(sizes[:100]) < 2.2
    assert len(set(sizes)) > 500


# ---- models -------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(1, 2**40))
def test_classes_hold_what_is_asked_and_little_more(nbytes: int) -> None:
    for rounded, most in (
        (policies.exact(nbytes), nbytes + 255),
        (policies.eighths(nbytes), max(nbytes + 255, nbytes * 9 / 8)),
        (policies.power_of_two(nbytes), max(256, 2 * nbytes - 1)),
    ):
        assert nbytes <= rounded <= most
        assert rounded % 256 == 0


def test_a_cache_of_exact_sizes_reuses_only_the_same_size() -> None:
    cache = policies.Classes(policies.exact)
    cache.free(cache.allocate(1000))
    cache.allocate(1020)
    assert cache.reserved == 1024
    cache.allocate(500)
    assert cache.reserved == 1024 + 512


def test_segments_as_requested_are_split_and_merged_but_never_with_each_other() -> None:
    pool = policies.cupy()
    for token in [pool.allocate(4 * MIB) for _ in range(2)]:
        pool.free(token)
    halves = [pool.allocate(2 * MIB) for _ in range(4)]
    assert pool.reserved == 8 * MIB
    for token in halves:
        pool.free(token)
    pool.allocate(4 * MIB)
    assert pool.reserved == 8 * MIB
    pool.allocate(4 * MIB + 1)
    assert pool.reserved == 12 * MIB + 512


@pytest.mark.parametrize(
    ("nbytes", "reserved"),
    [(1, 2 * MIB), (MIB, 2 * MIB), (MIB + 1, 20 * MIB), (10 * MIB, 10 * MIB), (11 * MIB, 12 * MIB)],
)
def test_pytorchs_segments_have_its_sizes(nbytes: int, reserved: int) -> None:
    pool = policies.pytorch()
    pool.allocate(nbytes)
    assert pool.reserved == reserved


def test_a_growing_range_adds_only_what_is_missing_at_its_end() -> None:
    arena = policies.Growing()
    arena.allocate(2 * MIB)
    last = arena.allocate(2 * MIB)
    arena.free(last)
    arena.allocate(6 * MIB)
    assert arena.reserved == 8 * MIB


@pytest.mark.parametrize("make", [policies.cupy, policies.pytorch, policies.Growing])
@settings(deadline=None)
@given(data=st.data())
def test_blocks_of_a_model_do_not_overlap(make: Any, data: st.DataObject) -> None:
    policy = make()
    live: dict[Any, tuple[int, int]] = {}
    for _ in range(data.draw(st.integers(1, 40))):
        if live and data.draw(st.booleans()):
            token = data.draw(st.sampled_from(sorted(live, key=str)))
            policy.free(token)
            del live[token]
        else:
            nbytes = data.draw(st.integers(1, 30 * MIB))
            token = policy.allocate(nbytes)
            address, size = token[1] if isinstance(token[0], policies.Segments) else token
            assert size >= nbytes
            same = [at for other, at in live.items() if (other[0] is token[0]) or make in _ALONE]
            assert all(address + size <= at or at + n <= address for at, n in same)
            live[token] = address, size
        assert policy.reserved >= sum(size for _, size in live.values())


_ALONE = (policies.cupy, policies.Growing)


# ---- fragmentation ------------------------------------------------------------------------------


def test_models_waste_as_much_as_their_policies_are_known_to() -> None:
    found = fragmentation.ratios()
    drifting = found["drifting-batches"]
    assert all(ratio >= 1 for ratios in found.values() for ratio in ratios.values())
    assert drifting["growing"] < 1.5 < drifting["powers"] < drifting["eighths"] < drifting["exact"]
    assert min(drifting["cupy"], drifting["pytorch"]) > 8
    assert found["log-uniform"]["cupy"] < 1.6 < found["log-uniform"]["powers"]


def test_ours_reserves_at_most_1_4_of_what_is_live_and_less_than_every_model() -> None:
    for ratios in fragmentation.ratios().values():
        assert 1 <= ratios["haulage"] <= fragmentation.BAR
        others = [ratio for name, ratio in ratios.items() if not name.startswith("haulage")]
        assert ratios["haulage"] < min(others)


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_ours_does_so_for_traces_that_are_not_recorded(seed: int) -> None:
    for make in (traces.log_uniform, traces.drifting_batches):
        operations = make(seed)
        held = fragmentation.reserved(operations, ours.virtual())
        assert max(held) <= fragmentation.BAR * max(fragmentation.live(operations))


def test_batches_that_drift_do_not_pile_up_segments() -> None:
    operations = traces.read("drifting-batches")
    held = fragmentation.reserved(operations, ours.segmented())
    assert max(held) <= fragmentation.BAR * max(fragmentation.live(operations))


# ---- the page and the command -------------------------------------------------------------------


def _memory() -> dict[str, Any]:
    return {
        "cases": {
            "line": {"haulage": [300.0] * 3, "numpy": [100.0] * 3},
            "plane": {"haulage": [500.0] * 3, "numpy": [100.0] * 3, "warp": [9000.0] * 3},
            "close": {"haulage": [400.0] * 3},
            "view": {"haulage": [300.0] * 3, "numpy": [100.0] * 3},
            "read": {"haulage": [1600.0] * 3},
            "large": {"haulage": [9000.0] * 3, "numpy": [1000.0] * 3},
        },
        "parts": {"haulage": {"the call": [25.0], "the clock": [40.0]}},
        "skipped": {"warp": "not installed"},
        "fragmentation": {
            "log-uniform": {"haulage": 1.25, "exact": 18.5},
            "drifting-batches": {"haulage": 1.24, "exact": 32.0},
        },
    }


def test_the_page_tells_which_allocations_reach_the_bar() -> None:
    text = "\n".join(section.lines(_memory()))
    assert "| 1000 float32 | **300** | 100 |  | 3.00 (3.00 to 3.00) | 4 |" in text
    assert "| 500** | 100 | 9000 | 5.00 (5.00 to 5.00) | 4: **missed** |" in text.replace(
        "**5", "5"
    )
    assert "| 1000 float32 and `close()` | **400** |  |  |  |  |" in text
    assert "| `a[1:]` | **300** | 100 |  | 3.00 (3.00 to 3.00) | 1000 ns |" in text
    assert "| `a[3]` | **1600** |  |  |  | 1500 ns: **missed** |" in text
    assert "| 100 MB, not touched | **9000** | 1000 |  | 9.00 (9.00 to 9.00) |  |" in text
    assert "| the call | 25 |" in text
    assert "| the clock | 40 |" in text
    assert "is skipped: not installed" in text
    assert "| **Haulage**, with virtual memory | 1.25 | 1.24 |" in text
    assert "| a cache of exact sizes | 18.50 | 32.00 |" in text


def test_a_page_of_a_run_without_memory_has_no_such_part() -> None:
    assert list(section.lines(outcomes.empty()["memory"])) == []


def test_memory_is_kept_as_the_run_that_measured_it(tmp_path: Path) -> None:
    kept = outcomes.empty() | {"memory": _memory()}
    outcomes.merge(kept, outcomes.empty())
    assert kept["memory"] == _memory()
    newer = outcomes.empty() | {"memory": {"cases": {}}}
    outcomes.merge(kept, newer)
    assert kept["memory"] == {"cases": {}}
    path = tmp_path / "older.json"
    path.write_text(json.dumps({"cases": {}}))
    assert outcomes.read(path)["memory"] == {}


def test_the_command_measures_allocations_and_fragmentation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--what", "memory", "--rounds", "1", "--peers", "numpy", "--json"]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    assert command.main() == 0
    memory = json.loads(capsys.readouterr().out)["memory"]
    assert set(memory["cases"]) == set(allocations.CASES)
    for name, times in memory["cases"].items():
        assert {"haulage"} <= set(times), name
        assert ("numpy" in times) is (name not in ("close", "with"))
        assert all(len(ns) == 1 and ns[0] > 0 for ns in times.values())
    assert set(memory["fragmentation"]) == set(traces.NAMES)
    assert set(memory["parts"]) == {"haulage"}
    assert memory["skipped"] == {}


def test_memory_has_no_cases_to_choose_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "scan", "--what", "memory"])
    assert command.main() == 2
    assert "has no cases; leave scan out" in capsys.readouterr().err


def test_a_statement_is_timed_for_each_array_that_it_makes() -> None:
    made: list[int] = []
    statement = allocations.Statement("for _ in range(10): made.append(0)", 10)
    took = allocations.nanoseconds(statement, {"made": made}, seconds=0)
    assert len(made) == 10
    assert took > 0
