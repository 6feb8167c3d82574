"""What orders accesses, by calls in an order that kernels make only now and then: another thread is
between the call in front of an atomic operation and the operation itself."""

import contextlib
import ctypes

import numpy as np
import pytest

from haulage._core import check

_WHICH = check.NO_RANGE << check.RANGE_AT
_OF_DATA, _OF_LOCK = 8 << check.SIZE_AT | _WHICH, 4 << check.SIZE_AT | _WHICH


class Thread:
    """The thread of a block of one, by the calls of compiled kernels."""

    def __init__(self, block, data, lock):
        native = check.FOR_KERNELS["haulage_check_thread"]
        enter = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32)(native)
        self._state, self._site = enter(block, 0), block + 1
        self._data, self._lock = data.ctypes.data, lock.ctypes.data

    def _call(self, name, *arguments, address=None):
        kinds = [ctypes.c_void_p] * (1 + (address is not None)) + [ctypes.c_int64] * len(arguments)
        given = (self._state,) if address is None else (self._state, address)
        native = check.FOR_KERNELS[f"haulage_check_{name}"]
        ctypes.CFUNCTYPE(None, *kinds)(native)(*given, *arguments)

    def comes_to_compare_and_swap(self):
        self._call("atomic", _OF_LOCK | check.TAKES, address=self._lock)

    def swapped(self, took):
        self._call("swapped", took, 0, 1)

    def takes_lock(self):
        self.comes_to_compare_and_swap()
        self.swapped(True)

    def fences(self):
        self._call("fence", 0)

    def writes(self):
        self._call("write", _OF_DATA | self._site, 0, address=self._data)

    def comes_to_exchange(self):
        self._call("atomic", _OF_LOCK, address=self._lock)

    def exchanged(self):
        self._call("operated")


@contextlib.contextmanager
def launch(found):
    """Two threads of different blocks; behind it the kinds of what was found are in `found`."""
    data, lock = np.zeros(1), np.zeros(1, np.int32)
    ranges = [(each.ctypes.data, each.nbytes, 0, 2, True) for each in (data, lock)]
    check.begin(ranges, 2, 1, 2, races=True, unwritten=False, keeps=True, parallel=True)
    try:
        yield Thread(0, data, lock), Thread(1, data, lock)
    finally:
        _, told = check.end()
        found += [kind for kind, *_ in told]


@pytest.mark.parametrize("fenced", [True, False])
def test_a_lock_is_given_back_before_a_compare_and_swap_takes_it(fenced):
    """The launch has had no fence when the second thread comes to its operation."""
    found = []
    with launch(found) as (one, other):
        one.takes_lock()
        other.comes_to_compare_and_swap()
        if fenced:
            one.fences()
        one.writes()
        if fenced:
            one.fences()
        one.comes_to_exchange()
        one.exchanged()
        other.swapped(True)
        if fenced:
            other.fences()
        other.writes()
    assert found == ([] if fenced else [check.RACE])


@pytest.mark.parametrize("fenced", [True, False])
def test_a_compare_and_swap_fails_just_before_the_lock_is_given_back(fenced):
    """The one that takes the lock then comes after what the other did behind its fence only."""
    found = []
    with launch(found) as (one, other):
        one.takes_lock()
        if fenced:
            one.fences()
        one.writes()
        one.fences()
        one.comes_to_exchange()
        other.comes_to_compare_and_swap()
        other.swapped(False)
        one.exchanged()
        other.takes_lock()
        other.fences()
        other.writes()
    assert found == ([] if fenced else [check.RACE])
