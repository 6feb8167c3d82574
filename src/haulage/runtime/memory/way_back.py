"""How the memory of a block goes back, once nobody uses it any more."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from haulage.runtime import finalize
from haulage.runtime.device import Device
from haulage.runtime.memory import pending
from haulage.runtime.memory.heap import Busy
from haulage.runtime.stream import Stream

if TYPE_CHECKING:
    from haulage.runtime.memory.block import Block


class WayBack:
    """How the memory of a block goes back: once, also where Ctrl-C comes in between.

    `home` is there so that the stream is not given back before the memory that is kept for it.
    """

    __slots__ = ("device_ptr", "home", "nbytes", "pool", "release", "returned", "withdrawn")

    def __init__(self, block: "Block") -> None:
        self.pool = block.pool
        self.device_ptr = block.device_ptr
        self.nbytes = block.nbytes
        self.home = block.home
        self.release = block.release
        self.returned = self.withdrawn = False

    def begin(
        self,
        device: Device,
        streams: dict[int | Stream, Stream] | None,
        home: Stream | None,
        action: Callable[[], object],
    ) -> None:
        """Do `action`, this itself or a withdrawal, once the work of the block's users is done.

        Work of `streams` is; without any that of `home` need not be, as the memory is used next
        there. Without a home that of the default stream is waited for too.
        """
        try:
            if home is not None and not streams:
                action()
            else:
                # What is used in the home stream next waits for the default one anyway, see
                # `Block._note`.
                users = tuple((streams or {}).values())
                pending.after(device, users, action, also_default=home is None)
        except BaseException:
            # Such as Ctrl-C, or a driver that does not tell whether a stream is done.
            if not self.returned:
                finalize.later(self.begin, device, streams, home, action)
            raise

    def __call__(self) -> None:
        if self.returned:
            return
        pool, release = self.pool, self.release
        if release is not None or pool is None:
            if pool is None:
                self.returned = True
            elif not pool.take_back(self, []):
                return  # another thread was first
            self.release = None
            if release is not None:
                release()
            return
        try:
            pool.heap.give(pool, self.device_ptr, self.nbytes, self)
        except Busy:
            finalize.later(self)
        except BaseException:
            if not self.returned:
                finalize.later(self)
            raise

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


# Memory that is free but still open to other processes, as its neighbours are: how it goes back.
_withheld: dict[tuple[Device, int], WayBack] = {}
