"""Which device is current in a thread, and forks of the process."""

import os
import threading
import weakref

from haulage import forks
from haulage._core.driver import NOT_PERMITTED, Current
from haulage.backends.gpu_driver.calls import Calls
from haulage.errors import DeviceError


class _Wanted(threading.local):
    """The device that a callback has activated."""

    device = 0


class Contexts(Current):
    """Makes devices current. Safe to use from any thread.

    A driver knows a device in use by a handle. One that another library has made current is left
    alone but for that it is not current any more.
    """

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls.inside, calls.address("CtxGetCurrent"))
        self._calls = calls
        self._devices: dict[int, int] = {}
        self._lock = threading.Lock()
        self.forked = False
        # By a device: those that Haulage let use its memory.
        self.peers: dict[int, list[int]] = {}
        self._wanted = _Wanted()
        _live.add(self)

    def device(self) -> int:
        """The device that is current in this thread.

        Raises:
            DeviceError: it is none of Haulage's.
        """
        if self._calls.inside.callback:
            raise self._calls.failed("CtxGetCurrent", (), NOT_PERMITTED)
        try:
            return self._devices[self.current()]
        except KeyError:
            raise DeviceError(201, "no device of Haulage's is active in this thread") from None

    def of(self, device: int) -> int:
        """The handle of `device`."""
        handle = self.handles.get(device)
        if handle is None:
            with self._lock:
                handle = self.handles.get(device)
                if handle is None:
                    self.check_process()
                    handle = self._calls.hold(device)
                    self._devices[handle] = device
                    self.handles[device] = handle
        return handle

    def devices(self) -> list[int]:
        """The devices that have been used."""
        return list(self.handles)

    def are_several(self) -> bool:
        """Whether more than one device has been used."""
        return len(self.handles) > 1

    def reaches(self, device: int, peer: int) -> bool:
        """Whether Haulage let one use the memory of the other."""
        return device in self.peers.get(peer, ())

    def wanted(self) -> int:
        """The device that was activated last inside of callbacks of streams in this thread."""
        return self._wanted.device

    def _enter(self, device: int) -> None:
        self.check_process()
        if self._calls.inside.callback:
            # The driver takes no calls there; what is not put off is refused when it is made.
            self._wanted.device = device
            return
        self._calls.make_current(self.of(device))

    def check_process(self) -> None:
        """Raise DeviceError in a child that was forked after the driver was used."""
        if self.forked:
            device = self._calls.device_words
            raise DeviceError(
                3,
                f"process {os.getpid()} was forked from one that had used {device} "
                f"or looked for it, and {self._calls.fork_words} does not work in such a child: "
                "start processes with multiprocessing.get_context('spawn') or 'forkserver', or "
                "look for devices for the first time in the children",
            )


_live: "weakref.WeakSet[Contexts]" = weakref.WeakSet()


def _note_fork() -> None:
    for contexts in list(_live):
        contexts.forked = True
        contexts._lock = threading.Lock()


forks.in_child(_note_fork)
