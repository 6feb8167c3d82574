# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Free ranges of addresses, by address and by size."""

from libc.stdlib cimport free, realloc
from libc.string cimport memmove


cdef class Extents:
    """Ranges (address, bytes) that do not overlap; ranges that touch become one.

    They do not across a *wall*, an address where memory begins that was given apart.

    Args:
        walls: a set of such addresses that others have too; None: one of its own.
    """

    def __init__(self, walls=None):
        self.walls = set() if walls is None else walls

    def __dealloc__(self):
        free(self._by_address)
        free(self._by_size)

    def __len__(self):
        return self._count

    def __iter__(self):
        """(address, bytes) of each, in the order of addresses."""
        return iter([(self._by_address[n].address, self._by_address[n].nbytes)
                     for n in range(self._count)])

    @property
    def largest(self):
        """Bytes of the largest range."""
        return self._by_size[self._count - 1].nbytes if self._count else 0

    def add(self, long long address, long long nbytes):
        """Put a range in, which becomes one with those that it touches."""
        self.put(address, nbytes)

    def take(self, long long nbytes):
        """Take `nbytes` out of the range that fits best, of several the lowest; None if none does.

        Best fit in the order of addresses: Wilson et al., "Dynamic storage allocation: a survey and
        critical review", 1995, section 3.4.
        """
        address = self.get(nbytes, False)
        return None if address < 0 else address

    def cut(self, long long address, long long nbytes, start=None):
        """Take out a part of one of the ranges, of the one from `start` on; None: from `address`.

        Raises:
            KeyError: there is none.
        """
        cdef long long first = address if start is None else start
        cdef long long stop
        cdef Py_ssize_t at = _at_address(self, first)
        if at == self._count or self._by_address[at].address != first:
            raise KeyError(first)
        self._has_room(1)
        stop = first + self._by_address[at].nbytes
        self._remove(at)
        if address > first:
            self._insert(first, address - first)
        if stop > address + nbytes:
            self._insert(address + nbytes, stop - address - nbytes)

    def ending_at(self, long long address, across=False):
        """Bytes of the range that ends before `address`; 0 if none does, or there is a wall, unless
        that does not matter."""
        cdef Py_ssize_t before = _at_address(self, address) - 1
        if before < 0 or (not across and address in self.walls):
            return 0
        cdef Range found = self._by_address[before]
        return found.nbytes if found.address + found.nbytes == address else 0

    def move_to(self, Extents other):
        """Take all out and put it into another one."""
        other._has_room(self._count)
        while self._count:
            other.put(self._by_address[0].address, self._by_address[0].nbytes)
            self._remove(0)

    cdef int put(self, long long address, long long nbytes) except -1:
        cdef long long start = address, stop = address + nbytes
        cdef Range *before
        cdef bint has_before, has_after
        cdef Py_ssize_t at
        self._has_room(1)
        at = _at_address(self, address)
        before = &self._by_address[at - 1]
        has_before = at > 0 and before.address + before.nbytes == start
        has_before = has_before and start not in self.walls
        has_after = at < self._count and self._by_address[at].address == stop
        has_after = has_after and stop not in self.walls
        if has_after:
            stop += self._by_address[at].nbytes
            self._remove(at)
        if has_before:
            start = before.address
            self._remove(at - 1)
        self._insert(start, stop - start)
        return 0

    cdef long long get(self, long long nbytes, bint exactly) except -2:
        """`take`; -1 if none fits, or is of just that size where that is asked."""
        cdef Py_ssize_t at = _at_size(self, nbytes, 0)
        cdef Range found
        if at == self._count:
            return -1
        found = self._by_size[at]
        if exactly and found.nbytes != nbytes:
            return -1
        self._remove(_at_address(self, found.address))
        if found.nbytes > nbytes:
            self._insert(found.address + nbytes, found.nbytes - nbytes)
        return found.address

    # Both tables have the same ranges before and after each of these; `_has_room` comes before all
    # that changes them.

    cdef int _has_room(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t room = 2 * self._room + 16
        cdef void *grown
        if self._count + more <= self._room:
            return 0
        grown = realloc(self._by_address, room * sizeof(Range))
        if grown == NULL:
            raise MemoryError
        self._by_address = <Range *>grown
        grown = realloc(self._by_size, room * sizeof(Range))
        if grown == NULL:
            raise MemoryError
        self._by_size = <Range *>grown
        self._room = room
        return 0

    cdef void _insert(self, long long address, long long nbytes) noexcept:
        _make_way(self._by_address, self._count, _at_address(self, address), address, nbytes)
        _make_way(self._by_size, self._count, _at_size(self, nbytes, address), address, nbytes)
        self._count += 1
        self.nbytes += nbytes

    cdef void _remove(self, Py_ssize_t at) noexcept:
        cdef Range gone = self._by_address[at]
        _close_up(self._by_size, self._count, _at_size(self, gone.nbytes, gone.address))
        _close_up(self._by_address, self._count, at)
        self._count -= 1
        self.nbytes -= gone.nbytes


cdef Py_ssize_t _at_address(Extents self, long long address) noexcept:
    """Of the first range that begins at `address` or behind it."""
    cdef Py_ssize_t low = 0, high = self._count, middle
    while low < high:
        middle = (low + high) // 2
        if self._by_address[middle].address < address:
            low = middle + 1
        else:
            high = middle
    return low


cdef Py_ssize_t _at_size(Extents self, long long nbytes, long long address) noexcept:
    """Of the first range, by size and then by address, from these on."""
    cdef Py_ssize_t low = 0, high = self._count, middle
    cdef Range *found
    while low < high:
        middle = (low + high) // 2
        found = &self._by_size[middle]
        if found.nbytes < nbytes or (found.nbytes == nbytes and found.address < address):
            low = middle + 1
        else:
            high = middle
    return low


cdef void _make_way(
    Range *table, Py_ssize_t count, Py_ssize_t at, long long address, long long nbytes
) noexcept:
    memmove(&table[at + 1], &table[at], (count - at) * sizeof(Range))
    table[at].address = address
    table[at].nbytes = nbytes


cdef void _close_up(Range *table, Py_ssize_t count, Py_ssize_t at) noexcept:
    memmove(&table[at], &table[at + 1], (count - at - 1) * sizeof(Range))
