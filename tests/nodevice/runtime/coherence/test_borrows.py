"""Borrowed views of the host's memory: what counts as written, and what is out of date in them."""

import numpy as np
import pytest

from haulage.errors import CoherenceError
from haulage.runtime.coherence import borrows
from haulage.runtime.geometry.ranges import Ranges
from haulage.runtime.process import call_sites

NBYTES = 64
WHOLE = Ranges.of(0, NBYTES)


def borrowed(host, part=WHOLE, is_overwritten=False):
    """Borrows with one borrow, its view of `host`, and what is known of it."""
    known = borrows.Borrows("a")
    view, one = borrows.borrow(host, part, call_sites.current(), "get", is_overwritten)
    known.records.append(one)
    return known, view, one


def counted(known, needed, host):
    return [part for part, _ in known.written(needed, host)]


@pytest.fixture
def host():
    return np.arange(NBYTES, dtype=np.uint8)


def test_a_view_writes_to_the_host_and_counts_as_long_as_it_or_a_view_of_it_lives(host):
    known, view, one = borrowed(host)
    part = view[8:16]
    part[:] = 7
    assert host[8:16].tolist() == [7] * 8
    del view
    assert one.is_alive
    assert counted(known, Ranges.of(4, 12), host) == [Ranges.of(4, 12)]
    assert counted(known, None, host) == []
    del part
    assert not one.is_alive


def test_one_that_is_gone_counts_once_with_all_its_bytes(host):
    known, view, _ = borrowed(host, Ranges.of(8, 24))
    assert not known.not_counted()
    del view
    assert known.not_counted() == Ranges.of(8, 24)
    assert counted(known, Ranges.of(0, 4), host) == [Ranges.of(8, 24)]
    assert counted(known, WHOLE, host) == []
    assert not known.records


def test_what_a_device_wrote_is_stale_and_does_not_count_as_written(host):
    known, view, one = borrowed(host)
    assert known.outdate(Ranges.of(16, 32), host, "device", call_sites.current())
    assert not known.outdate(Ranges.of(20, 24), host, "device", call_sites.current())
    assert one.fresh == Ranges(((0, 16), (32, NBYTES)))
    assert counted(known, Ranges.of(8, 40), host) == [Ranges(((8, 16), (32, 40)))]
    assert list(known.out_of_date("device")) == [Ranges.of(16, 32)]
    assert list(known.out_of_date("another")) == []
    del view


def test_a_stale_piece_is_refreshed_as_a_whole(host):
    known, view, _ = borrowed(host)
    known.outdate(Ranges.of(16, 32), host, "device", call_sites.current())
    assert known.partly_stale(Ranges.of(0, 20)) == Ranges.of(16, 32)
    assert not known.partly_stale(Ranges.of(0, 40))
    assert known.whole_pieces(Ranges.of(0, 20)) == Ranges.of(0, 32)
    known.forget_stale(Ranges.of(16, 17))
    assert known.fresh() == WHOLE
    del view


def test_a_write_to_stale_bytes_is_told_once_and_names_both_lines(host):
    known, view, one = borrowed(host)
    known.outdate(Ranges.of(16, 32), host, "device", call_sites.current())
    known.check(one, host)
    view[17] += 1
    with pytest.raises(CoherenceError, match=r"test_borrows\.py.*test_borrows\.py.*is lost"):
        known.check(one, host)
    known.check(one, host)


def test_what_a_copy_that_was_cut_short_left_is_no_write(host):
    known, view, one = borrowed(host)
    known.outdate(Ranges.of(16, 32), host, "device", call_sites.current())
    host[16:20] = 0
    known.copy_was_cut_short(Ranges.of(16, 32))
    known.check(one, host)
    del view


@pytest.mark.parametrize("nbytes", [0, 1, 7, 8, 9, 8 * 4096, 8 * 4096 + 3])
def test_each_byte_changes_the_fingerprint(nbytes):
    data = np.arange(nbytes).astype(np.uint8)
    before = borrows.fingerprint(data)
    assert (borrows.fingerprint(data.copy()) == before).all()
    for index in {0, nbytes // 2, nbytes - 1} if nbytes else ():
        data[index] ^= 1
        assert (borrows.fingerprint(data) != before).any(), index
        data[index] ^= 1


def test_words_that_changed_places_have_another_fingerprint():
    data = np.arange(64, dtype=np.uint64)
    swapped = data.copy()
    swapped[[3, 9]] = swapped[[9, 3]]
    one, other = (borrows.fingerprint(each.view(np.uint8)) for each in (data, swapped))
    assert (one != other).any()
