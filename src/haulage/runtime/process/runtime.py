"""The `Runtime`: what a process has one of, and what is to run when something happens to it."""

from collections.abc import Callable, Sized
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from haulage._core.memory import RuntimeBase, conditions

if TYPE_CHECKING:
    from haulage.backends.base import Backend, KernelStopped, Probe
    from haulage.runtime.buffers.strided import Strided
    from haulage.runtime.context import Context
    from haulage.runtime.devices.capture import Capture
    from haulage.runtime.devices.device import Device
    from haulage.runtime.devices.event import Event
    from haulage.runtime.devices.graph import Graph
    from haulage.runtime.devices.registry import Driver
    from haulage.runtime.devices.stream import Stream
    from haulage.runtime.exchange.ipc import IpcArrayHandle
    from haulage.runtime.process.observing import Checker, Debugger, HostChecker, Observer, Watcher

    # Given a device, the number of bytes that it has no room for and how many to give back of it,
    # if so many can be: how many that was.
    MakeRoom = Callable[[Device, int, int], int]


class AfterWait(NamedTuple):
    """What is to be done when the program has waited.

    Attributes:
        call: called with a device, and a stream of it or None for all of them.
        pending: containers; it is called only where one of them has something in it, so that a wait
            which has nothing else to do need not leave C.
    """

    call: "Callable[[Device, Stream | None], object]"
    pending: tuple[Sized, ...]


class Runtime(RuntimeBase):
    """What a process has one of: its devices, and all that concerns them together.

    `current` is the one that is used; a test can have another one, see `composition.replaced`.
    Nobody subscribes to anything by being imported: `runtime.composition` fills the lists of a new
    `Runtime`, and what is rarely needed subscribes when its first object is made.

    Attributes:
        devices, new_default_stream, new_event, new_graph, new_context, new_ipc_handle: what modules
            ask for that stand below the one that makes it.
        drivers: how each kind of device is looked for, the preferred ones first.
        probes, found: what looking for the driver of a kind gave, and its devices; by kind.
        contexts: by device.
        chosen, choice: the device that `use` chose for the process, and that `use`; None: none.
        best: the device that is meant where nothing is chosen, once it was looked for.
        named: what `HAULAGE_DEVICE` was the last time, the devices of that kind, and the one it
            named.
        entered: the device of an enclosing `with` of this thread (or task), or None.
        outer: what to go back to at the end of each `with` that is entered.
        selected: the device that `select` chose in this thread, and `choice` at that time.
        adversary_seed: the seed while the adversarial mode is on, else None.
        captures: the captures under way, of all devices.
        observer: who is told of memory, streams and kernels, or None.
        checker: by whom kernels are launched with checks, or None.
        host_checker: by whom programs of the host are checked, or None.
        debugger: says which launches stop in the debugger, or None.
        watchers: who is told of copies between places.
        apart: whether host arrays that kernels are given are copied on each device, as where it has
            memory of its own; `haulage advise` asks for that.
        describe: makes the exception for how a kernel stopped, by the handle of its function.
        printing: the back ends with code that prints, by their `id`; nobody asks the others.
        after_wait: what is to be done when the program has waited.
        at_stream_end: called with a device and the handle of a stream that is about to be given
            back to the driver.
        at_reset: called with a device whose memory is to be given back.
        when_pending: called with a device when something begins to wait for its work.
        evict: called in order where a device has no room, to give copies back that are elsewhere.
        spill: called after these, to give memory back that has to be copied to the host before.
        block_names: give names of blocks, by their generation, for reports.
        at_exit: called in order at the end of the process.
        in_child: called in order in each child that is forked.
    """

    devices: "Callable[[], list[Device]]"
    new_default_stream: "Callable[[Device], Stream]"
    new_event: "Callable[[Device], Event]"
    new_graph: "Callable[[Stream, str], Graph]"
    new_context: "Callable[[Device], Context]"
    new_ipc_handle: "Callable[[Strided], IpcArrayHandle]"

    def __init__(self) -> None:
        super().__init__()
        self.drivers: dict[str, Driver] = {}
        self.probes: dict[str, Probe] = {}
        self.found: dict[str, tuple[Device, ...]] = {}
        self.contexts: dict[Device, Context] = {}

        self.chosen: Device | None = None
        self.choice: object = None
        self.best: Device | None = None
        self.named: tuple[str, tuple[Device, ...], Device] | None = None
        self.entered: ContextVar[Device | None] = ContextVar("haulage_device", default=None)
        self.outer: ContextVar[tuple[Device | None, ...]] = ContextVar(
            "haulage_devices_before", default=()
        )
        self.selected: ContextVar[tuple[Device, object] | None] = ContextVar(
            "haulage_selected", default=None
        )

        self.adversary_seed: int | None = None
        self.captures: list[Capture] = []
        self.observer: Observer | None = None
        self.checker: Checker | None = None
        self.host_checker: HostChecker | None = None
        self.debugger: Debugger | None = None
        self.watchers: tuple[Watcher, ...] = ()
        self.apart = False

        self.describe: dict[int, Callable[[KernelStopped], Exception]] = {}
        self.printing: dict[int, Backend] = {}

        self.after_wait: list[AfterWait] = []
        self.at_stream_end: list[Callable[[Device, int], object]] = []
        self.at_reset: list[Callable[[Device], object]] = []
        self.when_pending: list[Callable[[Device], object]] = []
        self.evict: list[MakeRoom] = []
        self.spill: list[MakeRoom] = []
        self.block_names: list[Callable[[], dict[int, str]]] = []
        self.at_exit: list[Callable[[], object]] = []
        self.in_child: list[Callable[[], object]] = []
        self._subscribed: set[Callable[[Runtime], object]] = set()

    def context_of(self, device: "Device") -> "Context":
        """The context of a device: the same one each time."""
        made = self.contexts.get(device)
        return made or self.contexts.setdefault(device, self.new_context(device))

    def enter(self, device: "Device") -> None:
        """Make `device` the current one of this thread (or task) until `leave`."""
        self.outer.set((*self.outer.get(), self.entered.get()))
        self.entered.set(device)

    def leave(self) -> None:
        """Undo the last `enter`.

        Raises:
            RuntimeError: there was none in this thread (or task).
        """
        outer = self.outer.get()
        if not outer:
            raise RuntimeError("no device was made current here that could be left; push it first")
        self.outer.set(outer[:-1])
        self.entered.set(outer[-1])

    def watch(self, watcher: "Watcher") -> None:
        """Tell `watcher` of copies between places, too."""
        self.watchers = (*self.watchers, watcher)

    def unwatch(self, watcher: "Watcher") -> None:
        """Tell `watcher` nothing any more."""
        self.watchers = tuple(each for each in self.watchers if each is not watcher)

    def once(self, subscribe: Callable[["Runtime"], object]) -> None:
        """Call `subscribe(self)`, unless that was done before."""
        if subscribe not in self._subscribed:
            self._subscribed.add(subscribe)
            subscribe(self)

    def waited(self, device: "Device", stream: "Stream | None" = None) -> None:
        """The program has waited for a stream, or for all work of a device."""
        for one in tuple(self.after_wait):
            if any(one.pending):
                one.call(device, stream)

    def exit(self) -> None:
        """The process ends."""
        for call in self.at_exit:
            call()

    def forked(self) -> None:
        """This process is a child that was forked just now."""
        for call in self.in_child:
            call()


current = Runtime()


def use(made: Runtime) -> None:
    """Let `made` be the one that is used."""
    global current
    current = conditions.runtime = made


use(current)
