"""The Python threads that run what streams hold."""

import threading

from haulage.backends.cpu_driver.streams import Streams
from haulage.backends.cpu_driver.tasks import Task

# An idle thread ends after this many seconds.
IDLE_SECONDS = 2.0

# Tasks of streams that run at the same time. More streams than that share these threads.
MOST_THREADS = 64


class Threads:
    """Runs each ready task as soon as a thread is free; starts threads as needed, up to a bound.

    A task mostly works without the interpreter's lock (copies, kernels), so streams overlap.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._threads: set[threading.Thread] = set()
        self._running: dict[threading.Thread, Task] = {}
        self.renew()

    def renew(self) -> None:
        """After a fork, in the child: the threads are gone and the lock is another."""
        self._work = threading.Condition(self._streams.lock)
        self._idle = 0  # threads that will look at the ready tasks before they sleep or end
        self._closed = False
        self._threads.clear()
        self._running.clear()

    def wake(self) -> None:
        """See to it that each ready task has a thread, as far as the bound allows."""
        ready = len(self._streams.ready)
        self._work.notify(ready)
        for _ in range(min(ready - self._idle, MOST_THREADS - len(self._threads))):
            thread = threading.Thread(target=self._serve, name="haulage-stream", daemon=True)
            self._threads.add(thread)
            self._idle += 1
            try:
                thread.start()
            except RuntimeError:
                self._threads.discard(thread)
                self._idle -= 1
                if not self._threads:
                    raise
                break

    def close(self) -> list[Task]:
        """Let idle threads end; returns the tasks that are running."""
        self._closed = True
        self._work.notify_all()
        return self.running()

    def running(self) -> list[Task]:
        """The tasks that are running."""
        return list(self._running.values())

    def join(self) -> None:
        """Wait for the threads to end, those in a callback left out.

        One that the interpreter's end stopped while it takes the lock would keep it for ever.
        """
        for thread in list(self._threads):
            task = self._running.get(thread)
            if task is None or not task.callback:
                thread.join()

    def _serve(self) -> None:
        streams = self._streams
        ready = streams.ready
        streams.serve()
        with streams.lock:
            while True:
                while not ready and not self._closed:
                    if not self._work.wait(IDLE_SECONDS) and not ready:
                        break
                self._idle -= 1
                if self._closed or not ready:
                    self._threads.discard(threading.current_thread())
                    return
                while ready and not self._closed:
                    self._perform(ready.popleft())
                self._idle += 1

    def _perform(self, task: Task) -> None:
        """Run one task with the lock released; it is held before and after."""
        streams = self._streams
        thread = threading.current_thread()
        self._running[thread] = task
        streams.lock.release()
        try:
            streams.perform(task)
        finally:
            streams.lock.acquire()
            del self._running[thread]
            streams.end(task)
            if len(streams.ready) > 1:
                self.wake()
