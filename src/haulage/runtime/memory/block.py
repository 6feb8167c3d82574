"""Blocks of memory: what they are, which streams still use them, and how they go back."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice

from haulage._core.memory import BlockBase, DeallocationBase, Pool, conditions, live_blocks
from haulage.backends.base import MANAGED, MAPPED, PINNED, PORTABLE
from haulage.errors import DeviceError
from haulage.runtime.devices import ordering, pending
from haulage.runtime.devices.capture import capture_of
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.memory.heap import Busy, Extent, heaps
from haulage.runtime.process import call_sites, finalize, runtime


class Deallocation(DeallocationBase):
    """Gives the memory of a block back: once, also where Ctrl-C comes in between.

    It holds the block's `home`, so that this stream is there as long as memory is kept for it.
    """

    __slots__ = ("home", "pool", "release", "withdrawn")

    def __init__(self, block: "Block") -> None:
        self.pool = block.pool
        self.device_ptr = block.device_ptr
        self.nbytes = block.nbytes
        self.home = block.home
        self.release = block.release
        self.returned = self.withdrawn = False

    def _begin(
        self,
        device: Device,
        streams: dict[int | Stream, Stream] | None,
        home: Stream | None,
        action: Callable[[], object],
    ) -> None:
        if home is not None and not streams:
            action()
        else:
            # What is used in the home stream next waits for the default one anyway, see
            # `Block._note`.
            users = tuple((streams or {}).values())
            pending.after(device, users, action, also_default=home is None)

    def _give(self) -> None:
        pool, release = self.pool, self.release
        if release is not None or pool is None:
            if pool is None:
                self.returned = True
            elif not pool.end(self):
                return  # another thread was first
            self.release = None
            if release is not None:
                release()
            return
        try:
            pool.heap.give(pool, self)
        except Busy:
            finalize.later(self)

    def withdraw(self, device: Device) -> None:
        """Give back what is exported, as soon as no other process has it open.

        The driver is asked once only, whatever comes of it: asked again, it knows the memory no
        more and says that it is free.
        """
        if self.withdrawn:
            return
        self.withdrawn = True
        _withheld[device, self.device_ptr] = self
        device.activate()
        for piece in device.backend.ipc_withdraw(self.device_ptr):
            _withheld.pop((device, piece), _nothing)()


def _nothing() -> None:
    """There are no bytes."""


# What gives memory back that is free, but lies in pages which other processes still have open.
_withheld: dict[tuple[Device, int], Deallocation] = {}


# A block remembers this many streams before it looks which of them are done with it.
_MANY_STREAMS = 8


class Block(BlockBase):
    """A piece of memory that a device can reach, given back when the last reference to it goes.

    Attributes:
        device: its `Device`.
        device_ptr, host_ptr: addresses; 0: not addressable there, or no bytes.
        nbytes: as many as were asked for.
        kind: 'device', 'pinned', 'mapped' or 'managed'.
        generation: never the same for two blocks.
        home: the stream whose work can use the memory again as soon as it is given back; None: no
            work of any stream may use it then.
        pool: what it is counted in, and goes back to unless it came from the driver alone; None:
            memory of others.
        of_others: whether someone else owns the memory.
        release: what gives the memory back where it is not a pool's; None: the pool.
        exposed: others, NumPy arrays for one, address the memory directly: `close` then stops its
            use by the device, and the memory lives as long as they hold the block.
        call_site: which line asked for it.
        born: when, by `time.monotonic()`.
    """

    # The stream that the memory's owner works in; see `adopted.StreamOrderedBlock`.
    producer: Stream | None = None

    __slots__ = ()

    def use(self, stream: Stream | None = None) -> None:
        """Note that work handed to `stream` uses this memory; to be called before each use.

        Where the stream is captured, the capture holds it instead.

        Raises:
            ValueError: the block is closed.
        """
        if self.closed:
            host_checker = runtime.current.host_checker
            if host_checker is not None:
                host_checker.used_after_close(self)
            where = f" at {call_sites.site(self.closed_at)}" if self.closed_at else ""
            raise ValueError(
                f"this memory ({self.nbytes} bytes on {self.device}) was given back by close()"
                f"{where}; allocate a new array"
            )
        if stream is not None and stream.device.capturing and (captured := capture_of(stream)):
            captured.hold(self)
            return
        # The device's default stream is not noted: who gives memory back looks at it anyway.
        if (
            stream is not None
            and stream is not self.home
            and (stream.handle or stream.device is not self.device)
            and (
                self.streams is None
                or (stream.handle if stream.device is self.device else stream) not in self.streams
            )
        ):
            self._note(stream)

    def close(self) -> None:
        """Give the memory back now, or as soon as the streams that use it are done with it."""
        if not self.closed:
            for watcher in runtime.current.watchers:
                watcher.closing(self)
            self.closed_at = call_sites.current()
            self.closed = True
            if not self.exposed:
                self._give_back()

    def is_pinned_for(self, device: Device) -> bool:
        """Whether copies between the host and `device` can use its memory, which is the host's too,
        without waiting: portable memory is so for all devices of its driver."""
        if device is self.device:
            return True
        pool = self.pool
        return (
            pool is not None
            and pool.heap.kind in (PINNED, MAPPED)
            and (self.device.properties.pins_for_all or bool(pool.heap.flags & PORTABLE))
            and device.backend is self.device.backend
        )

    def is_mapped_for(self, device: Device) -> bool:
        """Whether kernels on `device` reach it as it is no device's own memory: managed memory of
        its driver, and mapped memory that is pinned for it."""
        if self.kind == MANAGED:
            return device.backend is self.device.backend
        return self.kind == MAPPED and self.is_pinned_for(device)

    def note_export(self, start: int, stop: int, readonly: bool, kept: bool = False) -> object:
        """What another library that is given some of its bytes is to hold besides itself: None,
        but for those whose giver wants to know. With `kept` whoever holds the block does."""
        return None

    @property
    def unit(self) -> Extent:
        """(address, bytes) of the memory in whose pages it lies, which no other memory does."""
        if self.pool is None or self.release is not None:
            return self.device_ptr, self.nbytes
        return self.pool.heap.unit_of(self.device_ptr, self.nbytes)

    def users(self) -> tuple[Stream, ...]:
        """The streams that may still use it, the default one among them."""
        noted = (*tuple((self.streams or {}).values()), self.device.default_stream)
        if self.home is None or self.home is self.device.default_stream:
            return noted
        return (self.home, *noted)

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<Block of {self.nbytes} bytes, {self.kind} memory on {self.device}{state}>"

    def _note(self, stream: Stream) -> None:
        if self.streams is None:
            self.streams = {}
        elif len(self.streams) >= _MANY_STREAMS:
            # Look at the two noted longest ago; what is still busy goes to the end.
            for key, noted in tuple(islice(self.streams.items(), 2)):
                self._forget_if_idle(key, noted, self.streams)
        if self.used_before and self.home is not None:
            host_checker = runtime.current.host_checker
            if host_checker is None:
                self._let_wait(stream, self.home)
            else:
                # A program cannot rely on it, as it is not so for new memory.
                with host_checker.unseen():
                    self._let_wait(stream, self.home)
        self.streams[stream.handle if stream.device is self.device else stream] = stream

    def _let_wait(self, stream: Stream, home: Stream) -> None:
        """Let a stream wait for the one who had the memory before and may still use it: in its home
        stream, or in the default one, for which blocking streams wait by themselves."""
        default = self.device.default_stream
        if home.handle and not home.idle():
            ordering.after(stream, home)
        if not stream._is_blocking and not default.idle():
            ordering.after(stream, default)

    @staticmethod
    def _forget_if_idle(
        key: int | Stream, stream: Stream, streams: dict[int | Stream, Stream]
    ) -> None:
        # Out of it before it is asked: other threads put it in for work that comes after that.
        is_idle = False
        try:
            streams.pop(key, None)
            with suppress(DeviceError):  # not known
                is_idle = stream.idle()
        finally:
            if not is_idle:
                streams[key] = stream

    def _give_back_later(self) -> bool:
        streams, home = self.streams, self.home
        back = Deallocation(self)
        action: Callable[[], object] = back
        if self.exported and home is not None:
            # Its pages may become others when it is withdrawn: no work may use them then.
            streams, home = {**(streams or {}), home.handle: home}, None
            action = partial(back.withdraw, self.device)
        # No call in between: of two threads one does it.
        if self.returned:
            return False
        self.returned = True
        self.release = None  # what it holds goes with the memory, not with the last array
        try:
            finalize.give_back(back.begin, self.device, streams, home, action)
        except BaseException:
            if not back.returned:
                finalize.later(back.begin, self.device, streams, home, action)
            raise
        return True


conditions.block_type = Block


def are_own(one: Block, other: Block) -> bool:
    """Whether two blocks are two allocations of Haulage's, so that no byte is in both."""
    return one.generation != other.generation and not (one.of_others or other.of_others)


def holding(device: Device, address: int, nbytes: int) -> Block | None:
    """The live block of Haulage's own that has `nbytes` bytes at `address`; None if none does.

    0 bytes lie where one would.
    """
    for block in live_blocks():
        if (
            block.device is device
            and not block.of_others
            and block.device_ptr <= address
            and address + max(nbytes, 1) <= block.device_ptr + block.nbytes
        ):
            return block
    return None


def close_all(device: Device) -> int:
    """Close every block of `device`; how many there were."""
    mine = [block for block in live_blocks() if block.device is device]
    for block in mine:
        block.close()
    return len(mine)


def stream_ends(device: Device, handle: int) -> None:
    """Let the memory of a stream go to others when its work is done."""
    for heap in tuple(heaps.values()):
        pool = heap.pools.pop(handle, None) if heap.device is device else None
        if pool is not None:
            heap.retiring.append(pool)
            pending.after_end(Stream(device, handle), partial(_retire, pool))


def _retire(pool: Pool) -> None:
    try:
        pool.heap.retire(pool)
    except Busy:
        finalize.later(_retire, pool)
