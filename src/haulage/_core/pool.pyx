"""The native worker threads as Python has them: pool_native.h tells what each function does."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

import threading


cdef extern from "pool_native.h" nogil:
    const int HAULAGE_LEFT, HAULAGE_COPY_BYTES, HAULAGE_MESSAGE_BYTES
    const int64_t HAULAGE_CRASH
    const uint64_t HAULAGE_UNKNOWN
    const int HAULAGE_RESUME, HAULAGE_DROP, HAULAGE_GO_ON
    const int HAULAGE_MODE_AT, HAULAGE_WAITS, HAULAGE_GAVE_WAY
    const bint haulage_has_guard

    ctypedef struct haulage_grid:
        haulage_entry entry
        const void *launch
        int64_t by_all

    ctypedef struct haulage_progress:
        int64_t next
        int64_t fault

    ctypedef struct haulage_crash_report:
        int64_t signal
        uint64_t address, first, last, low, nbytes
        uint32_t[4] grid

    void haulage_prepare(uint64_t)
    int haulage_start(int)
    int64_t haulage_run(haulage_entry, const void *, haulage_slot *, bint)
    int64_t haulage_run_blocks(haulage_entry, const void *, uint64_t, uint64_t, haulage_slot *)
    int64_t haulage_resume(haulage_slot *)
    void haulage_run_each(const haulage_grid *, int64_t, haulage_progress *, haulage_slot *)
    int64_t haulage_phases(haulage_entry, void *, haulage_slot *, const uint32_t *, uint64_t, bint)
    int64_t haulage_cancel(haulage_slot *, bint)
    int64_t haulage_copy(const void *, uint64_t, uint64_t) noexcept
    int64_t haulage_copy_past_caches(const void *, uint64_t, uint64_t) noexcept
    int haulage_guard(bint)
    bint haulage_crash(int64_t, haulage_crash_report *)
    bint haulage_name(haulage_entry, const char *, uint64_t)
    void haulage_watch(uint64_t, int (*)() noexcept nogil)
    bint haulage_stop(uint64_t)
    void *haulage_alloc(uint64_t, uint64_t, bint)
    void haulage_free(void *)
    void haulage_busy(int64_t)
    void haulage_message(int, const void *, uint32_t)
    uint64_t haulage_take_messages(bint, void *, uint32_t *)
    void haulage_renew_messages()


CRASH, UNKNOWN = HAULAGE_CRASH, HAULAGE_UNKNOWN
COPY_BYTES, MESSAGE_BYTES = HAULAGE_COPY_BYTES, HAULAGE_MESSAGE_BYTES
RESUME, DROP, GO_ON = HAULAGE_RESUME, HAULAGE_DROP, HAULAGE_GO_ON
MODE_AT, WAITS, GAVE_WAY = HAULAGE_MODE_AT, HAULAGE_WAITS, HAULAGE_GAVE_WAY

# Whether crashes of kernels are caught on this system, and blocks stopped that run.
HAS_GUARD = bool(haulage_has_guard)

# What kernels' code calls, by name.
FOR_KERNELS = {
    "haulage_alloc": <uintptr_t>&haulage_alloc,
    "haulage_free": <uintptr_t>&haulage_free,
    "haulage_busy": <uintptr_t>&haulage_busy,
    "haulage_message": <uintptr_t>&haulage_message,
}


# What a handler of Python's signals raised while the main thread ran a kernel.
cdef object _raised = None


cdef int _run_handlers() noexcept with gil:
    global _raised
    try:
        PyErr_CheckSignals()
    except BaseException as error:
        _raised = error
        return True
    return False


cdef class Grids:
    """Grids that are run one after another: (entry, launch) of each, as for `Workers.run`.

    `waiting` has the entries of which one block may wait for another.
    """

    cdef readonly list entries
    cdef list launches  # kept, as the rows have their addresses
    cdef haulage_grid *rows

    def __cinit__(self, grids, waiting):
        cdef bytes launch
        self.entries = [entry for entry, _ in grids]
        self.launches = [launch for _, launch in grids]
        self.rows = <haulage_grid *>calloc(max(1, len(self.entries)), sizeof(haulage_grid))
        if self.rows is NULL:
            raise MemoryError
        for number, entry in enumerate(self.entries):
            launch = self.launches[number]
            self.rows[number].entry = <haulage_entry><uintptr_t>entry
            self.rows[number].launch = <const char *>launch
            self.rows[number].by_all = entry in waiting

    def __dealloc__(self):
        free(self.rows)


cdef struct copy_launch:  # as pool_native.h says
    uint32_t[8] grid
    uintptr_t to
    uintptr_t source
    uint64_t nbytes


cdef class Workers:
    """The worker threads of this process, and grids that are run on them.

    Attributes:
        waiting: entries of kernels of which one block may wait for another.
        closing: no more grids are begun, and those that run stop at the next chance.
    """

    def __cinit__(self):
        self.waiting = set()
        self.renew()

    def renew(self):
        """After a fork, in the child: the workers are gone and start anew at the next launch."""
        self.started = self.prepared = False
        self.workers = 0

    def start(self):
        """Start the workers; the first run asks for it."""
        raise NotImplementedError

    def interrupted(self):
        """The exception for a run that another thread has stopped."""
        raise NotImplementedError

    def start_workers(self, int wanted, uint64_t chunks):
        """Start the workers that are missing, for grids that are cut into so many chunks. Whether
        all are there; `workers` says how many are."""
        if not self.prepared:
            self.prepared = True
            haulage_prepare(chunks)
        self.workers += haulage_start(max(0, wanted - self.workers))
        haulage_watch(threading.main_thread().ident or 0, _run_handlers)
        self.started = self.workers >= wanted
        return self.started

    def run(self, entry, bytes launch):
        """Run all blocks of a grid; returns 0 or the first fault.

        `entry` is the address of `i64 entry(ptr launch, i64 first, i64 last)`. The calling thread
        takes part. When an exception (Ctrl-C) comes, the blocks that have not begun are dropped,
        and those that run are stopped: none does any more when it leaves this call.

        Raises:
            Interrupted: another thread has called `stop` for this one.
        """
        return self._run(<haulage_entry><uintptr_t>entry, <const char *>launch,
                         entry in self.waiting)

    cdef int64_t _run(self, haulage_entry entry, const void *launch, bint by_all) except? -2:
        cdef haulage_slot slot
        cdef int64_t fault
        if not self.started:
            self.start()
        slot.job, slot.left = NULL, 0
        with nogil:
            fault = haulage_run(entry, launch, &slot, by_all)
        if fault == HAULAGE_LEFT:
            fault = self._go_on(&slot)
        return fault

    def run_blocks(self, entry, bytes launch, uint64_t first, uint64_t end):
        """Run the blocks [first, end) of a grid, of which there is one at least; as `run` does."""
        cdef haulage_slot slot
        cdef haulage_entry code = <haulage_entry><uintptr_t>entry
        cdef const char *given = launch
        cdef int64_t fault
        if not self.started:
            self.start()
        slot.job, slot.left = NULL, 0
        with nogil:
            fault = haulage_run_blocks(code, given, first, end, &slot)
        if fault == HAULAGE_LEFT:
            fault = self._go_on(&slot)
        return fault

    cdef int64_t _go_on(self, haulage_slot *slot) except? -2:
        """Go on with what a call has left, to its end; that of the process drops it."""
        cdef int64_t fault = HAULAGE_LEFT
        try:
            while fault == HAULAGE_LEFT:
                if slot.left:
                    self._raise_left()
                if self.closing:
                    with nogil:
                        haulage_cancel(slot, False)
                    return 0
                PyErr_CheckSignals()
                with nogil:
                    fault = haulage_resume(slot)
        except BaseException:
            if slot.job is not NULL:
                with nogil:
                    haulage_cancel(slot, True)
            # A second Ctrl-C that came meanwhile is raised here, and not where the caller undoes
            # what it has begun.
            PyErr_CheckSignals()
            raise
        return fault

    cdef int _raise_left(self) except -1:
        """Raise what stopped the calling thread's kernel."""
        global _raised
        error = None
        if threading.get_ident() == threading.main_thread().ident:
            error, _raised = _raised, None
        raise self.interrupted() if error is None else error

    def run_each(self, Grids grids not None, failed, ends):
        """Run several grids; `failed(entry, fault)` is called for each that fails.

        What has not begun is dropped once `ends()`, which is asked now and then, is true, and when
        an exception comes, as by `run`.
        """
        cdef haulage_slot slot
        cdef haulage_progress progress
        cdef int64_t count = len(grids.entries), fault
        if not self.started:
            self.start()
        progress.next = progress.fault = 0
        while progress.next < count and not ends():
            slot.job, slot.left = NULL, 0
            with nogil:
                haulage_run_each(grids.rows, count, &progress, &slot)
            fault = progress.fault
            if fault == HAULAGE_LEFT:
                fault = self._go_on(&slot)
                if self.closing:
                    break
            if fault:
                failed(grids.entries[progress.next - 1], fault)

    def run_phases(self, entry, uintptr_t launch, uintptr_t outcomes, uint64_t blocks):
        """Run a grid whose `blocks` wait for one another until not all wait, or for a while.

        `entry` is as for `run`, `launch` and `outcomes` are addresses of what
        `compiler/simt/coroutines/cooperative_grid.py` says. Returns 0 or the first fault.
        """
        cdef haulage_slot slot
        cdef haulage_entry code = <haulage_entry><uintptr_t>entry
        cdef bint by_all = entry in self.waiting
        cdef int64_t fault
        if not self.started:
            self.start()
        slot.job, slot.left = NULL, 0
        with nogil:
            fault = haulage_phases(code, <void *>launch, &slot, <const uint32_t *>outcomes, blocks,
                                   by_all)
        if fault == HAULAGE_LEFT:
            fault = self._go_on(&slot)
        return fault

    def run_copy(self, uintptr_t to, uintptr_t source, uint64_t nbytes, bint past_caches):
        """Copy bytes that do not overlap on all threads; returns 0 or the first fault."""
        cdef copy_launch launch
        memset(&launch, 0, sizeof(launch))
        launch.grid[0] = <uint32_t>((nbytes + HAULAGE_COPY_BYTES - 1) // HAULAGE_COPY_BYTES)
        launch.grid[1] = launch.grid[2] = 1
        launch.to, launch.source, launch.nbytes = to, source, nbytes
        return self._run(haulage_copy_past_caches if past_caches else haulage_copy, &launch, False)

    def stop(self, uint64_t thread):
        """Stop what the thread with this `ident` runs, and nothing that it begins later; the call
        there raises `Interrupted`."""
        if self.started:
            with nogil:
                haulage_stop(thread)


def look_out(bint in_front):
    """Catch crashes of kernels from now on, where this can be done.

    `in_front`: also before a handler that was installed since the last call.
    """
    haulage_guard(in_front)


def note_name(entry, bytes text):
    """Note how the user calls the kernel whose entry that is."""
    if not haulage_name(<haulage_entry><uintptr_t>entry, <const char *>text, len(text)):
        raise MemoryError


def crash(int64_t number):
    """What is known of a crash: whether it is SIGBUS is the caller's to say. None if it is
    forgotten."""
    cdef haulage_crash_report report
    if not haulage_crash(number, &report):
        return None
    x, y, z, _ = report.grid
    return (report.signal, report.address, report.first, report.last, report.low, report.nbytes,
            (x, y, z))


def take_messages(bint negative, uintptr_t into):
    """Move the messages of a sign to memory of MESSAGE_BYTES; how many bytes, and how many messages
    more found no room."""
    cdef uint32_t dropped = 0
    used = haulage_take_messages(negative, <void *>into, &dropped)
    return used, dropped


def renew_messages():
    """After a fork, in the child: what was said before is the parent's to tell."""
    haulage_renew_messages()
