# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Arrays in several places, used where nothing has to be moved.

What is known of a storage lives here: which bytes are current where, who writes to them, what is
told of that. `StateBase.array_at_once` gives the array on a device for work that is handed to a
stream next, `release_at_once` is the end of that, and `borrow_at_once` gives the host's array to
write to. Where anything is out of the ordinary (bytes have to be moved, another stream is at work
with them, other libraries or views have them, a thread is inside of the state's lock) they change
nothing and say so, and `haulage.runtime.coherence` decides.

Each of them looks at all that matters, and then changes what is to be changed, with no step of
Python's in between: so neither a thread nor Ctrl-C comes in between, and they need no lock, but
have to find it free. In Python 3.11 a new container can begin a pass of the cycle collector, whose
finalisers are Python's, so what they make is made before they look.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.contextvars cimport get_value
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.object cimport PyObject

from haulage._core.fields cimport make_members
from haulage._core.memory cimport BlockBase, DeviceBase, current_call_site
from haulage._core.objects cimport haulage_made_of

import threading


cdef str _HOST = "host"
cdef object _ndarray, _view_type, _block_type, _only_read
cdef RangesBase _nothing
# The view of each name that was borrowed by it and is gone; and the last one.
cdef dict _gone_views = {}
cdef str _gone_last = None
cdef object _gone_view = None


def know(ndarray, view_type, block_type, nothing):
    """Tell which classes `numpy.ndarray`, `View` and `Block` are, and what no bytes are."""
    global _ndarray, _view_type, _block_type, _nothing
    _ndarray, _view_type, _block_type, _nothing = ndarray, view_type, block_type, nothing


def know_only_read(variable):
    """Tell which `ContextVar` has the storages that the host only reads at present, as a tuple."""
    global _only_read
    _only_read = variable


# ---- sets of bytes ------------------------------------------------------------------------------


cdef class RangesBase:
    """What `haulage.runtime.geometry.ranges.Ranges`, where its attributes are described, has in C.
    """

    def __init__(self, tuple runs=()):
        self.runs = runs
        self._count = len(runs)
        if runs:
            self._start, self._stop = runs[0][0], runs[self._count - 1][1]


cdef enum:
    _NO = 0
    _YES = 1
    _NOT_AT_ONCE = 2


cdef int _covers(RangesBase one, RangesBase other) noexcept:
    """Whether all bytes of `other` are among those of `one`."""
    if one is other or not other._count:
        return _YES
    if not one._count or other._start < one._start or other._stop > one._stop:
        return _NO
    return _YES if one._count == 1 else _NOT_AT_ONCE


cdef inline bint _are_same(RangesBase one, RangesBase other) noexcept:
    """Whether it is known at once that they are the same bytes."""
    return _covers(one, other) == _YES and _covers(other, one) == _YES


cdef RangesBase _without(RangesBase one, RangesBase other):
    """The bytes of `one` that are not in `other`; None: not at once."""
    if not one._count or not other._count:
        return one
    if _covers(other, one) == _YES:
        return _nothing
    return one if one._stop <= other._start or other._stop <= one._start else None


cdef RangesBase _together(RangesBase one, RangesBase other):
    """The bytes of both; None: not at once."""
    if _covers(one, other) == _YES:
        return one
    return other if _covers(other, one) == _YES else None


# ---- the lock -----------------------------------------------------------------------------------


cdef class Lock:
    """A lock for `with`, which its thread can enter again.

    Attributes:
        depth: how often the thread that is inside has entered it.
    """

    def __cinit__(self):
        self._lock = threading.RLock()

    def __enter__(self):
        self._lock.acquire()
        self.depth += 1

    def __exit__(self, *exception):
        self.depth -= 1
        self._lock.release()

    def enter_within(self, seconds):
        """Enter it if no thread is inside, not even this one, or all leave in that time; whether it
        was entered."""
        if not self._lock.acquire(timeout=seconds):
            return False
        if self.depth:
            self._lock.release()
            return False
        self.depth = 1
        return True


# ---- what is told of it -------------------------------------------------------------------------


cdef class SumsBase:
    """What `haulage.runtime.transfers.account.Sums`, where its attributes are described, has in C.
    """


cdef class Write:
    """Bytes that were written, by which line of the program and through which view."""

    def __init__(self, RangesBase part, call_site, view):
        self.part, self.call_site, self.view = part, call_site, view


cdef class AccountBase:
    """What `haulage.runtime.transfers.account.Account`, where its attributes are described, has in
    C."""

    def wrote_again(self, RangesBase part, call_site, view):
        """Note a write to bytes of which one is known, and make it the last; False: nothing is
        changed, as none is known, or others are hidden by this one."""
        cdef Py_ssize_t at = self._same(part)
        if at < 0:
            return False
        self._again(at, call_site, view)
        return True

    def used(self, long long nbytes, bint found):
        """Work on a device is to have so many bytes; `found`: they were current there before."""
        cdef SumsBase sums = self.sums if self.sums.kept else self._entered()
        _used(sums, nbytes, found)

    def launched(self, long long nbytes, int ways):
        """So many bytes are those of an argument of a kernel or the like, as which they are `used`
        too; a host array would be copied `ways` times for it: there and back, or one of these."""
        _launched(self.sums, nbytes, ways)

    cdef Py_ssize_t _same(self, RangesBase part) except -2:
        """Where the write to just these bytes is that `wrote_again` can replace; -1: there is none.
        """
        cdef list writes = self.writes
        cdef Py_ssize_t n, found = -1
        cdef Write one
        for n in range(len(writes)):
            one = <Write>writes[n]
            if _are_same(part, one.part):
                found = n
            elif _covers(part, one.part) != _NO:
                return -1
        return found

    cdef int _again(self, Py_ssize_t at, object call_site, object view) except -1:
        cdef list writes = self.writes
        cdef Write one = <Write>writes[at]
        one.call_site, one.view = call_site, view
        if at < len(writes) - 1:
            del writes[at]
            writes.append(one)
        return 0


cdef inline void _used(SumsBase sums, long long nbytes, bint found) noexcept:
    sums.uses += 1
    sums.used_bytes += nbytes
    if found:
        sums.found += 1
        sums.found_bytes += nbytes


cdef inline void _launched(SumsBase sums, long long nbytes, int ways) noexcept:
    sums.launches += 1
    sums.launched_bytes += nbytes
    sums.as_host_arrays += ways * nbytes


# ---- who has memory of it -----------------------------------------------------------------------


cdef class Records:
    """What the borrows and the exports of a storage, where these attributes are described, have in
    C."""


cdef class BaselineBase:
    """What `haulage.runtime.coherence.exports.Baseline` has in C."""


cdef class HandedOutBase(Records):
    """What `haulage.runtime.coherence.exports.HandedOut` has in C."""


@cython.freelist(16)
@cython.no_gc
cdef class Borrow:
    """What is known of borrowed memory.

    Attributes:
        part: the bytes that can be written by it.
        call_site: the line that borrowed it.
        why: what that called, in words.
        is_overwritten: whether it was borrowed to write all of them.
        is_alive: whether somebody can still write.
        stale: what of it is out of date.
    """

    def __cinit__(self):
        self.is_alive = True
        self.stale = ()

    def __init__(self, RangesBase part, call_site, str why, bint is_overwritten):
        self.part, self.call_site, self.why = part, call_site, why
        self.is_overwritten = is_overwritten

    @property
    def fresh(self):
        """The bytes of it that are up to date."""
        part = self.part
        for stale in self.stale:
            part = part - stale.part
        return part

    @property
    def view(self):
        """The view that makes its bytes count as written; None: they were written for sure."""
        if self.is_alive or not self.is_overwritten:
            return _view_type(self.why, self.is_alive)
        return None


cdef object _gone(str why):
    """The view that was borrowed by that name and is gone."""
    global _gone_last, _gone_view
    cdef PyObject *found
    if why is not _gone_last:
        found = PyDict_GetItemWithError(_gone_views, why)
        if found == NULL:
            _gone_views[why] = _view_type(why, False)
        _gone_last, _gone_view = why, _gone_views[why]
    return _gone_view


@cython.freelist(16)
@cython.no_gc
cdef class BorrowedMemory:
    """The memory `host` for NumPy, and what its arrays hold: when it goes, `borrow` is told."""

    def __init__(self, host, Borrow borrow not None):
        self._host = host
        self._borrow = borrow
        _look_at(host, &self._address, &self._nbytes)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self._address, self._nbytes, False, flags)

    def __dealloc__(self):
        if self._borrow is not None:
            self._borrow.is_alive = False


cdef int _look_at(object host, void **address, Py_ssize_t *nbytes) except -1:
    """Where the memory of an array is, which has it as long as it lives."""
    cdef Py_buffer buffer
    PyObject_GetBuffer(host, &buffer, PyBUF_SIMPLE)
    address[0], nbytes[0] = buffer.buf, buffer.len
    PyBuffer_Release(&buffer)
    return 0


# ---- replicas -----------------------------------------------------------------------------------

cdef long long _uses = 0


cdef class ReplicaBase:
    """What `haulage.runtime.coherence.state.Replica`, where its attributes are described, has in C.
    """


cdef class DeviceReplicaBase(ReplicaBase):
    """What `haulage.runtime.coherence.state.DeviceReplica`, where its attributes are described, has
    in C."""

    def count_use(self):
        """It is acquired now."""
        global _uses
        _uses += 1
        self.used = _uses


cdef inline bint _is_stream(
    object one, object stream, object device, unsigned long long handle
) except -1:
    """Whether `one` is that stream."""
    return one is stream or (one.device is device and one.handle == handle)


cdef bint _is_idle(DeviceBase device, object stream) except -1:
    """Whether all work handed to a stream of the device is done."""
    cdef unsigned long long handle = stream.handle
    if not device.capturing and device.queues is not None and device.queues.is_idle(handle):
        return True
    return stream.idle()


cdef bint _is_noted(
    BlockBase block, object stream, object device, unsigned long long handle
) except -1:
    """Whether `block.use(stream)` changes nothing."""
    if block.closed:
        return False
    if not handle or stream is block.home:
        return True
    if block.streams is not None:
        for other in (<dict>block.streams).values():
            if _is_stream(other, stream, device, handle):
                return True
    return False


cdef bint _is_only_user(
    BlockBase block, object stream, object device, unsigned long long handle
) except -1:
    """Whether no stream but this one, and the default one, may use memory."""
    home = block.home
    if block.streams is not None:
        for other in (<dict>block.streams).values():
            if not _is_stream(other, stream, device, handle):
                return False
    if home is None or home is (<DeviceBase>device).default_stream:
        return True
    return _is_stream(home, stream, device, handle)


# ---- the state ----------------------------------------------------------------------------------


cdef inline bint _is_known(StateBase state) noexcept:
    """Whether nobody is at work with it, and all writes but those through views are known."""
    return not (
        (<Lock>state.lock).depth
        or <list>(<Records>state.exports).records
        or <list>state.lost
        or <dict>(<HandedOutBase>state.handed_out).baseline.parts
    )


cdef inline bint _is_shared_with(StateBase state, object device) noexcept:
    """Whether it is for this device that the host's memory is one that devices reach too."""
    return state.shared is not None and (<BlockBase>state.shared).device is device


cdef bint _no_view_wrote(StateBase state, bint is_shared) noexcept:
    """Whether no view of the host's memory may have been written to without being counted, or
    is out of date by a write of a device, where that has memory of its own."""
    cdef Records borrows = <Records>state.borrows
    cdef list records = <list>borrows.records
    cdef Py_ssize_t n
    if not records:
        return True
    if not is_shared or <list>borrows.pending:
        return False
    for n in range(len(records)):
        if not (<Borrow>records[n]).is_alive or <tuple>(<Borrow>records[n]).stale:
            return False
    return True


cdef inline bint _has_nothing(ReplicaBase one, bint acquired) noexcept:
    """Whether it has no bytes that it could lose."""
    return not (
        (<RangesBase>one.valid)._count or (acquired and (<RangesBase>one.acquired)._count)
    )


cdef inline bint _can_lose(ReplicaBase one, RangesBase part, bint acquired) noexcept:
    return _has_nothing(one, acquired) or _without(<RangesBase>one.valid, part) is not None and not (
        acquired and _without(<RangesBase>one.acquired, part) is None
    )


cdef inline void _lose(ReplicaBase one, RangesBase part, bint acquired) noexcept:
    if _has_nothing(one, acquired):
        return
    one.valid = _without(<RangesBase>one.valid, part)
    if acquired:
        one.acquired = _without(<RangesBase>one.acquired, part)


cdef inline PyObject *_found(dict known, object key) except? NULL:
    """What a dictionary, which mostly has one entry, has for an object; NULL: nothing."""
    cdef Py_ssize_t at = 0
    cdef PyObject *first
    cdef PyObject *value
    if PyDict_Next(known, &at, &first, &value) and first == <PyObject *>key:
        return value
    return PyDict_GetItemWithError(known, key)


cdef inline bint _has_no_others(StateBase state, ReplicaBase written) noexcept:
    """Whether no device has a replica but that one."""
    return len(<dict>state.replicas) == (state.on_host is not written)


cdef bint _is_outdated_at_once(
    StateBase state, ReplicaBase written, RangesBase part, bint acquired
) noexcept:
    """Whether `_outdate` can be called."""
    cdef Py_ssize_t at = 0
    cdef PyObject *one
    if state.on_host is not written and not _can_lose(<ReplicaBase>state.on_host, part, acquired):
        return False
    if _has_no_others(state, written):
        return True
    while PyDict_Next(<dict>state.replicas, &at, NULL, &one):
        if one != <PyObject *>written and not _can_lose(<ReplicaBase>one, part, acquired):
            return False
    return True


cdef void _outdate(StateBase state, ReplicaBase written, RangesBase part, bint acquired) noexcept:
    """Bytes are current only in one replica; those of the others count as `acquired` still,
    unless that is asked too."""
    cdef Py_ssize_t at = 0
    cdef PyObject *one
    cdef DeviceReplicaBase other
    if state.on_host is not written:
        _lose(<ReplicaBase>state.on_host, part, acquired)
    if _has_no_others(state, written):
        return
    while PyDict_Next(<dict>state.replicas, &at, NULL, &one):
        if one != <PyObject *>written:
            other = <DeviceReplicaBase>one
            _lose(other, part, acquired)
            if acquired and not (<RangesBase>other.valid)._count:
                other.read_since_write = False


cdef class StateBase:
    """What `haulage.runtime.coherence.state.State`, where its attributes are described, has in C.
    """

    # ---- on devices -----------------------------------------------------------------------------

    def array_if_at_rest(self, stream, str mode, part, key, long long nbytes, int ways):
        """`array_at_once`, for Python, with a mode of `Coherence`."""
        if mode == "w" or not isinstance(part, RangesBase):
            return None
        return self.array_at_once(
            stream.device, stream, stream.handle, mode == "rw", <RangesBase>part, key, nbytes, ways
        )

    cdef object array_at_once(
        self,
        object device,
        object stream,
        unsigned long long handle,
        bint writes,
        RangesBase part,
        object key,
        long long nbytes,
        int ways,
    ):
        """What is kept by `key` of the replica on a device, or of memory that it shares with the
        host, whose bytes in `part` are current, for work that is handed next to a stream of it,
        which has that handle; None: it takes more.

        `writes`: that work writes to them too, and `release` has to follow. `nbytes` and `ways` are
        those of `Account.launched`.
        """
        global _uses
        cdef bint is_shared = _is_shared_with(self, device)
        cdef object memory, other = None
        cdef PyObject *found = _found(<dict>self.replicas, device)
        cdef ReplicaBase replica
        cdef DeviceReplicaBase own = None
        cdef AccountBase account = <AccountBase>self.account
        cdef tuple writers, writers_then
        cdef RangesBase writing = None, acquired
        if (<Lock>self.lock).depth or part._count > 1 or (writes and not part._count):
            return None
        if is_shared:
            replica, memory = <ReplicaBase>self.on_host, self.shared
            writers = <tuple>self.host_writers
        elif found != NULL:
            replica = own = <DeviceReplicaBase>found
            memory, writers = own.block, <tuple>own.writers
        else:
            return None
        # Another stream is asked before all else is looked at, as that may take a step of Python's.
        if writes:
            if handle:
                other = (<DeviceBase>device).default_stream
        elif len(writers) == 1 and not _is_stream(writers[0], stream, device, handle):
            other = writers[0]
        if other is not None and not _is_idle(<DeviceBase>device, other):
            return None
        if <dict>(<DeviceBase>device).capturing or type(memory) is not _block_type:
            return None
        writers_then = writers if len(writers) else (stream,)

        if (
            not _is_known(self)
            or not _no_view_wrote(self, is_shared)
            or not account.sums.kept
            or _covers(<RangesBase>replica.valid, part) != _YES
            or not _is_noted(<BlockBase>memory, stream, device, handle)
        ):
            return None
        if other is None:
            pass
        elif is_shared:
            if <tuple>self.host_writers is not writers:
                return None
        elif (
            _found(<dict>self.replicas, device) != <PyObject *>own
            or own.block is not memory
            or <tuple>own.writers is not writers
        ):
            return None
        if not writes:
            for one in writers:
                if one is not other and not _is_stream(one, stream, device, handle):
                    return None
        elif not _is_only_user(<BlockBase>memory, stream, device, handle):
            return None
        acquired = _together(<RangesBase>replica.acquired, part)
        if acquired is None:
            return None
        if writes and not is_shared:
            writing = _together(<RangesBase>own.writing, part)
            if (
                writing is None
                or len(writers_then) != 1
                or not _is_stream(writers_then[0], stream, device, handle)
                or not _is_outdated_at_once(self, own, part, False)
            ):
                return None
        found = _found(<dict>replica.arrays, key)
        if found == NULL:
            return None

        if is_shared:
            replica.acquired = acquired
        else:
            _uses += 1
            own.used = _uses
            if writes:
                own.writing, own.acquired, own.writers = writing, acquired, writers_then
                # Each byte has one value also where the launch is interrupted: that on the device.
                _outdate(self, own, part, False)
            else:
                own.read_since_write = True
        _used(account.sums, part._stop - part._start, True)
        if ways:
            _launched(account.sums, nbytes, ways)
        return <object>found

    cdef bint release_at_once(
        self, object device, object stream, unsigned long long handle, RangesBase part,
        object call_site,
    ) except -1:
        """Say that work which writes to `part` was handed to the stream for which it was acquired:
        it is current only on that device, since that line of the program. False: nothing is
        changed, as it takes more than that."""
        cdef bint is_shared = _is_shared_with(self, device)
        cdef PyObject *found = _found(<dict>self.replicas, device)
        cdef AccountBase account = <AccountBase>self.account
        cdef ReplicaBase replica
        cdef DeviceReplicaBase own = None
        cdef RangesBase writing = None
        cdef Py_ssize_t at
        cdef tuple writers
        if is_shared:
            replica, writers = <ReplicaBase>self.on_host, <tuple>self.host_writers
            if not writers:
                writers = (stream,)
        elif found != NULL:
            replica = own = <DeviceReplicaBase>found
            writers = <tuple>own.writers
        else:
            return False

        if not _is_known(self) or not (is_shared or _no_view_wrote(self, False)):
            return False
        if is_shared:
            if <tuple>self.host_writers and <tuple>self.host_writers is not writers:
                return False
        else:
            writing = _without(<RangesBase>own.writing, part)
            if writing is None or <tuple>own.writers is not writers:
                return False
        at = account._same(part)
        if (
            at < 0
            or len(writers) != 1
            or not _is_stream(writers[0], stream, device, handle)
            or _covers(<RangesBase>replica.acquired, part) != _YES
            or _covers(<RangesBase>replica.valid, part) != _YES
            or _covers(<RangesBase>self.defined, part) != _YES
            or not _is_outdated_at_once(self, replica, part, True)
        ):
            return False

        before = replica.call_site  # goes when all is done, as its code may
        replica.call_site = call_site
        self.last_written = device
        if is_shared:
            self.host_writers = writers
        else:
            own.writing = writing
            own.read_since_write = False
        _outdate(self, replica, part, True)
        account._again(at, call_site, None)
        if <set>self.evicted:
            (<set>self.evicted).clear()
        return True

    # ---- on the host ----------------------------------------------------------------------------

    cdef object borrow_at_once(
        self, RangesBase part, str why, object shape, object dtype, object offset, object strides
    ):
        """A NumPy array over the host's memory, by which `part`, that is current there, can be
        written as long as anybody has it; None: it takes more than that, and nothing is changed.

        `offset`: None where it begins with the memory, and in C order, without gaps; then `strides`
        do not count.
        """
        cdef AccountBase account = <AccountBase>self.account
        cdef ReplicaBase on_host = <ReplicaBase>self.on_host
        cdef list records = <list>(<Records>self.borrows).records
        cdef object host = self.host, call_site, array, view
        cdef PyObject *found
        cdef RangesBase acquired
        cdef Borrow borrow, one, gone = None
        cdef BorrowedMemory memory
        cdef Py_ssize_t n, at = -1, noted = -1
        if (
            (<Lock>self.lock).depth
            or host is None
            or self.shared is not None
            or _covers(<RangesBase>on_host.valid, part) != _YES
            or not part._count
        ):
            return None
        call_site = current_call_site()
        view = _gone(why)
        borrow = Borrow.__new__(Borrow)
        borrow.part, borrow.call_site, borrow.why = part, call_site, why
        memory = BorrowedMemory.__new__(BorrowedMemory)
        memory._host, memory._borrow = host, borrow
        if self._looked_at is not host:
            _look_at(host, &self._address, &self._nbytes)
            self._looked_at = host
        memory._address, memory._nbytes = self._address, self._nbytes
        array = haulage_made_of(
            _ndarray,
            (shape, dtype, memory) if offset is None else (shape, dtype, memory, offset, strides),
        )

        if (
            not _is_known(self)
            or self.host is not host
            or <list>self.uploads
            or <list>(<Records>self.borrows).pending
            or <list>(<Records>self.handed_out).records
            or records is not <list>(<Records>self.borrows).records
            or _covers(<RangesBase>on_host.valid, part) != _YES
        ):
            return None
        for replica in (<dict>self.replicas).values():
            if (<BlockBase?>(<DeviceReplicaBase>replica).block).closed:
                return None
        for n in range(len(records)):
            one = <Borrow>records[n]
            if <tuple>one.stale:
                return None
            if not one.is_alive:
                if gone is not None:
                    return None
                gone, at = one, n
        acquired = _together(<RangesBase>on_host.acquired, part)
        if acquired is None:
            return None
        if gone is not None:
            # What was borrowed before counts as written now.
            noted = account._same(<RangesBase>gone.part)
            if gone.is_overwritten:
                view = None
            elif gone.why is not why:
                found = PyDict_GetItemWithError(_gone_views, gone.why)
                if found == NULL:
                    return None
                view = <object>found
            if (
                noted < 0
                or _covers(<RangesBase>on_host.valid, <RangesBase>gone.part) != _YES
                or _covers(<RangesBase>self.defined, <RangesBase>gone.part) != _YES
                or not _is_outdated_at_once(self, on_host, <RangesBase>gone.part, True)
            ):
                return None

            before = on_host.call_site  # goes when all is done, as its code may
            self.last_written = _HOST
            on_host.call_site = gone.call_site
            _outdate(self, on_host, <RangesBase>gone.part, True)
            account._again(noted, gone.call_site, view)
            if <set>self.evicted:
                (<set>self.evicted).clear()
            if at == len(records) - 1:
                records[at] = borrow
            else:
                del records[at]
                records.append(borrow)
        else:
            records.append(borrow)
        on_host.acquired = acquired
        return array


# ---- arrays -------------------------------------------------------------------------------------


cdef class Key:
    """What arrays over parts of a replica are kept by: equal for equal parts."""

    def __init__(self, *parts):
        self.parts = parts
        self._hash = hash(parts)

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        return self is other or (isinstance(other, Key) and self.parts == (<Key>other).parts)


cdef type _moving_last = None


cdef bint is_moving(object value) noexcept:
    """Whether it is a `Moving`."""
    global _moving_last
    if type(value) is _moving_last:
        return True
    if not isinstance(value, Moving):
        return False
    _moving_last = type(value)
    return True


cdef class Release:
    """The end of a use that writes, see `haulage.runtime.buffers.coherent`."""

    cdef Moving array
    cdef object stream

    def __call__(self, handed):
        self.array._release(self.stream)


cdef class Moving:
    """What `haulage.smart.elements.Elements` has in C."""

    cdef object acquire_at_once(
        self, object device, object stream, unsigned long long handle, bint writes, bint used,
        int ways,
    ):
        """The device array for work that is handed next to a stream of a device, which has that
        handle; its elements are current there. None: nothing is changed, and `__haulage_acquire__`
        is to be asked.

        If the work `writes` to it, `release_all` has to follow; where it is not `used`, only shape
        and strides are. `ways` is that of `__haulage_acquire__`.
        """
        cdef RangesBase part = <RangesBase>self._part if used else _nothing
        if self._key is None:
            return None
        return self._state.array_at_once(
            device, stream, handle, writes, part, self._key, self._own_bytes, ways
        )

    cdef object borrow_at_once(self, str why):
        """`StateBase.borrow_at_once`, of its own elements."""
        return self._state.borrow_at_once(
            <RangesBase>self._part,
            why,
            self._shape,
            self._dtype,
            None if self._is_plain else self._offset,
            self._strides,
        )

    def _borrowed_at_once(self, str why):
        """`borrow_at_once`, for Python."""
        return self.borrow_at_once(why)

    # ---- for Numba's compiled functions ---------------------------------------------------------

    @property
    def _numba_type_(self):
        """Where Numba looks for the type of a value that it does not know; imports Numba."""
        cdef PyObject *known = _found(<dict>self._typed, False)
        if known == NULL or <tuple>get_value(_only_read):
            return self._type_for_numba()
        return <object>known


cdef object _host_array(object value):
    """What a function that Numba compiled for the host is given for `value`: of one that moves
    itself the host's array, which it may read and write."""
    cdef str why = "a function compiled by Numba"
    cdef object array = None
    if not is_moving(value):
        return value
    if not <tuple>get_value(_only_read):
        array = (<Moving>value).borrow_at_once(why)
    return value._for_numba(why) if array is None else array


def address_of_host_array():
    """Where the function of C is that takes an object and gives the array, a new reference, for
    code of Numba's; it needs the GIL."""
    return <size_t><void *>_host_array


cdef list release_all(
    Moving first, list others, object device, object stream, unsigned long long handle
):
    """Say that work which writes to these arrays, see `Moving.acquire_at_once`, was handed to the
    stream. Gives what is to be called for those that take more, as `__haulage_acquire__` does;
    None: there are none."""
    cdef object call_site = current_call_site()
    cdef list dones = _released(first, device, stream, handle, call_site, None)
    if others is not None:
        for array in others:
            dones = _released(array, device, stream, handle, call_site, dones)
    return dones


cdef list _released(
    Moving array, object device, object stream, unsigned long long handle, object call_site,
    list dones,
):
    cdef Release later
    if not array._state.release_at_once(
        device, stream, handle, <RangesBase>array._part, call_site
    ):
        later = Release.__new__(Release)
        later.array, later.stream = array, stream
        if dones is None:
            dones = []
        dones.append(later)
    return dones


def acquire(array, device, stream, handle, str mode, int ways, list written):
    """`Moving.acquire_at_once`, for Python, with a mode of `__haulage_acquire__`; an array that is
    written to is appended to `written`. None, too, for an array of another class."""
    if not isinstance(array, Moving):
        return None
    there = (<Moving>array).acquire_at_once(
        device, stream, handle, mode == "rw", mode != "none", ways
    )
    if mode == "rw" and there is not None:
        written.append(array)
    return there


def release(list written, device, stream, handle, list dones):
    """`release_all`, for Python; what is to be called is appended to `dones`."""
    if written:
        dones += release_all(written[0], written[1:], device, stream, handle) or ()


make_members(RangesBase, RangesBase(), (b"runs",))
make_members(Records, Records(), (b"records", b"pending"))
make_members(
    Borrow, Borrow.__new__(Borrow), (b"part", b"call_site", b"why", b"stale")
)
make_members(ReplicaBase, ReplicaBase(), (b"valid", b"acquired", b"arrays", b"call_site"))
make_members(DeviceReplicaBase, DeviceReplicaBase(), (b"block", b"writers", b"writing"))
make_members(
    StateBase,
    StateBase(),
    (b"account", b"borrows", b"defined", b"evicted", b"exports", b"handed_out", b"host",
     b"host_writers", b"host_writing", b"last_written", b"lock", b"lost", b"on_host", b"replicas",
     b"shared", b"uploads", b"whole"),
)
make_members(
    Moving,
    Moving(),
    (b"coherence", b"_dtype", b"_given", b"_key", b"_launch_kind", b"_layout", b"_offset", b"_part",
     b"_shape", b"_skew", b"_strides", b"_typed"),
)
