# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Memory of all kinds that is given and taken back where nothing is out of the ordinary.

What each allocation touches lives here: counters, the pool of a stream, the block.
`_new_block` is the whole path; `BlockBase.give_back_at_once` is the way back. Where anything
is out of the ordinary (the pool has nothing that fits, another thread changes the heap, somebody
observes, a limit or a provider is set) they change nothing and say so, and Python decides.

No step of Python's runs between the look at free memory and the block that has it, so neither a
thread, nor a signal's handler, nor Ctrl-C comes in between: nothing is lost or given out twice.
On the way back Python can only be asked whether the default stream is idle, before anything else.
In Python 3.11 a new container can begin a pass of the cycle collector, whose finalisers are
Python's, so none is made there either.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.contextvars cimport get_value
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject

import os

from haulage._core.fields cimport make_members
from haulage._core.objects cimport haulage_made


cdef extern from *:
    """
    #include <frameobject.h>
    #include <time.h>

    #if PY_VERSION_HEX >= 0x030d0000
    #define haulage_is_ending Py_IsFinalizing
    #else
    #define haulage_is_ending _Py_IsFinalizing
    #endif

    /* The clock of `time.monotonic`; on Linux as it was at the last tick, some milliseconds ago at
       most, which takes a fifth of the time. */
    #if defined(CLOCK_MONOTONIC_COARSE)
    #define HAULAGE_CLOCK CLOCK_MONOTONIC_COARSE
    #elif defined(CLOCK_UPTIME_RAW)
    #define HAULAGE_CLOCK CLOCK_UPTIME_RAW
    #else
    #define HAULAGE_CLOCK CLOCK_MONOTONIC
    #endif
    static double haulage_now(void)
    {
        struct timespec now;
        clock_gettime(HAULAGE_CLOCK, &now);
        return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    }

    /* References that the caller owns; of the frame of Python that is innermost in this thread, if
       there is one, and of what called it. */
    static PyObject *haulage_innermost(void)
    {
        PyObject *frame = (PyObject *)PyThreadState_GetFrame(PyThreadState_Get());
        if (frame == NULL) { Py_INCREF(Py_None); return Py_None; }
        return frame;
    }
    static PyObject *haulage_code(PyObject *frame)
    {
        return (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
    }
    static PyObject *haulage_caller(PyObject *frame)
    {
        PyObject *caller = (PyObject *)PyFrame_GetBack((PyFrameObject *)frame);
        if (caller == NULL) { Py_INCREF(Py_None); return Py_None; }
        return caller;
    }
    static int haulage_lasti(PyObject *frame)
    {
        return PyFrame_GetLasti((PyFrameObject *)frame);
    }
    """
    bint haulage_is_ending() noexcept
    double haulage_now() noexcept
    object haulage_innermost()
    object haulage_code(object frame)
    object haulage_caller(object frame)
    int haulage_lasti(object frame) noexcept
    Py_ssize_t Py_REFCNT(PyObject *thing) noexcept
    PyObject *Py_True


# ---- sizes --------------------------------------------------------------------------------------

# Size classes of small blocks: 8 to a doubling, all multiples of 256 bytes, up to 64 KiB. So a
# block takes at most an eighth more than was asked for, but for the smallest, where the alignment
# of 256 bytes, which drivers promise for their allocations, takes more.
cdef enum:
    _ALIGNMENT = 256
    _SHIFT = 8
    _LARGEST = 64 << 10
    # Larger blocks are multiples of it: whole pages, so that other processes can share them.
    _QUANTUM = 4096
    # So many large blocks that are of no parked one's size come from elsewhere before somebody looks
    # whether what is parked can be everybody's: it may be part of better pieces.
    _PATIENCE = 4
    # So many large blocks are taken before it looks what of that which waits for streams is done.
    _TURNS = 8

ALIGNMENT = _ALIGNMENT
LARGEST = _LARGEST
QUANTUM = _QUANTUM

cdef short _classes[_LARGEST >> _SHIFT]


cdef int _fill_classes() noexcept:
    cdef int whole, shift, last
    for whole in range(_LARGEST >> _SHIFT):
        last = (whole << _SHIFT) + _ALIGNMENT - 1
        shift = _SHIFT
        while last >> shift >= 16:
            shift += 1
        _classes[whole] = <short>(((shift - _SHIFT) << 3) + (last >> shift))


_fill_classes()


cdef inline int _class_of(long long nbytes) noexcept:
    return _classes[(nbytes - 1) >> _SHIFT] if nbytes > 0 else 0


def class_of(long long nbytes):
    """The number of the smallest class that holds `nbytes`, at most `LARGEST`."""
    if nbytes > _LARGEST:
        raise ValueError(f"class_of({nbytes}): expected {_LARGEST} bytes at most")
    return _class_of(nbytes)


cdef inline long long _rounded(long long nbytes) noexcept:
    return (nbytes + _QUANTUM - 1) & ~<long long>(_QUANTUM - 1)


# ---- counters -----------------------------------------------------------------------------------


cdef class Counter:
    """Bytes in use, most bytes since the last `reset_peak`, and blocks given out so far."""

    def reset_peak(self):
        """Let the peak be what is in use now."""
        self.peak = self.in_use


cdef inline void _more(Counter counter, long long nbytes) noexcept:
    counter.allocations += 1
    counter.in_use += nbytes
    if counter.in_use > counter.peak:
        counter.peak = counter.in_use


# ---- heaps and pools ----------------------------------------------------------------------------


cdef class Allocation:
    """Memory that was handed out: a block, or what gives the memory of one back.

    Attributes:
        device_ptr: its address on the device; 0: not addressable there, or no bytes.
        nbytes: as many as were asked for.
        returned: whether it has no memory, not yet or not any more.
    """

    def __cinit__(self):
        self.device_ptr = 0
        self.returned = True


cdef class HeapBase:
    """What `haulage.runtime.memory.heap.Heap` shares with its pools.

    Attributes:
        device, kind, flags: what it has memory of.
        free_extents: what no block has and no pool keeps for its stream.
        counter: of its blocks.
        pools: by the stream's handle; `of_default` is that of the default stream, or, of memory that
            the host writes to, its only one.
        changing: somebody who holds its lock is about to change it, or was torn out of that.
        decay: looks after what is not used; None: nobody has to.
        lowest: the least bytes that `free_extents` had, since `decay` last looked.
        spare: free bytes that stay; more go back to the device.
        unwatched: free bytes for which `decay` need not run.
        on_host: the host has the same addresses as the device; False: it has none; None: they are
            to be asked for one by one.
        is_default_idle: `is_default_idle()` is whether the driver says at once that the work of the
            default stream is done; None: that takes more.
    """

    def __init__(self, device, kind, flags, free_extents, host_address):
        self.device = device
        self.kind = kind
        self.flags = flags
        self.free_extents = free_extents
        self.counter = Counter()
        self.pools = {}
        self._host_address = host_address


cdef class Pool:
    """What the blocks of one stream come from and go back to.

    `stream` is the stream's handle; None for memory that the host writes to: its blocks come back
    once no stream uses them, and serve any.

    Attributes:
        counter: of its blocks; those of the heap, of the device and of all count them too.
        free: lists of addresses of free small blocks, by class.
        parked: large blocks that work of the stream may still use.
        misses: how many blocks were taken that were of no parked one's size, since `Heap.provide`
            looked whether what is parked can be everybody's.
        held: bytes of slabs and large blocks, be they free or not.
        direct: bytes of blocks that came from the driver one by one.
    """

    def __init__(self, HeapBase heap, stream, int classes, Counter of_device, Counter of_all):
        self.heap = heap
        self.stream = stream
        self.counter = Counter()
        self._of_device = of_device
        self._of_all = of_all
        self.free = [[] for _ in range(classes)]
        self.parked = Extents(heap.free_extents.walls)

    @property
    def counters(self):
        """All that count its blocks."""
        return self.counter, self.heap.counter, self._of_device, self._of_all

    @property
    def reserved(self):
        """Bytes held of the device for the stream."""
        return self.held + self.parked.nbytes + self.direct

    def is_idle(self):
        """Whether no work can use its free blocks: in its stream, or in the default one, whose use
        of a block is not noted."""
        if self.stream is None:
            return True
        device = self.heap.device
        if device.capturing:
            return False  # drivers must not be asked for streams that are recorded
        device.activate()
        is_done = device.backend.stream_query
        return is_done(self.stream) and (not self.stream or is_done(0))

    def take(self, Allocation block, bint counted=True):
        """Let `block` have free memory of its size, and count it; False: there is none.

        Of large blocks only who holds the heap's lock may ask. Others count what is not `counted`.
        """
        return self._take(block, counted, False) != 0

    def take_if_free(self, Allocation block):
        """`take_at_once`, for Python."""
        return self.take_at_once(block) != 0

    def give(self, Allocation block, bint to_all, bint counted=True):
        """Put the memory of `block` to what is free, and count it no more; False: it was done.

        Of large blocks only who holds the heap's lock may do so. `to_all`: other streams may have
        it at once.
        """
        cdef long long room
        if block.returned:
            return False
        if block.nbytes <= _LARGEST:
            (<list>self.free[_class_of(block.nbytes)]).append(block.device_ptr)
        else:
            room = _rounded(block.nbytes)
            (self.heap.free_extents if to_all else self.parked).put(block.device_ptr, room)
            self.held -= room
        if counted:
            self._count_out(block)
        block.returned = True
        return True

    def begin(self, Allocation block, address):
        """Let `block` have memory that is not the pool's own, and count it."""
        block.device_ptr = address
        self._count_in(block)

    def end(self, Allocation block):
        """Count what `begin` counted no more; False: it was done."""
        if block.returned:
            return False
        self._count_out(block)
        return True

    cdef int take_at_once(self, Allocation block) except -1:
        """`take`, for everybody; 0: there is none, or it cannot be had now."""
        if block.nbytes > _LARGEST and self.heap.changing:
            return 0
        return self._take(block, True, True)

    cdef int give_at_once(self, Allocation block) except -1:
        """`give`, for everybody, to the stream's later work: 1, or 0 if it was done; 2: not now, as
        another thread changes the heap, or more is free then than may stay so."""
        cdef HeapBase heap = self.heap
        cdef long long room, idle
        if block.returned:
            return 0
        if block.nbytes <= _LARGEST:
            (<list>self.free[_class_of(block.nbytes)]).append(block.device_ptr)
        else:
            if heap.changing:
                return 2
            room = _rounded(block.nbytes)
            idle = heap.free_extents.nbytes + self.parked.nbytes + room
            if idle > heap.spare or (idle > heap.unwatched and not _now.decay_runs):
                return 2
            # Where it is of no stream, nothing uses it any more.
            (heap.free_extents if self.stream is None else self.parked).put(block.device_ptr, room)
            self.held -= room
        self._count_out(block)
        return 1

    cdef int _take(self, Allocation block, bint counted, bint at_once) except -1:
        cdef HeapBase heap = self.heap
        cdef long long room, address
        cdef list cells
        if block.nbytes <= _LARGEST:
            cells = <list>self.free[_class_of(block.nbytes)]
            if not cells:
                return 0
            block.device_ptr = cells.pop()
        else:
            room = _rounded(block.nbytes)
            address = self.parked.get(room, at_once)
            if address < 0 and at_once and self.parked.nbytes:
                self.misses += 1
                if self.misses > _PATIENCE:
                    return 0
            if address < 0:
                address = heap.free_extents.get(room, False)
                if address < 0:
                    return 0
                if heap.free_extents.nbytes < heap.lowest:
                    heap.lowest = heap.free_extents.nbytes
            block.device_ptr = address
            self.held += room
        block.returned = False
        if counted:
            self._count_in(block)
        return 1

    cdef void _count_in(self, Allocation block) noexcept:
        cdef long long nbytes = block.nbytes
        block.returned = False
        _more(self.counter, nbytes)
        _more(self.heap.counter, nbytes)
        _more(self._of_device, nbytes)
        _more(self._of_all, nbytes)

    cdef void _count_out(self, Allocation block) noexcept:
        cdef long long nbytes = block.nbytes
        block.returned = True
        self.counter.in_use -= nbytes
        self.heap.counter.in_use -= nbytes
        self._of_device.in_use -= nbytes
        self._of_all.in_use -= nbytes


# ---- what is out of the ordinary ----------------------------------------------------------------


cdef class DeviceBase:
    """What of a device allocations, launches and waits ask for.

    `default_stream`; `heaps` by (kind, flags), and `heap`, that of device memory; `capturing`, its
    streams that are captured; `queues`, where its streams can be asked without a call of the
    driver's.
    """

    def __cinit__(self):
        self.heaps = {}


cdef class RuntimeBase:
    """What of a `Runtime` allocations, launches and waits ask for."""


cdef class Conditions:
    """What the ordinary path looks at besides what it is given; the modules that it is of set it.

    Attributes:
        runtime: the `Runtime` that is used.
        current_device: which device is meant, where that takes more than a look.
        pools_memory: what `HAULAGE_MEMORY` says.
        environment: what `os.environ` keeps its variables in.
        provider: who gives memory in place of Haulage, or None.
        limited: some device has a limit of bytes in use.
        deferring: how many `defer_cleanup` hold.
        aside, aside_handles: what collector passes have put aside.
        collecting: the thread that is in a collector's pass; 0: none.
        bystanders: threads that give nothing back themselves.
        waiting: what waits for streams, by `pending`.
        turns: how many large blocks were taken since `pending.reap_some` looked at that.
        decay_runs: whether a thread gives memory back that is long unused; else who frees much has to
            start it.
        frames_kept: how many frames are kept of who asked for memory.
        own_files: whether a file is Haulage's own, by its name.
        block_type, stream_type: `Block` and `Stream`.
    """

    cdef public RuntimeBase runtime
    cdef public object current_device, pools_memory, provider, aside, aside_handles, waiting
    cdef public object outer_frames, block_type, stream_type
    cdef public object own_files
    cdef public set bystanders
    cdef public unsigned long long collecting
    cdef public dict environment
    cdef public bint decay_runs, limited
    cdef public int deferring, frames_kept, turns
    cdef object _device_key, _memory_key, _device_raw, _named, _memory_raw
    cdef bint _pools

    def __init__(self):
        environ = os.environ
        self.environment = getattr(environ, "_data", environ)
        encoded = getattr(environ, "encodekey", str)
        self._device_key = encoded("HAULAGE_DEVICE")
        self._memory_key = encoded("HAULAGE_MEMORY")
        self.frames_kept = 1
        self.bystanders = set()


cdef Conditions _now = Conditions()
conditions = _now


cdef bint _is_pooling() except -1:
    """Whether memory is kept for the next arrays; else the driver is asked for each."""
    cdef PyObject *raw = PyDict_GetItemWithError(_now.environment, _now._memory_key)
    if raw == NULL:
        return True
    if raw != <PyObject *>_now._memory_raw:
        _now._pools = _now.pools_memory()
        _now._memory_raw = <object>raw
    return _now._pools


cdef bint _is_ordinary(bint is_large) except -1:
    """Whether nobody but the pool has a say in who gets memory, and when."""
    cdef RuntimeBase runtime = _now.runtime
    if (
        _now.provider is not None
        or _now.limited
        or runtime.observer is not None
        or runtime.adversary_seed is not None
    ):
        return False
    if not _now.deferring and (_now.aside or _now.aside_handles):
        return False  # that goes back first
    if is_large and _now.waiting.waiting:
        _now.turns += 1
        if _now.turns >= _TURNS:
            return False
    return _is_pooling()


cdef object block_type():
    """`Block`."""
    return _now.block_type


cdef RuntimeBase current_runtime():
    """The `Runtime` that is used."""
    return _now.runtime


cdef bint is_pending() except -1:
    """Whether something waits for streams to be given back."""
    return bool(_now.waiting.waiting)


cdef bint _is_default_idle(HeapBase heap) except -1:
    """Whether the work of the default stream is done, as far as that can be told now."""
    cdef DeviceBase device = heap.device
    if device.capturing:
        return False
    if device.queues is not None:
        return device.queues.is_idle(0)
    # A collector's pass may be in the midst of a driver's call.
    if heap.is_default_idle is None or _now.collecting or _now.bystanders:
        return False
    return heap.is_default_idle()


cdef object current_device():
    """The device that is meant where none is named; see `runtime.devices.registry`."""
    cdef RuntimeBase runtime = _now.runtime
    cdef PyObject *raw
    cdef tuple named
    found = get_value(runtime.entered)
    if found is not None:
        return found
    found = get_value(runtime.selected)
    if found is not None and (<tuple>found)[1] is runtime.choice:
        return (<tuple>found)[0]
    if runtime.chosen is not None:
        return runtime.chosen
    raw = PyDict_GetItemWithError(_now.environment, _now._device_key)
    if raw == NULL:
        return _now.current_device() if runtime.best is None else runtime.best
    if raw == <PyObject *>_now._device_raw and runtime.named is _now._named is not None:
        named = runtime.named
        if runtime.found.get(named[2].kind) is named[1]:
            return named[2]
    found = _now.current_device()
    _now._device_raw, _now._named = <object>raw, runtime.named
    return found


# ---- who asks -----------------------------------------------------------------------------------


# The code of the program that asked last, that of Haulage's by which it did, and its call site.
cdef object _asked_last = None, _asked_by = None
cdef tuple _asked_at = ((None, -1),)


cdef object _frame_of_program():
    """The innermost frame that is not Haulage's own; if all are, the outermost; None: there is none."""
    global _asked_last, _asked_by
    cdef PyObject *own
    cdef object frame = haulage_innermost(), caller, code, file
    while frame is not None:
        code = haulage_code(frame)
        if code is _asked_last:
            return frame
        if code is not _asked_by:
            file = code.co_filename
            own = PyDict_GetItemWithError(_now.own_files, file)
            if not (_now.own_files[file] if own == NULL else own == Py_True):
                _asked_last = code
                return frame
            _asked_by = code
        caller = haulage_caller(frame)
        if caller is None:
            return frame
        frame = caller
    return None


cpdef object current_call_site():
    """The present place in the program, (code, offset of its instruction) of each frame that is
    kept: the innermost ones that are not Haulage's own. If all are, it is the outermost one."""
    global _asked_at
    cdef object code
    cdef int lasti
    cdef tuple last
    frame = _frame_of_program()
    if frame is None:
        return ()
    if _now.frames_kept == 1:
        code, lasti = haulage_code(frame), haulage_lasti(frame)
        last = <tuple>_asked_at[0]
        if last[0] is not code or <int>last[1] != lasti:
            _asked_at = ((code, lasti),)
        return _asked_at
    return tuple(_now.outer_frames(frame, _now.frames_kept))


# ---- memory that goes back ----------------------------------------------------------------------


cdef class DeallocationBase(Allocation):
    """What `haulage.runtime.memory.block.Deallocation` has in C: the beginning of each step.

    Ctrl-C comes where a function of Python begins, too, before any `try` of it; not here.
    """

    def begin(self, device, streams, home, action):
        """Call `action`, which is this object or its `withdraw`, when no work uses the memory.

        Where no stream but `home` has used it, that is now: work in `home` comes after what it was
        handed before. Else all of `streams` must be done with it, and, where there is no home, the
        default stream too.
        """
        try:
            self._begin(device, streams, home, action)
        except BaseException:
            # Such as Ctrl-C, or a driver that does not tell whether a stream is done.
            if not self.returned:
                _now.aside.append((self.begin, (device, streams, home, action)))
            raise

    def __call__(self):
        """Give the memory back."""
        if self.returned:
            return
        try:
            self._give()
        except BaseException:
            if not self.returned:
                _now.aside.append((self, ()))
            raise


# ---- blocks -------------------------------------------------------------------------------------

cdef long long _generation = 0
# The blocks that are not given back, by `_next`. These are no references of their own.
cdef PyObject *_newest = NULL


cdef class BlockBase(Allocation):
    """What `haulage.runtime.memory.block.Block`, where its attributes are described, has in C."""

    def __cinit__(self):
        global _generation
        _generation += 1
        self.generation = _generation
        self.host_ptr = 0
        self.closed = False
        self.closed_at = ()
        self.born = haulage_now()

    def __init__(
        self,
        device,
        device_ptr,
        host_ptr,
        long long nbytes,
        kind,
        release=None,
        Pool pool=None,
        home=None,
        bint used_before=False,
        bint has_memory=True,
        call_site=None,
    ):
        self.device = device
        self.device_ptr = device_ptr
        self.nbytes = nbytes
        self.kind = kind
        self.release = release
        self.pool = pool
        self.home = home
        self.used_before = used_before
        self._sites = current_call_site() if call_site is None else call_site
        if has_memory:
            self.returned = False
            self.begun(host_ptr)

    def begun(self, host_ptr):
        """Itself, which has its memory now; `host_ptr` is the host's address of that."""
        self.host_ptr = host_ptr
        self._enlist()
        observer = _now.runtime.observer
        if observer is not None:
            observer.allocated(self)
        return self

    @property
    def call_site(self):
        """Which line asked for it."""
        return ((self._code, self._lasti),) if self._sites is None else self._sites

    @call_site.setter
    def call_site(self, sites):
        self._sites = sites

    def __getbuffer__(self, Py_buffer *view, int flags):
        # Addresses of 0 are none that NumPy takes.
        cdef size_t address = self.host_ptr or (0 if self.nbytes else 1)
        if not address:
            raise BufferError(f"{self!r} cannot be addressed by the host")
        self.exposed = True
        PyBuffer_FillInfo(view, self, <void *>address, self.nbytes, False, flags)

    def _give_back(self):
        cdef int given = self.give_back_at_once()
        if given == 2:
            given = self._give_back_later()
            self._delist()
        if given and _now.runtime.observer is not None:
            _now.runtime.observer.freed(self)

    cdef int give_back_at_once(self) except -1:
        """Give the memory back to its stream's later work: 1, or 0 if it was done; 2: that takes
        more, and nothing is changed."""
        cdef Pool pool = self.pool
        cdef int given
        self.closed = True
        if (
            pool is None
            or self.release is not None
            or self.streams
            or self.exported
            or _now.deferring
            or (self.home is None and not _is_default_idle(pool.heap))
        ):
            return 2
        # Also in a collector's pass, as it takes neither a lock nor the driver.
        given = pool.give_at_once(self)
        if given != 2:
            self._delist()
        return given

    def __del__(self):
        if not self.returned and not haulage_is_ending():
            # Nothing of Python's is in this where it is a stream's memory.
            if (
                self.home is not None
                and _now.runtime.observer is None
                and self.give_back_at_once() != 2
            ):
                return
            try:
                self._give_back()
            except BaseException:
                # Such as Ctrl-C, which ends here: nobody else gives it back.
                self._give_back()
                raise

    def __dealloc__(self):
        self._delist()  # at the end of the process, or after two interrupts

    cdef void _enlist(self) noexcept:
        global _newest
        self._next = _newest
        if _newest != NULL:
            (<BlockBase>_newest)._previous = <PyObject *>self
        _newest = <PyObject *>self

    cdef void _delist(self) noexcept:
        global _newest
        if self._previous != NULL:
            (<BlockBase>self._previous)._next = self._next
        elif _newest == <PyObject *>self:
            _newest = self._next
        if self._next != NULL:
            (<BlockBase>self._next)._previous = self._previous
        self._previous = self._next = NULL


make_members(Allocation, Allocation(), (b"device_ptr",))
make_members(
    BlockBase,
    haulage_made(BlockBase),
    (b"closed", b"device", b"home", b"host_ptr", b"kind", b"release", b"streams"),
)
make_members(DeviceBase, DeviceBase(), (b"capturing", b"default_stream"))
make_members(
    RuntimeBase,
    RuntimeBase(),
    (b"chosen", b"choice", b"best", b"named", b"entered", b"selected", b"observer",
     b"adversary_seed", b"after_wait", b"apart", b"captures", b"printing", b"watchers"),
)


def live_blocks():
    """All blocks that are not given back, the oldest first."""
    cdef list found = []
    cdef PyObject *block = _newest
    while block != NULL:
        if Py_REFCNT(block) > 0:  # else its end is put off: many things end inside of each other
            found.append(<object>block)
        block = (<BlockBase>block)._next
    found.reverse()
    return [each for each in found if not (<BlockBase>each).returned]


# ---- the path -----------------------------------------------------------------------------------


cdef object _home_of(DeviceBase device, object stream):
    if type(stream) is _now.stream_type and stream.handle and stream.owned and stream._is_blocking:
        return stream
    return device.default_stream


cdef BlockBase allocate_at_once(DeviceBase device, long long nbytes, object stream):
    """A new block of device memory from the pool of `stream`, of another stream than the device's
    own ones or of none the default one's; None: nothing is changed, and it takes more than that."""
    cdef HeapBase heap = device.heap
    cdef Pool pool
    cdef object home
    if heap is None:
        return None
    home = _home_of(device, stream)
    pool = heap.of_default if home is device.default_stream else heap.pools.get(home.handle)
    return _new_block(heap, pool, home, nbytes)


cdef BlockBase allocate_for_host(DeviceBase device, long long nbytes, tuple kind):
    """The same of memory that the host writes to, of a (kind, flags)."""
    cdef HeapBase heap = device.heaps.get(kind)
    return None if heap is None else _new_block(heap, heap.of_default, None, nbytes)


cdef inline BlockBase _new_block(HeapBase heap, Pool pool, object home, long long nbytes):
    cdef BlockBase block
    cdef object frame
    if pool is None or nbytes <= 0:
        return None
    block = <BlockBase>haulage_made(_now.block_type)
    block.device = heap.device
    block.nbytes = nbytes
    block.kind = heap.kind
    block.pool = pool
    block.home = home
    block.used_before = True
    frame = _frame_of_program()
    if frame is None:
        return None  # Python's own way has one
    if _now.frames_kept != 1:
        block._sites = current_call_site()
    else:
        block._code, block._lasti = haulage_code(frame), haulage_lasti(frame)
    if not _is_ordinary(nbytes > _LARGEST):
        return None
    if not pool.take_at_once(block):
        return None
    block._enlist()
    if heap.on_host is True:
        block.host_ptr = block.device_ptr
    elif heap.on_host is None:
        block.host_ptr = heap._host_address(block.device_ptr)
    return block


def allocate(DeviceBase device, long long nbytes, stream, str kind not None, int flags):
    """A new block of memory of a kind; None: nothing is changed, and it takes more than that."""
    if kind == "device" and not flags:
        return allocate_at_once(device, nbytes, stream)
    return allocate_for_host(device, nbytes, (kind, flags))
