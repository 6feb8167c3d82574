"""The seam: everything Haulage asks of a device's driver, in one class.

Only ints, bytes, strings and tuples of them cross it; no array, stream object or kernel does.
Whatever can be checked, cached, counted or kept alive is so *above* the seam, once for all
devices; a back end translates calls and reports only what its caller could not have foreseen
(out of memory, a lost device, a kernel that failed). A wrong argument here is a bug above.

Each method says whether a back end **must**, **should** or **may** implement it. The default of a
*may* method raises `Unsupported` naming the back end and the method. Back ends keep the order of
methods of this file, so that a `diff` of two of them reads as a table.

Pointers are addresses in the device's address space (on the CPU device: of this process). A
stream is an int made by `stream_create`; 0 is the default stream. Work on the default stream
starts only when all earlier work of the other (blocking) streams is done, and work on those only
when earlier work of the default stream is done. Work in one stream runs in order. Work handed to
a stream may still be running when the call returns: the caller keeps all memory that it names
alive until the stream has passed it. What gives something back has done so even where it raises:
drivers tell there of what went wrong before.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from haulage._core.starts import Queues
from haulage.errors import Unsupported

DEVICE, PINNED, MAPPED, MANAGED = "device", "pinned", "mapped", "managed"
KINDS = (DEVICE, PINNED, MAPPED, MANAGED)

# Flags of `alloc` and `register`, to be or-ed; a back end that has no use for one ignores it.
PORTABLE, WRITE_COMBINED, ATTACH_HOST, COHERENT, NON_COHERENT = 1, 2, 4, 8, 16

# Flags of `stream_create`: the stream does not wait for the default stream, nor it for the stream.
NON_BLOCKING = 1

# What `advise` can tell, in the order of CUDA's numbers for it.
ADVICE = (
    *("set_read_mostly", "unset_read_mostly"),
    *("set_preferred_location", "unset_preferred_location"),
    *("set_accessed_by", "unset_accessed_by"),
)


@dataclass(frozen=True)
class Probe:
    """What looking for a driver gave; shown by `haulage info` and in errors of explicit choices.

    `short` is the answer in a few words, where the device cannot be used. `advice` is what to tell
    a program that runs elsewhere for want of something to install alone.
    """

    available: bool
    looked_for: tuple[str, ...]
    answer: str
    short: str = ""
    advice: str = ""


@dataclass(frozen=True)
class Properties:
    """What a device is and how much it can take. Sizes in bytes, counts in units.

    `uuid` is the same in every process of the machine, and no other device has it. `runtime` is the
    (major, minor) version of CUDA whose words kernels and host programs of the device can use.
    `max_argument_bytes` is CUDA's limit since 12.1 unless a device has another. `max_axis_threads`
    is how many threads a grid can have along an axis, those of all its blocks. `row_block` is how
    many threads a block best has where each thread walks a row of memory of its own.
    `on_processor` says that it is this computer's processor by a driver of others, which is chosen
    only where it is named.
    `stages_copies` says that large copies of pageable host memory are faster by way of pinned
    buffers, filled and emptied by the host, than in one call.
    `pins_for_all` says that pinned memory is so for all devices of the driver, whatever its flags.
    `code_per_block` says that code is made for one size of the block, as where one function runs
    all threads of a block; `code_in_versions` that there are versions of it for what launches find
    (`compiler.versions`).
    `floats` names the types that kernels can use besides the usual ones: 'float16', 'bfloat16' and
    'fp8'. `figures` has more of the numbers that CUDA's driver tells, by its names for them.
    """

    name: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    warp_size: int
    max_threads_per_block: int
    max_block: tuple[int, int, int]
    max_grid: tuple[int, int, int]
    max_static_shared: int
    max_dynamic_shared: int
    total_memory: int
    architecture: str
    host_memory_is_device_memory: bool = False
    on_processor: bool = False
    uuid: str = ""
    runtime: tuple[int, int] = (0, 0)
    max_argument_bytes: int = 32764
    max_axis_threads: int = 1 << 62
    row_block: int = 256
    stages_copies: bool = False
    pins_for_all: bool = False
    code_per_block: bool = False
    code_in_versions: bool = False
    floats: tuple[str, ...] = ()
    figures: dict[str, int] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)


class KernelStopped(Exception):
    """Threads of a kernel stopped with a fault; raised by the synchronising calls, once.

    `function` is the handle that was launched, `code` the fault that the kernel's code gave.
    """

    def __init__(self, function: int, code: int) -> None:
        super().__init__(f"function {function:#x} stopped with fault {code}")
        self.function = function
        self.code = code


class KernelCrashed(KernelStopped):
    """A kernel accessed what is no memory, or used up a stack; what it wrote before is there.

    `address` is that of the access, or None if nobody knows. It happened in one of the `blocks`
    (first, last), as they are numbered in the order in which they run, of a `grid`; None if that is
    forgotten. `stack` is the size in bytes
    of the stack that was used up, 0 if none was. `bus` says that there is memory which the system
    could not provide, as of a file that is too short.
    """

    def __init__(
        self,
        function: int,
        code: int,
        address: int | None = None,
        blocks: tuple[int, int] | None = None,
        grid: tuple[int, int, int] = (1, 1, 1),
        stack: int = 0,
        bus: bool = False,
    ) -> None:
        super().__init__(function, code)
        self.address = address
        self.blocks = blocks
        self.grid = grid
        self.stack = stack
        self.bus = bus


class Backend(ABC):
    """One driver. Its devices are numbered from 0; most calls act on the calling thread's one."""

    name: str = "?"

    # Whether its kernels run on this process's worker threads, `cpu_driver.pool.POOL`.
    uses_pool = False

    # Its streams, where they can be asked without a call of the driver's.
    queues: Queues | None = None

    # ---- devices ------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def probe(cls) -> Probe:
        """Must. Look for the driver without keeping anything; never raises."""

    @abstractmethod
    def count(self) -> int:
        """Must. How many devices there are."""

    @abstractmethod
    def properties(self, device: int) -> Properties:
        """Must. What `device` is; constant for the life of the process."""

    @abstractmethod
    def activate(self, device: int) -> None:
        """Must. Make `device` the one that later calls of this thread act on."""

    @abstractmethod
    def synchronize(self) -> None:
        """Must. Wait for all work of the active device. Raises KernelStopped for a fault."""

    @abstractmethod
    def memory_info(self) -> tuple[int, int]:
        """Must. (free, total) bytes of the active device's memory, now."""

    # ---- memory -------------------------------------------------------------------------------

    @abstractmethod
    def alloc(self, nbytes: int, kind: str, flags: int = 0) -> tuple[int, int]:
        """Must. Allocate `nbytes` (> 0) of one of `KINDS`, aligned to 256 bytes or more.

        Returns (device pointer, host pointer); the host pointer is 0 for memory that the host
        cannot address. On a device whose memory is the host's both are the same.

        Raises:
            OutOfMemory: says how much was asked and how much is free.
        """

    @abstractmethod
    def free(self, device_ptr: int, host_ptr: int, kind: str) -> None:
        """Must. Give back what `alloc` returned. The caller has seen to it that no work uses it."""

    @abstractmethod
    def register(self, host_ptr: int, nbytes: int, flags: int = 0) -> int:
        """Must. Pin existing host memory and map it; returns its device pointer."""

    @abstractmethod
    def unregister(self, host_ptr: int) -> None:
        """Must. Undo `register`."""

    @abstractmethod
    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Must. Copy `nbytes` between device or host memory in `stream`; direction is found out."""

    @abstractmethod
    def copy_nd(
        self,
        dst: int,
        dst_strides: Sequence[int],
        src: int,
        src_strides: Sequence[int],
        shape: Sequence[int],
        itemsize: int,
        stream: int,
    ) -> None:
        """Must. Copy an n-d region, element by element as the byte strides say, in `stream`.

        Strides may be negative; those of the source may be 0 (broadcast). The pointers are those
        of element (0, ..., 0). Source and target do not overlap.
        """

    @abstractmethod
    def fill(self, dst: int, value: bytes, count: int, stream: int) -> None:
        """Must. Write `value` (1 to 16 bytes, a whole element) `count` times from `dst` on."""

    # ---- streams and events -------------------------------------------------------------------

    @abstractmethod
    def stream_create(self, flags: int = 0, priority: int = 0) -> int:
        """Must. A new stream of the active device; a handle that is not 0.

        Of work that could begin, that of streams with a smaller `priority` begins first; those
        beyond `stream_priorities` count as the nearest one there is.
        """

    @abstractmethod
    def stream_destroy(self, stream: int) -> None:
        """Must. Give the stream back; work still in it runs to its end. Does not wait."""

    @abstractmethod
    def stream_synchronize(self, stream: int) -> None:
        """Must. Wait for all work handed to `stream` so far. Raises KernelStopped for a fault."""

    @abstractmethod
    def stream_query(self, stream: int) -> bool:
        """Must. Whether all work handed to `stream` is done; never waits."""

    def idle_query(self, device: int) -> Callable[[], bool] | None:
        """May. What tells at once whether all work of the default stream of a device is done, False
        also where that takes more to tell; it never raises. The device has been activated."""
        return None

    @abstractmethod
    def stream_wait_event(self, stream: int, event: int) -> None:
        """Must. Later work of `stream` starts only when the last record of `event` is reached.

        An event that was never recorded counts as reached.
        """

    @abstractmethod
    def event_create(self, timing: bool = True) -> int:
        """Must. A new event of the active device; a handle that is not 0."""

    @abstractmethod
    def event_destroy(self, event: int) -> None:
        """Must. Give the event back; waits that already hang on it stay right."""

    @abstractmethod
    def event_record(self, event: int, stream: int) -> None:
        """Must. Mark the present end of `stream`; a new record replaces the older one."""

    @abstractmethod
    def event_synchronize(self, event: int) -> None:
        """Must. Wait until the last record is reached; returns at once if there is none."""

    @abstractmethod
    def event_query(self, event: int) -> bool:
        """Must. Whether the last record is reached (True if there is none); never waits."""

    @abstractmethod
    def event_elapsed(self, start: int, end: int) -> float:
        """Must. Milliseconds between two reached records.

        Raises:
            DeviceError: either event was made without timing, never recorded or not reached.
        """

    # ---- code ---------------------------------------------------------------------------------

    @abstractmethod
    def load(self, code: bytes) -> int:
        """Must. Load compiled code; returns a module handle.

        Raises:
            DeviceError: the driver did not take the code; the message has its log.
        """

    @abstractmethod
    def unload(self, module: int) -> None:
        """Must. Give a module back; the caller has seen to it that nothing of it runs."""

    @abstractmethod
    def function(self, module: int, name: str) -> int:
        """Must. The handle of the kernel `name` of a module."""

    @abstractmethod
    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        """Must. Run a kernel in `stream` with `args`, its packed argument block.

        The block holds the arguments in order, each at its natural alignment, as a C struct would.
        A fault in the kernel is not raised here but by the next synchronising call.
        """

    # ---- may ----------------------------------------------------------------------------------

    def prepare_launch(
        self,
        device: int,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
    ) -> tuple[bytes, Callable[[int, bytes], None]]:
        """May. `launch` on `device` for a kernel that will be started like this again and again.

        Returns:
            A header, of a multiple of 16 bytes, and a function of a stream and of the header with
            the packed argument block behind it.
        """

        def start(stream: int, args: bytes) -> None:
            self.activate(device)
            self.launch(function, grid, block, shared_bytes, stream, args)

        return b"", start

    def stream_priorities(self) -> tuple[int, int]:
        """May. (least, greatest) priority that `stream_create` takes. Default: (0, 0), none."""
        return (0, 0)

    def stream_callback(self, stream: int, callback: Callable[[], object]) -> None:
        """May. Call `callback()` on a host thread once earlier work of `stream` is done.

        Later work of the stream waits for its end. What it raises is raised by the next
        synchronising call that waits for the stream.
        """
        self._unsupported("stream_callback")

    def stream_poll(self, stream: int) -> bool:
        """May. `stream_query` for a program that may ask until it is so. Default: the same.

        Where work begins only when somebody waits for it, being asked counts as a wait.
        """
        return self.stream_query(stream)

    def event_poll(self, event: int) -> bool:
        """May. `event_query` for a program that may ask until it is so; see `stream_poll`."""
        return self.event_query(event)

    def adversary(self, seed: int | None) -> None:
        """May. From now on run work as late and as reordered as its rules allow; None: no more.

        What is open in these rules (the order of what is not ordered, the contents of memory that
        is not initialised) is chosen by `seed`.
        """
        if seed is not None:
            self._unsupported("adversary")

    def check_address(self, address: int, nbytes: int) -> None:
        """May. See that the active device reaches memory that others allocated. Default: no check.

        Raises:
            DeviceError: it does not.
        """

    def link(self, pieces: Sequence[tuple[str, str, bytes]]) -> bytes:
        """May. One code for `load`, on the active device, of several that name each other's
        functions.

        Each is a kind ('ptx', 'cubin', 'fatbin', 'object' or 'library'), a name for messages, and
        bytes.

        Raises:
            DeviceError: they cannot be linked; the message has the linker's log.
        """
        self._unsupported("link")

    def symbol(self, module: int, name: str) -> tuple[int, int]:
        """May. (device pointer, bytes) of a module's global variable."""
        self._unsupported("symbol")

    def function_info(self, function: int) -> dict[str, int]:
        """May. Registers, local and shared bytes and the like of a function."""
        self._unsupported("function_info")

    def prefer_shared(self, function: int, percent: int) -> None:
        """May. How much of the memory that shared arrays and the L1 cache have together a function
        would have for shared arrays, in percent; -1 leaves it to the driver. Default: nothing, as
        where there is no such choice."""

    def deepen_stacks(self) -> None:
        """May. Give threads of the active device stacks for functions that call themselves, whose
        depth nobody knows beforehand. Default: nothing, as where they have them anyway."""

    def note_name(self, function: int, name: str) -> None:
        """May. Remember how the user calls a function, for what the driver itself says. Default:
        nothing."""

    def occupancy(self, function: int, threads: int, shared_bytes: int) -> int:
        """May. Blocks of that size which fit one multiprocessor at once."""
        self._unsupported("occupancy")

    def launch_cooperative(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        """May. `launch` for a kernel that has a barrier of its grid, whose blocks are all there at
        one time. The caller has seen to it that there are no more than can be."""
        self._unsupported("launch_cooperative")

    def max_cooperative_blocks(
        self, function: int, threads: int, shared_bytes: int, block_bytes: int
    ) -> int:
        """May. How many blocks a grid of `launch_cooperative` can have on the active device.

        `block_bytes` is what a block takes besides its dynamic shared memory, as its code says, for
        drivers that cannot tell by themselves.
        """
        self._unsupported("max_cooperative_blocks")

    def ipc_export(self, device_ptr: int, nbytes: int, unit: int, unit_nbytes: int) -> bytes:
        """May. A handle by which other processes of this machine can open a piece of memory.

        The piece is `nbytes` at `device_ptr`, of kind 'device', and a part of `unit_nbytes` at
        `unit`: an allocation; or part of one, or of a mapped range, that has its pages to itself.
        Pieces of a unit begin multiples of 256 bytes apart. A piece alone in its unit is given as
        the unit itself, the least that it can be: it may cost less. All exports of pieces of one
        unit name the same unit.

        The handle stays good until `ipc_withdraw`, or until the memory is freed; exported once
        more, a piece has the same handle. The first export of a unit may wait for all work.

        Raises:
            DeviceError: the driver refuses; nothing is changed.
        """
        self._unsupported("ipc_export")

    def ipc_export_of_others(self, device_ptr: int) -> tuple[bytes, int]:
        """May. A handle for memory that another library has allocated on the device.

        Returns:
            (The handle of the whole allocation that has `device_ptr`, where that begins.) It is
            good as long as its owner keeps the memory, and opens in other processes only.

        Raises:
            DeviceError: the driver refuses.
        """
        self._unsupported("ipc_export_of_others")

    def ipc_withdraw(self, device_ptr: int) -> tuple[int, ...]:
        """May. Let the handle of a piece that was exported open nothing any more.

        To be called when the piece is not needed any more, once no work uses it, and before it is
        used for something else, unmapped or freed. Neighbours in its unit may be in use.

        Returns:
            The pieces that can be used for something else now: pieces that were withdrawn earlier
            too, or none yet, where processes that still have the piece open would write into it.
            Default: the piece itself; it can be used at once.

        Raises:
            DeviceError: the driver refuses; no piece can be used for something else.
        """
        return (device_ptr,)

    def ipc_import(self, handle: bytes) -> tuple[int, int]:
        """May. (device pointer, bytes) of the memory that a handle of `ipc_export` names.

        It is the same memory: each process sees what the others wrote once both have synchronised.

        Raises:
            ValueError: the bytes are no handle of this driver.
            DeviceError: the memory has been freed, or is out of this process's reach.
        """
        self._unsupported("ipc_import")

    def ipc_close(self, device_ptr: int) -> None:
        """May. Undo `ipc_import`; the caller has seen to it that no work uses the memory."""
        self._unsupported("ipc_close")

    def can_access_peer(self, device: int, peer: int) -> bool:
        """May. Whether `peer_enable` could do its work. Default: no."""
        return False

    def peer_enable(self, device: int, peer: int) -> None:
        """May. Let kernels of `device` reach the memory of `peer`."""
        self._unsupported("peer_enable")

    def prefetch(self, device_ptr: int, nbytes: int, device: int, stream: int) -> None:
        """May. Move managed memory to `device` (-1: the host) ahead of its use."""
        self._unsupported("prefetch")

    def advise(self, device_ptr: int, nbytes: int, advice: str, device: int) -> None:
        """May. Tell the driver how managed memory will be used, by one of `ADVICE`; on `device`, or
        on the host with -1."""
        self._unsupported("advise")

    def granularity(self) -> int:
        """May. Bytes of the smallest part of a reserved range that memory can be put behind.

        A power of two, constant for the life of the process. Default: 0, the back end cannot
        reserve addresses, and the four methods below raise Unsupported.
        """
        return 0

    def reserve(self, nbytes: int) -> int:
        """May. Reserve a range of addresses of the active device, without memory behind them.

        `nbytes` is a multiple of `granularity()`, and so is the address that is returned. Until
        `release` nothing else has addresses of the range. It takes no memory, and nothing may read
        or write there before `map`.

        Raises:
            OutOfMemory: there are no such addresses left; nothing is changed.
        """
        self._unsupported("reserve")

    def release(self, address: int, nbytes: int) -> None:
        """May. Undo `reserve`, with the same `nbytes`; the caller has unmapped what it mapped."""
        self._unsupported("release")

    def map(self, address: int, nbytes: int) -> None:
        """May. Put memory of kind 'device' behind a part of a reserved range that has none.

        `address` and `nbytes` are multiples of `granularity()`. The memory is not initialised. What
        was mapped piece by piece is one piece of memory where the pieces touch: copies and kernels
        go across.

        Raises:
            OutOfMemory: there is no such memory; nothing is changed.
        """
        self._unsupported("map")

    def unmap(self, address: int, nbytes: int) -> None:
        """May. Take the memory behind a part of a reserved range away; the system has it at once.

        The part need not have been mapped as one, but all of it is mapped, no work uses it and
        nothing of it is exported. The addresses stay reserved and can be mapped again.
        """
        self._unsupported("unmap")

    def capture_begin(self, stream: int) -> None:
        """May. From now on record what is handed to `stream`, which is not 0, and run none of it.

        Copies, fills and launches are recorded, whichever thread hands them over, and so are marks:
        the record of an event there is a point of the recording, and another stream that is told to
        wait for it joins, so that what is handed to that is recorded as well. What the stream held
        before is run, and nothing recorded depends on it. Only its streams are in a recording: all
        other calls of the seam stay possible meanwhile, those that allocate, map and load too
        (CUDA's `CU_STREAM_CAPTURE_MODE_RELAXED`).

        Until the end the caller neither synchronises, queries nor destroys a stream that records,
        nor the device as a whole, nor an event whose last record is recorded, ever; lets none of
        them wait for events from outside, nor for a callback or a graph; and does nothing at all in
        the default stream if one of them is not NON_BLOCKING. A driver that refuses such a call may
        spoil the recording.

        Raises:
            DeviceError: the stream records already.
        """
        self._unsupported("capture_begin")

    def capture_end(self, stream: int) -> tuple[int, int]:
        """May. End the recording that was begun in `stream`, for all streams that joined it.

        Work that is handed to them from now on is run again. The graph names the memory and the
        functions that its work does; the caller keeps them.

        Returns:
            The handle of a graph that is ready to be launched, and how many copies, fills and
            launches it has, as the driver counts them.

        Raises:
            CaptureError: a stream that joined has work on which nothing of `stream` depends, or the
                driver says that the recording is spoilt. It is ended all the same and nothing of it
                is kept.
        """
        self._unsupported("capture_end")

    def capture_cancel(self, stream: int) -> None:
        """May. As `capture_end`, but keep nothing of it; also of one that is spoilt."""
        self._unsupported("capture_cancel")

    def capture_query(self, stream: int) -> bool:
        """May. Whether what is handed to `stream` is recorded, be it by others than Haulage.

        Default: no. It may be asked of any stream, also while others record, and spoils nothing.

        Raises:
            DeviceError: there is no such stream.
        """
        self.stream_query(stream)
        return False

    def graph_launch(self, graph: int, stream: int) -> None:
        """May. Hand all work of a graph to `stream`, as one piece of work.

        It begins when earlier work of the stream is done, and later work of the stream waits for
        its end; inside, what was recorded in one order is run in that order. Two launches of a
        graph never overlap, whatever their streams. A fault is raised as one of `launch` is.
        """
        self._unsupported("graph_launch")

    def graph_destroy(self, graph: int) -> None:
        """May. Give a graph back; launches of it that are not done yet run to their end."""
        self._unsupported("graph_destroy")

    def messages(self, sign: int) -> tuple[list[tuple[int, bytes]], int]:
        """May. Take what kernels of all devices have told so far; never waits. Default: nothing.

        `sign` is 1 for messages with positive numbers, -1 for the others. Returns (number, bytes of
        its 8-byte cells) for each, in order, and how many more there was no room for.
        """
        return [], 0

    def unraised(self) -> list[BaseException]:
        """May. Take what failed on any device and no wait has raised so far; never waits.

        Default: nothing.
        """
        return []

    def profile(self, record: bool) -> bool:
        """May. Let the maker's profiler record from here on, or no more; whether there is one."""
        return False

    def _unsupported(self, method: str) -> NoReturn:
        raise Unsupported(f"the {self.name} back end has no {method}")
