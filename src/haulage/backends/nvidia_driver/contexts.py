"""The primary contexts of devices, which all libraries in a process share, and its forks."""

import ctypes
import os
import threading
import weakref

from haulage.backends.nvidia_driver.calls import NOT_PERMITTED, Calls, bindings, entry
from haulage.errors import DeviceError


class _Cell(threading.local):
    """Where the driver writes the handle of the calling thread's current context."""

    def __init__(self) -> None:
        self.value = ctypes.c_void_p()
        self.at = ctypes.byref(self.value)


class _Wanted(threading.local):
    """The device that a callback has activated."""

    device = 0


class Contexts:
    """Makes devices' contexts current. Safe to use from any thread.

    A context is held from its first use to the end of the process. One that another library has
    made current is left alone but for that it is not current any more.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._by_device: dict[int, int] = {}
        self._devices: dict[int, int] = {}
        self._lock = threading.Lock()
        self._cell = _Cell()
        # Without letting go of the interpreter's lock: it takes a twentieth of a microsecond.
        prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
        self._get_current = prototype(entry("cuCtxGetCurrent", 4000))
        self.forked = False
        self._wanted = _Wanted()
        _live.add(self)

    def activate(self, device: int) -> None:
        """Make the context of `device` current in this thread.

        Raises:
            DeviceError: there is no such device; or this is a forked child.
        """
        context = self._by_device.get(device)
        if context is None or context != self.current() or self._calls.inside.callback:
            self._enter(device)

    def current(self) -> int:
        """The handle of the context that is current in this thread; 0 if none is."""
        cell = self._cell
        return 0 if self._get_current(cell.at) else cell.value.value or 0

    def device(self) -> int:
        """The device of the context that is current in this thread.

        Raises:
            DeviceError: it is none of Haulage's.
        """
        if self._calls.inside.callback:
            raise self._calls.failed("cuCtxGetCurrent", (), NOT_PERMITTED)
        try:
            return self._devices[self.current()]
        except KeyError:
            raise DeviceError(201, "no device of Haulage's is active in this thread") from None

    def of(self, device: int) -> int:
        """The handle of the context of `device`."""
        context = self._by_device.get(device)
        if context is None:
            with self._lock:
                context = self._by_device.get(device)
                if context is None:
                    self.check_process()
                    driver = bindings()
                    handle = self._calls(driver.cuDeviceGet, device)
                    context = int(self._calls(driver.cuDevicePrimaryCtxRetain, handle))
                    self._devices[context] = device
                    self._by_device[device] = context
        return context

    def devices(self) -> list[int]:
        """The devices that have been used."""
        return list(self._by_device)

    def wanted(self) -> int:
        """The device that was activated last inside of callbacks of streams in this thread."""
        return self._wanted.device

    def _enter(self, device: int) -> None:
        self.check_process()
        if self._calls.inside.callback:
            # The driver takes no calls there; what is not put off is refused when it is made.
            self._wanted.device = device
            return
        self._calls(bindings().cuCtxSetCurrent, self.of(device))

    def check_process(self) -> None:
        """Raise DeviceError in a child that was forked after the driver was used."""
        if self.forked:
            raise DeviceError(
                3,
                f"process {os.getpid()} was forked from one that had used an NVIDIA device, and "
                "CUDA does not work in such a child: start processes with "
                "multiprocessing.get_context('spawn') or 'forkserver', or use the device for the "
                "first time in the children",
            )


_live: "weakref.WeakSet[Contexts]" = weakref.WeakSet()


def _note_fork() -> None:
    for contexts in list(_live):
        contexts.forked = True
        contexts._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
