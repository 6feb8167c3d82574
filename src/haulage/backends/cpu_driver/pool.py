"""The native worker threads that run the blocks of kernels: one pool a process.

The workers are plain pthreads of `haulage._core` rather than Python threads: they never touch the
interpreter, so they need no thread state, can't delay its end, and take no signals but the pool's
own (all others are blocked in them), which keeps Ctrl-C with the main thread.
"""

import threading

from haulage._core.pool import Workers
from haulage.backends.cpu_driver import crashes, processor
from haulage.backends.cpu_driver.interrupts import RUNNING
from haulage.errors import DeviceError, Interrupted

# A launch is cut into this many chunks, or into this many a thread if that is more.
CHUNKS, CHUNKS_PER_THREAD = 32, 4


class Pool(Workers):
    """Runs grids on all worker threads. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def start(self) -> None:
        """Start the worker threads; the first run asks for it.

        Raises:
            DeviceError: the system does not start as many as are wanted.
        """
        with self._lock:
            threads = processor.threads()
            crashes.look_out()
            wanted = threads - 1  # the launching thread takes part
            if not self.start_workers(wanted, max(CHUNKS, CHUNKS_PER_THREAD * threads)):
                raise DeviceError(
                    f"the system started {self.workers} of {wanted} worker threads; "
                    "set HAULAGE_NUM_THREADS to use fewer"
                )

    def interrupted(self) -> BaseException:
        """The exception for a run that another thread has stopped."""
        return Interrupted(RUNNING)

    def copy(self, dst: int, src: int, nbytes: int, past_caches: bool) -> bool:
        """Copy bytes that do not overlap on all threads; False, and nothing is done, where that is
        not possible, or no better than the C library."""
        if self.closing:
            return False
        if not self.started:
            self.start()
        # One thread alone has nothing before the C library but the way past the caches.
        if not (self.workers or past_caches):
            return False
        fault = self.run_copy(dst, src, nbytes, past_caches)
        if fault:
            raise crashes.of_copy(fault, dst, src, nbytes)
        return True

    def close(self) -> None:
        """At exit: grids that are running stop at the next chance."""
        self.closing = True

    def renew(self) -> None:
        """After a fork, in the child: the workers are gone and start anew at the next launch."""
        self._lock = threading.RLock()
        super().renew()


# That of this process.
POOL = Pool()
