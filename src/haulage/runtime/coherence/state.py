"""The state of one storage: which bytes of it are current at which place, and who uses them."""

import weakref
from typing import Any, Literal

import numpy as np

from haulage._core.coherence import DeviceReplicaBase, Lock, ReplicaBase, StateBase
from haulage.errors import CoherenceError
from haulage.runtime.coherence.borrows import Borrows, outdated_views
from haulage.runtime.coherence.exports import Exports, HandedOut
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry.numpy_arrays import address_of
from haulage.runtime.geometry.ranges import Ranges
from haulage.runtime.memory import Block
from haulage.runtime.process import call_sites
from haulage.runtime.process.call_sites import CallSite
from haulage.runtime.transfers.account import Account, StorageName

Place = Device | Literal["host"]
Mode = Literal["r", "rw", "w"]

# So many arrays over parts of a replica are kept for the next launches.
_MOST_ARRAYS = 64

# The states that there are, by identity.
_states: "weakref.WeakValueDictionary[int, State]" = weakref.WeakValueDictionary()


def all_states() -> list["State"]:
    """The state of each storage that is alive."""
    return [state for ref in _states.valuerefs() if (state := ref()) is not None]


class Replica(ReplicaBase):
    """The bytes of a storage at one place.

    Attributes:
        valid: the bytes that are current there.
        acquired: those acquired there since they were last written at another place.
        arrays: what users made of its block, kept for the next ones.
        call_site: the line that wrote there last.
    """

    __slots__ = ()

    valid: Ranges
    acquired: Ranges
    arrays: dict[Any, Any]
    call_site: CallSite

    def __init__(self, valid: Ranges) -> None:
        self.valid = valid
        self.acquired = Ranges()
        self.arrays = {}
        self.call_site = ()

    def keep(self, key: Any, array: Any) -> None:
        """Keep an array for the next one who asks by `key`."""
        if len(self.arrays) >= _MOST_ARRAYS:
            self.arrays.clear()
        self.arrays[key] = array

    def outdate(self, part: Ranges) -> None:
        """These bytes were written at another place."""
        if self.valid or self.acquired:
            self.valid -= part
            self.acquired -= part


class DeviceReplica(Replica, DeviceReplicaBase):
    """The replica on a device.

    Attributes:
        block: its memory.
        writers: the streams that wrote what is current.
        used: when it was acquired last, as a count that rises with each use.
        writing: the bytes acquired for writing and not released yet.
        read_since_write: acquired for reading since the last known write; whoever did so may report
            later that it has been written (`mark_changed`).
    """

    __slots__ = ()

    block: Block
    writers: tuple[Stream, ...]
    writing: Ranges

    def __init__(self, block: Block) -> None:
        super().__init__(Ranges())
        self.block = block
        self.writers = ()
        self.writing = Ranges()

    def note_use(self, mode: str, stream: Stream, part: Ranges) -> None:
        """Bytes were acquired for work that is handed to `stream` from now on."""
        self.block.use(stream)
        self.count_use()
        if mode == "r":
            self.read_since_write = True
        else:
            self.writing |= part
            self.acquired |= part

    def users(self) -> tuple[Stream, ...]:
        """The streams that may still read or write it. (Blocks do not note the default stream.)"""
        return self.block.users()


class State(StateBase):
    """What is known of one storage. The services of this package read and change it, under `lock`.

    Args:
        nbytes: size of the storage.
        name: what it is called in transfers and in messages.
        host: host memory that holds the bytes, or None; see `Coherence`.
        shared: the block that `host` lies in, where devices reach that memory too.
        is_defined: False: the bytes in `host` are undefined.
        grain: bytes of an element, which is written as a whole.

    Attributes:
        account: its transfers and their causes.
        whole: all bytes.
        defined: the bytes that anybody has written.
        host: the host's memory; None until it is needed.
        on_host: the replica on the host.
        replicas: those on devices.
        host_writers: the streams of devices that write to shared memory.
        host_writing: the bytes acquired for writing on the host and not released yet.
        uploads: the streams that may still read pinned host memory for an upload.
        borrows: the NumPy views that can write to `host`.
        exports: the memory of replicas that other libraries have.
        handed_out: the device arrays that the program has.
        lost: bytes that are current nowhere, as the only memory that had them was given back; and
            where that was, in words.
        last_written: the place that was written last.
        evicted: devices whose replica was evicted while `read_since_write`: what was written to it
            is on the host.
        lock: held by whoever uses the state.
    """

    __slots__ = ("__weakref__", "name", "nbytes")

    def __init__(
        self,
        nbytes: int,
        name: StorageName,
        host: np.ndarray | None,
        shared: Block | None,
        is_defined: bool,
        grain: int,
    ) -> None:
        self.nbytes = nbytes
        self.name = name
        self.account = Account(name, nbytes)
        self.whole = Ranges.of(0, nbytes)
        self.defined = self.whole if host is not None and is_defined else Ranges()
        self.host = host
        self.shared = shared
        self.on_host = Replica(self.defined)
        self.replicas: dict[Device, DeviceReplica] = {}
        self.host_writers: tuple[Stream, ...] = ()
        self.host_writing: list[Ranges] = []
        self.uploads: list[Stream] = []
        self.borrows = Borrows(name)
        self.exports = Exports(name, grain)
        self.handed_out = HandedOut(grain)
        self.lost: list[tuple[Ranges, str]] = []
        self.last_written: Place | None = None
        self.evicted: set[Device] = set()
        self.lock = Lock()
        _states[id(self)] = self

    # ---- replicas ---------------------------------------------------------------------------

    def is_shared_with(self, place: Place) -> bool:
        """Whether a place is a device that reaches the host's memory itself."""
        shared = self.shared
        return (
            shared is not None
            and not isinstance(place, str)
            and (shared.device is place or shared.is_mapped_for(place))
        )

    def replica(self, place: Place) -> Replica | None:
        """The replica at a place; None if there is none."""
        if isinstance(place, str) or (self.shared is not None and self.is_shared_with(place)):
            return self.on_host
        return self.replicas.get(place)

    def all_replicas(self) -> list[Replica]:
        """The host's replica, and those of devices."""
        return [self.on_host, *self.replicas.values()]

    def start_in(self, block: Block) -> int:
        """Where the first byte is in a block that was acquired."""
        if block is not self.shared or self.host is None:
            return 0
        return address_of(self.host) - block.host_ptr

    def is_at_rest_on_host(self, part: Ranges) -> bool:
        """Whether the host can read some bytes as they are, with nothing to be noted before."""
        return not (
            self.borrows.records or self.uploads or self.shared or self.exports.records
        ) and self.on_host.valid.covers(part)

    def is_at_rest_on(self, device: Device, part: Ranges) -> bool:
        """Whether a device can read and write some bytes as they are, with nothing to be moved or
        noted before."""
        replica = self.replicas.get(device)
        return (
            replica is not None
            and not (self.borrows.records or self.lost or replica.block.closed)
            and not self.exports.records
            and replica.valid.covers(part)
        )

    def last_write_in_words(self) -> str:
        """Where and by which line it was written last; to be put behind a sentence."""
        last = self.last_written
        if last is None:
            return ""
        replica = self.replica(last)
        call_site = replica.call_site if replica is not None else ()
        where = f" at {call_sites.site(call_site)}" if call_site else ""
        return f"; {last} was written last{where}"

    # ---- writes on the host that go on ------------------------------------------------------

    def not_being_written(self, part: Ranges) -> Ranges:
        """Those of some bytes that nobody has acquired to write on the host."""
        for writing in self.host_writing:
            part -= writing
        return part

    def end_host_write(self, part: Ranges) -> None:
        """Bytes that were acquired for writing on the host are released."""
        if part in self.host_writing:
            self.host_writing.remove(part)

    # ---- memory that is gone ----------------------------------------------------------------

    def check_lost(self, mode: Mode, part: Ranges) -> None:
        """Raises:
        CoherenceError: some bytes are to be read and are current nowhere any more.
        """
        self.forget_closed()
        if mode != "w":
            for lost, where in self.lost:
                if lost & part:
                    raise CoherenceError(
                        f"{self.name}: {(lost & part).nbytes} bytes of it were current only on "
                        f"{where}, and are lost. Look at the array before (np.asarray(a)), or "
                        "assign to it now"
                    )

    def forget_closed(self) -> None:
        """Forget replicas whose memory was given back, and note which bytes are lost by that."""
        for device, replica in tuple(self.replicas.items()):
            if replica.block.closed:
                lost = replica.valid & self.defined
                del self.replicas[device]
                for other in self.all_replicas():
                    lost -= other.valid
                for export in self.exports.end(device):
                    # It may have been written, so that other replicas are out of date.
                    changed = export.part & replica.valid & self.defined
                    for other in self.all_replicas():
                        other.outdate(changed)
                    lost |= changed
                if lost:
                    call_site = replica.block.closed_at
                    at = f" at {call_sites.site(call_site)}" if call_site else ""
                    self.lost.append((lost, f"{device}, whose memory was given back{at}"))

    # ---- baselines --------------------------------------------------------------------------

    def take_baselines(self) -> None:
        """Keep the bytes that views of the host have in common, from now on, with memory that other
        libraries or the program have on devices."""
        exports, handed_out, host = self.exports, self.handed_out, self.host
        both = self.borrows.records and handed_out.records
        if host is None or not (exports.records or both or handed_out.baseline.parts):
            return
        handed_out.drop_dead()
        viewed = self.borrows.fresh()
        for device, replica in tuple(self.replicas.items()):
            same = self.on_host.valid & replica.valid & self.defined & viewed
            handed_out.baseline.take(device, same & handed_out.of(device), host)
            if exports.records:
                part = same & exports.of(device)
                exports.baseline.take(device, part, host)
                if part:
                    outdated_views.add(self, device)


def in_child() -> None:
    """After a fork: the lock may be held by a thread that the child does not have; and a GPU's
    driver does not work in it, so that nobody uses that device's memory."""
    for state in all_states():
        state.lock = Lock()
        for device in {each.device for each in state.exports.records}:
            if not device.properties.host_memory_is_device_memory:
                state.exports.end(device)
