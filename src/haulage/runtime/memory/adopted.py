"""Blocks over memory that someone else owns: the program, another library, another process."""

from collections.abc import Callable, Iterable

from haulage._core.memory import Pool
from haulage.backends.base import DEVICE
from haulage.runtime.devices import ordering
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.event import Event
from haulage.runtime.devices.stream import Stream
from haulage.runtime.memory.block import Block
from haulage.runtime.process import finalize


def adopt(
    device: Device,
    device_ptr: int,
    host_ptr: int,
    nbytes: int,
    release: Callable[[], object],
    kind: str = DEVICE,
    pool: Pool | None = None,
) -> Block:
    """A block over memory that someone else owns, which `device` can reach.

    `release()` is called once, when the last reference to the block has gone (or it was closed) and
    the streams that use it are done with it; never at the end of the process. To keep an object
    alive until then, let it hold the object, as `partial(id, owner)` does. `pool` is what it is
    counted in, if it is.
    """
    block = Block(device, device_ptr, host_ptr, nbytes, kind, release, pool)
    block.of_others = True
    return block


class StreamOrderedBlock(Block):
    """Memory whose owner, another library, works on it in a stream of its own.

    Work here waits for the owner's work of before, and when the memory goes back the owner's later
    work waits for what used it here. The host waits for neither.

    Attributes:
        producer: the stream that the owner works in.
        ready: an event behind the owner's work in it; None: all that uses the memory waits already.
        used_in_default: whether the default stream may have used it.
    """

    __slots__ = ("producer", "ready", "used_in_default")

    producer: Stream
    ready: Event | None
    used_in_default: bool

    def use(self, stream: Stream | None = None) -> None:
        """As `Block.use`."""
        super().use(stream)
        if stream is not None and not stream.handle:
            self.used_in_default = True

    def _note(self, stream: Stream) -> None:
        # The default stream has waited, see `adopt_from_stream`, and blocking ones wait for that.
        if self.ready is not None and not stream._is_blocking:
            self.ready.wait(stream)
        super()._note(stream)

    def _give_back_later(self) -> bool:
        users = list((self.streams or {}).values())
        if self.used_in_default:
            users.append(self.device.default_stream)
        is_back = super()._give_back_later()
        if is_back:
            # Not put off by `defer_cleanup`: the owner may use it at once.
            if finalize.has_to_wait():
                finalize.later(_return, self.producer, users)
            else:
                _return(self.producer, users)
        return is_back


def _return(producer: Stream, users: Iterable[Stream]) -> None:
    for stream in users:
        if not stream.idle():
            ordering.after(producer, stream)


def adopt_from_stream(
    device: Device,
    device_ptr: int,
    host_ptr: int,
    nbytes: int,
    release: Callable[[], object],
    producer: Stream,
    consumer: Stream | None,
) -> StreamOrderedBlock:
    """`adopt` for device memory whose owner works on it in the stream `producer`.

    Args:
        consumer: the stream that will use it and now waits for the producer; None: any stream may,
            and each does.
    """
    block = StreamOrderedBlock(device, device_ptr, host_ptr, nbytes, DEVICE, release)
    block.of_others = True
    block.producer = producer
    block.ready = None
    block.used_in_default = consumer is None
    if consumer is not None:
        ordering.after(consumer, producer)
    elif not producer.idle():
        block.ready = Event(device, timing=False)
        block.ready.record(producer)
        if producer.handle:
            block.ready.wait(device.default_stream)
    return block
