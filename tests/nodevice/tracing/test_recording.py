"""What `haulage trace` keeps of a long run: what is bounded, and what stays exact."""

import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from haulage.tracing.memory_log import MemoryLog
from haulage.tracing.operations import Operation, Operations
from haulage.tracing.result import shown

GROUP = ("cpu:0", "device")


def random_changes(seed, count):
    """(time, place, bytes of an allocation or ~bytes of what is freed) of a program."""
    chance = random.Random(seed)
    live, changes = [], []
    for at in range(count):
        if live and chance.random() < 0.45:
            place, nbytes = live.pop(chance.randrange(len(live)))
            changes.append((at * 10, place, ~nbytes))
        else:
            live.append((chance.randrange(1, 6), chance.choice([0, 1, 100, 5000])))
            changes.append((at * 10, *live[-1]))
    return changes


@given(st.integers(0, 1 << 32), st.integers(1, 400), st.sampled_from([20, 100, 1000]))
def test_the_peak_and_its_holders_are_exact_however_much_is_kept(seed, count, most):
    log = MemoryLog(most)
    held, total, peak, at_peak, peak_at = {}, 0, 0, {}, 0
    for at, place, nbytes in random_changes(seed, count):
        log.add(at, GROUP, place, nbytes)
        blocks, sum_of = held.get(place, (0, 0))
        change = nbytes if nbytes >= 0 else -~nbytes
        held[place] = (blocks + (1 if nbytes >= 0 else -1), sum_of + change)
        total += change
        if total > peak:
            peak, peak_at = total, at
            at_peak = {p: (b, n) for p, (n, b) in held.items() if n}
        assert len(log.changes) <= most
    group = log.groups[GROUP]
    group.note_peak()
    assert (group.peak, group.peak_at, group.total) == (peak, peak_at, total)
    found = {place: nbytes for place, (nbytes, _) in group.at_peak.items() if nbytes}
    assert found == {place: nbytes for place, (nbytes, _) in at_peak.items() if nbytes}
    assert sum(found.values()) == peak
    # What is drawn ends at what is held, in all and by each line.
    for place in range(1, 6):
        drawn = sum(nbytes for _, _, of, nbytes in log.changes if of == place)
        assert drawn == held.get(place, (0, 0))[1]
    assert [change[0] for change in log.changes] == sorted(change[0] for change in log.changes)


def operation(kind, lane, begin, length, nbytes=1, place=1):
    made = Operation(kind, "", nbytes, lane, place)
    made.took(begin, begin + length)
    return made


@settings(max_examples=30)
@given(st.integers(0, 1 << 32), st.integers(1, 3))
def test_operations_beyond_the_most_are_drawn_together_and_all_counted(seed, lanes):
    chance = random.Random(seed)
    kept = Operations(50)
    ends, totals, lengths = [0] * lanes, {}, []
    for _ in range(400):
        lane = chance.randrange(lanes)
        begin = ends[lane] + chance.randrange(5)
        made = operation(chance.choice(["kernel", "copy"]), lane, begin, chance.randrange(1, 1000))
        ends[lane] = made.end
        lengths.append(made.busy)
        count, nbytes, busy = totals.get(made.kind, (0, 0, 0))
        totals[made.kind] = (count + 1, nbytes + 1, busy + made.busy)
        kept.add(made)
        assert len(kept.kept) <= 50
    assert kept.count == 400
    assert {key[0]: tuple(figures) for key, figures in kept.totals.items()} == totals
    assert sum(each.count for each in kept.kept) == 400
    assert sum(each.busy for each in kept.kept) == sum(busy for _, _, busy in totals.values())
    for lane in range(lanes):
        of_lane = sorted((e for e in kept.kept if e.lane == lane), key=lambda each: each.begin)
        for before, after in pairwise(of_lane):
            assert before.end <= after.begin
    assert kept.drawn_together > 0
    long = sorted(length for length in lengths if length > kept.drawn_together)
    alone = [each.busy for each in kept.kept if each.count == 1]
    assert sorted(length for length in alone if length > kept.drawn_together) == long


def test_operations_of_ever_new_streams_are_left_out_and_counted():
    kept = Operations(50)
    for lane in range(1000):
        kept.add(operation("copy", lane, 10 * lane, 1 + lane % 7))
        assert len(kept.kept) <= 50
    assert kept.left_out + sum(each.count for each in kept.kept) == kept.count == 1000
    assert [figures[0] for figures in kept.totals.values()] == [1000]


@given(st.text(st.characters(), max_size=20))
def test_text_that_is_shown_can_be_written_and_is_told_apart(text):
    made = shown(text)
    assert made.isprintable()
    made.encode("utf-8")
    assert made == text or not text.isprintable()
