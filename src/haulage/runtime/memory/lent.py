"""Memory that another library lends, which works on it in a stream of its own."""

from collections.abc import Callable, Iterable

from haulage.backends.base import DEVICE
from haulage.runtime import finalize, ordering
from haulage.runtime.device import Device
from haulage.runtime.event import Event
from haulage.runtime.memory.block import Block
from haulage.runtime.stream import Stream, is_blocking


class Lent(Block):
    """Memory of others: when it goes back, later work of its lender waits for what used it here.

    Attributes:
        lender: the stream that the owner works in.
        arrival: marks the owner's work in it that comes before any use here; None: what uses the
            memory waits for that by itself.
        in_default: whether the default stream may have used it.
    """

    __slots__ = ("arrival", "in_default", "lender")

    lender: Stream
    arrival: Event | None
    in_default: bool

    def use(self, stream: Stream | None = None) -> None:
        """As `Block.use`."""
        super().use(stream)
        if stream is not None and not stream.handle:
            self.in_default = True

    def _note(self, stream: Stream) -> None:
        # The default stream has waited, see `lend`, and blocking ones wait for that.
        if self.arrival is not None and not is_blocking(stream):
            self.arrival.wait(stream)
        super()._note(stream)

    def _give_back_later(self) -> bool:
        users = list((self.streams or {}).values())
        if self.in_default:
            users.append(self.device.default_stream)
        given = super()._give_back_later()
        if given:
            # Not put off by `defer_cleanup`: the owner may use it at once.
            if finalize.has_to_wait():
                finalize.later(_return, self.lender, users)
            else:
                _return(self.lender, users)
        return given


def _return(lender: Stream, users: Iterable[Stream]) -> None:
    for stream in users:
        if not stream.idle():
            ordering.after(lender, stream)


def lend(
    device: Device,
    device_ptr: int,
    host_ptr: int,
    nbytes: int,
    release: Callable[[], object],
    lender: Stream,
    consumer: Stream | None,
) -> Lent:
    """`block.adopt` for device memory whose owner works on it in the stream `lender`.

    The host does not wait.

    Args:
        consumer: the stream that will use it and now waits for the lender; None: any stream may,
            and each does.
    """
    block = Lent(device, device_ptr, host_ptr, nbytes, DEVICE, release)
    block.of_others = True
    block.lender = lender
    block.arrival = None
    block.in_default = consumer is None
    if consumer is not None:
        ordering.after(consumer, lender)
    elif not lender.idle():
        block.arrival = Event(device, timing=False)
        block.arrival.record(lender)
        if lender.handle:
            block.arrival.wait(device.default_stream)
    return block
