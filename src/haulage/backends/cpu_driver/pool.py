"""The native worker threads that run the blocks of kernels: one pool a process.

The workers are plain pthreads made by the pool's own code rather than Python threads: they never
touch the interpreter, so they need no thread state, can't delay its end, and take no signals but
the pool's own (all others are blocked in them), which keeps Ctrl-C with the main thread.
"""

import contextlib
import ctypes
import functools
import platform
import signal
import struct
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

from haulage.backends.cpu_driver import crashes, loader, processor
from haulage.backends.cpu_driver.interrupts import RUNNING
from haulage.backends.cpu_driver.pool_copy_ir import COPY_BYTES
from haulage.backends.cpu_driver.pool_ir import pool_ir
from haulage.backends.cpu_driver.pool_run_ir import LEFT
from haulage.errors import DeviceError, Interrupted

# A launch is cut into this many chunks, or into this many a thread if that is more.
CHUNKS, CHUNKS_PER_THREAD = 32, 4


# Copies of so many bytes have taken a thread alone as long as it takes to load LLVM, with which the
# code is made, and to start the workers.
START_AFTER = 1 << 30

# A launch of the code's `copy` or `stream`: the grid, and from byte 32 on what is copied.
_COPY = struct.Struct("=3I20xQQQ")


class _Slot(ctypes.Structure):
    """Where the pool's code notes a job that is not finished, whatever interrupts the caller, and
    whether the call was stopped: by an exception of a signal's handler, or by another thread."""

    _fields_ = (
        ("job", ctypes.c_void_p),
        ("left", ctypes.c_int64),
    )


def _raise_left(code: Any) -> None:
    """Raise what stopped the calling thread's kernel."""
    error = (ctypes.c_void_p * 3)()
    if ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(code["raised"])(error):
        restore = ctypes.pythonapi.PyErr_Restore
        restore.argtypes, restore.restype = [ctypes.c_void_p] * 3, None
        restore(*error)
    raise Interrupted(RUNNING)


def _functions_of_python() -> Any:
    """Addresses of what the pool's code needs to let Python call the handlers of signals."""
    names = ("PyGILState_Ensure", "PyErr_CheckSignals", "PyErr_Fetch", "PyGILState_Release")
    functions = [getattr(ctypes.pythonapi, name) for name in names]
    found = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
    return (ctypes.c_void_p * len(found))(*found)


class _State(ctypes.Structure):
    """How far the pool's code has come with several grids."""

    _fields_ = (("next", ctypes.c_int64), ("fault", ctypes.c_int64))


class Grids:
    """Grids that are run one after another: (entry, launch) of each, as for `Pool.run`.

    `waiting` has the entries of which one block may wait for another.
    """

    def __init__(self, grids: Sequence[tuple[int, bytes]], waiting: Container[int]) -> None:
        self.entries = [entry for entry, _ in grids]
        self._launches = [launch for _, launch in grids]  # kept, as the code has their addresses
        rows: list[int] = []
        for entry, launch in grids:
            address = ctypes.cast(ctypes.c_char_p(launch), ctypes.c_void_p).value
            rows += entry, address or 0, int(entry in waiting)
        self.rows = (ctypes.c_int64 * len(rows))(*rows)


class Pool:
    """Runs grids on all worker threads. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._code: Any = None
        self._prepared = False
        self._workers = 0
        self.closing = False
        # Entries of kernels of which one block may wait for another.
        self.waiting: set[int] = set()
        self._slots: list[_Slot] = []  # empty ones: to make one takes a tenth of a small run
        self._run: Any = self._run_first
        self._run_all: Any = self._run_first
        self._copy = self._stream = 0
        self._copied = 0  # bytes that `copy` was asked for while no workers ran
        self._phases: Any = None
        self._each: Any = None
        self._stop: Any = None

    def run(self, entry: int, launch: bytes) -> int:
        """Run all blocks of a grid; returns 0 or the first fault.

        `entry` is the address of `i64 entry(ptr launch, i64 first, i64 last)`. The calling thread
        takes part. When an exception (Ctrl-C) comes, the blocks that have not begun are dropped,
        and those that run are stopped: none does any more when it leaves this call.

        Raises:
            Interrupted: another thread has called `stop` for this one.
        """
        try:
            slot = self._slots.pop()
        except IndexError:
            slot = _Slot()
        try:
            run = self._run_all if entry in self.waiting else self._run
            fault: int = run(entry, launch, slot)
            if fault == LEFT:
                fault = self._go_on(slot)
            else:
                self._slots.append(slot)
        except BaseException:
            self._give_up(slot)
            raise
        return fault

    def _go_on(self, slot: _Slot) -> int:
        """Go on with what a call has left, to its end; that of the process drops it."""
        fault = LEFT
        while fault == LEFT and not (slot.left or self.closing):
            fault = self._resume(slot)
        if slot.left:
            _raise_left(self._code)
        if slot.job:
            self._cancel(slot, False)
            fault = 0
        return fault

    def _give_up(self, slot: _Slot) -> None:
        if slot.job:
            self._cancel(slot, True)

    def stop(self, thread: int) -> None:
        """Stop what the thread with this `ident` runs, and nothing that it begins later; the call
        there raises `Interrupted`."""
        if self._stop is not None:
            self._stop(thread)

    def run_each(
        self, grids: Grids, failed: Callable[[int, int], object], ends: Callable[[], bool]
    ) -> None:
        """Run several grids; `failed(entry, fault)` is called for each that fails.

        What has not begun is dropped once `ends()`, which is asked now and then, is true, and when
        an exception comes, as by `run`.
        """
        if self._each is None:
            self._start()
        slot, state = _Slot(), _State()
        entries = grids.entries
        try:
            while state.next < len(entries) and not ends():
                self._each(grids.rows, len(entries), state, slot)
                fault = state.fault
                if fault == LEFT:
                    fault = self._go_on(slot)
                    if self.closing:
                        break
                if fault:
                    failed(entries[state.next - 1], fault)
        except BaseException:
            self._give_up(slot)
            raise

    def copy(self, dst: int, src: int, nbytes: int, past_caches: bool) -> bool:
        """Copy bytes that do not overlap on all threads; False, and nothing is done, where that is
        not possible, or not worth to start them."""
        if self.closing:
            return False
        if not self._stream:
            self._copied += nbytes
            if not (self._code or loader.links_at_once() or self._copied > START_AFTER):
                return False
            self._start()
        entry = self._stream if past_caches else self._copy
        if not entry:
            return False
        blocks = -(-nbytes // COPY_BYTES)
        fault = self.run(entry, _COPY.pack(blocks, 1, 1, dst, src, nbytes))
        if fault:
            raise crashes.of_copy(fault, dst, src, nbytes)
        return True

    def run_phases(self, entry: int, launch: Any, outcomes: int, blocks: int) -> int:
        """Run a grid whose `blocks` wait for one another until not all wait, or for a while.

        `entry` is as for `run`, `launch` a ctypes buffer and `outcomes` an address, both as
        `compiler/simt/grids.py` says. Returns 0 or the first fault.
        """
        if self._phases is None:
            self._start()
        slot = _Slot()
        try:
            by_all = entry in self.waiting
            fault: int = self._phases(entry, launch, slot, outcomes, blocks, by_all)
            if fault == LEFT:
                fault = self._go_on(slot)
        except BaseException:
            self._give_up(slot)
            raise
        return fault

    def close(self) -> None:
        """At exit: grids that are running stop at the next chance."""
        self.closing = True

    def renew(self) -> None:
        """After a fork, in the child: the workers are gone and start anew at the next launch."""
        self._lock = threading.RLock()
        self._prepared = False
        self._workers = 0
        self._run = self._run_all = self._run_first
        self._copy = self._stream = 0
        self._phases = self._each = self._stop = None

    def code(self) -> Any:
        """What gives the addresses of the pool's own functions by name."""
        # Not under the pool's lock: who links a kernel needs these functions, too.
        with loader.LINKING:
            if self._code is None:
                names = ["run", "run_all", "phases", "resume", "cancel", "start", "prepare"]
                names += ["copy", "stream", "run_each", "stop", "watch", "raised", *crashes.EXPORTS]
                text = pool_ir(platform.machine(), platform.system())
                self._code = loader.link_ir("pool", names, text, quickly=True)
            return self._code

    def _run_first(self, entry: int, launch: bytes, slot: _Slot) -> int:
        self._start()
        fault: int = self._run_all(entry, launch, slot)
        return fault

    def _start(self) -> None:
        with self._lock:
            threads = processor.threads()
            address = self.code().__getitem__
            slot = ctypes.POINTER(_Slot)
            job = ctypes.CFUNCTYPE(ctypes.c_int64, slot)
            self._resume = job(address("resume"))
            cancel = ctypes.CFUNCTYPE(ctypes.c_int64, slot, ctypes.c_int32)
            self._cancel = cancel(address("cancel"))
            self._stop = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64)(address("stop"))
            if not self._prepared:
                self._prepared = True
                prepare = ctypes.CFUNCTYPE(None, ctypes.c_int64)(address("prepare"))
                prepare(max(CHUNKS, CHUNKS_PER_THREAD * threads))
            crashes.look_out(self.code())
            start = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(address("start"))
            wanted = threads - 1  # the launching thread takes part
            with _signals_blocked():
                self._workers += start(max(0, wanted - self._workers))
                watch = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p)(address("watch"))
                watch(threading.main_thread().ident or 0, _functions_of_python())
            if self._workers < wanted:
                raise DeviceError(
                    f"the system started {self._workers} of {wanted} worker threads; "
                    "set HAULAGE_NUM_THREADS to use fewer"
                )
            grid = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p, slot)
            self._run, self._run_all = grid(address("run")), grid(address("run_all"))
            each = ctypes.CFUNCTYPE(
                None, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(_State), slot
            )
            self._each = each(address("run_each"))
            # One thread alone has nothing before the C library but the way past the caches.
            self._copy = address("copy") if threads > 1 else 0
            self._stream = address("stream")
            waiting = ctypes.CFUNCTYPE(
                ctypes.c_int64,
                ctypes.c_void_p,
                ctypes.c_void_p,
                slot,
                ctypes.c_void_p,
                ctypes.c_int64,
                ctypes.c_int32,
            )
            self._phases = waiting(address("phases"))


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Threads that are made in here take no signals."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# That of this process.
POOL = Pool()
for _name in crashes.FOR_KERNELS:
    loader.PROVIDED[_name] = functools.partial(lambda name: int(POOL.code()[name]), _name)
