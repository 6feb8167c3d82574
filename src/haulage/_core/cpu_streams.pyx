# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Launches on the CPU device that their caller runs at once, as nothing is before them.

`haulage.backends.cpu_driver.streams` has the rules of the order. Here is what of them a launch
meets where its stream is idle: it takes the stream's own task, runs the grid, and gives the task
back. Everything else is `Streams.submit`. Python looks for signals at no step here but while the
grid runs and while the lock is waited for.
"""

from cpython.dict cimport PyDict_DelItem, PyDict_GetItemWithError
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t, uintptr_t

from haulage._core.fields cimport make_members
from haulage._core.pool cimport Workers, haulage_entry


cdef extern from *:
    """
    #include <time.h>
    static int64_t haulage_ns(void)
    {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    }
    """
    int64_t haulage_ns() noexcept
    unsigned long PyThread_get_thread_ident() noexcept


# ---- what launches take ------------------------------------------------------------------------

# Nanoseconds that are less than to hand over a launch and to be told its end: some 50 microseconds,
# as two threads are woken.
SHORT = 40_000
cdef double _SHORT = SHORT

cdef dict _costs = {}


cdef class Cost:
    """What a block of a kernel took the last time, for the choice who runs its launches."""

    def __cinit__(self):
        self._of_block = -1

    cdef bint is_short_of(self, double blocks) noexcept:
        return 0 <= self._of_block * blocks < _SHORT

    def is_short(self, double blocks):
        """Whether so many blocks take less than to hand them over; not if nobody knows."""
        return self.is_short_of(blocks)

    def note(self, double blocks, double ns):
        """Say how many nanoseconds so many blocks took."""
        self._of_block = ns / blocks


def cost_of(function):
    """The `Cost` of a kernel by its function: the same one each time."""
    found = _costs.get(function)
    if found is None:
        found = _costs.setdefault(function, Cost())
    return found


# ---- streams -----------------------------------------------------------------------------------


cdef class TaskBase:
    """What of a task launches touch; `haulage.backends.cpu_driver.tasks` tells what it is."""


cdef class StreamBase:
    """What of a stream launches touch."""


cdef type _stream_type = StreamBase


def know(stream_type):
    """Tell which class the streams have that take work, rather than record it."""
    global _stream_type
    _stream_type = stream_type


cdef inline bint _is_done(object task) except -1:
    return task is None or (<TaskBase?>task).done is True


cdef class StreamsBase(Queues):
    """What of all streams launches touch.

    `_held` is what an adversary holds back, `_busy` the streams whose work is not done, `_waiting`
    how many wait for a task's end, `_ended` tasks whose followers are not started, `_failed` the
    first failure of each stream.
    """

    cdef bint are_idle(self) except -1:
        return not self._busy and not self._failed and _is_done((<StreamBase>self._default).tail)

    cdef bint is_idle(self, unsigned long long stream) except -1:
        cdef PyObject *found
        if self._failed:
            return False
        found = PyDict_GetItemWithError(self._streams, stream)
        return (
            found != NULL
            and type(<object>found) is _stream_type
            and _is_done((<StreamBase>found).tail)
        )

    cdef TaskBase _take_own(self, unsigned long long handle, Cost cost, double blocks):
        """The own task of a stream, which is now its last one and not done; None if something is
        before it, or others should run the launch."""
        cdef StreamBase stream = self._default, default = self._default
        cdef TaskBase own = None
        cdef PyObject *found
        if handle:
            found = PyDict_GetItemWithError(self._streams, handle)
            if (
                found == NULL
                or type(<object>found) is not _stream_type
                or not cost.is_short_of(blocks)
            ):
                return None
            stream = <StreamBase>found
        lock = self.lock
        lock.acquire()
        try:
            if self._held is None and _is_done(default.tail):
                if stream is default:
                    if not self._busy:
                        own = <TaskBase?>stream.own
                elif _is_done(stream.tail) and not self.closed:
                    own = <TaskBase?>stream.own
                    self._busy[stream] = None
                if own is not None:
                    stream.tail = own
                    own.done = False
        finally:
            lock.release()
        return own

    cdef int _end_own(self, TaskBase task) except -1:
        cdef StreamBase stream = task.stream
        lock = self.lock
        lock.acquire()
        try:
            if not (task.followers or self._waiting or self._ended):
                task.done = True
                if stream is not self._default and stream.tail is task and stream in self._busy:
                    PyDict_DelItem(self._busy, stream)
                return 0
            stream.renew_own()
        finally:
            lock.release()
        self.end_and_wake(task)
        return 0


cdef class GridStart(Start):
    """Starts launches of one kernel and one configuration on the CPU.

    `perform(function, launch)` runs one that was handed over; `failed(function, fault)` makes the
    error of one that failed here.
    """

    def __init__(
        self,
        StreamsBase streams not None,
        Workers workers not None,
        function,
        double blocks,
        perform,
        failed,
    ):
        self._streams, self._workers = streams, workers
        self._function, self._perform, self._failed = function, perform, failed
        self._entry = <haulage_entry><uintptr_t>function
        self._by_all = function in workers.waiting
        self._blocks = blocks
        self._cost = cost_of(function)

    cdef int start(self, unsigned long long stream, bytes launch) except -1:
        cdef StreamsBase streams = self._streams
        cdef TaskBase own = streams._take_own(stream, self._cost, self._blocks)
        cdef int64_t fault, begun
        if own is None:
            streams.submit(stream, self._perform, self._function, launch)
            return 0
        try:
            own.thread = PyThread_get_thread_ident()
            begun = haulage_ns() if stream else 0
            fault = self._workers._run(self._entry, <const char *>launch, self._by_all)
            if fault:
                streams.keep(own.stream, self._failed(self._function, fault))
            if stream:
                self._cost._of_block = (haulage_ns() - begun) / self._blocks
            streams._end_own(own)
        except BaseException:
            streams.drop_followers(own)
            streams._end_own(own)
            raise
        return 0


make_members(TaskBase, TaskBase(), (b"done", b"followers", b"stream", b"thread"))
make_members(StreamBase, StreamBase(), (b"own", b"tail"))
make_members(
    StreamsBase, StreamsBase(), (b"lock", b"closed", b"_default", b"_held", b"_waiting")
)
