"""Copies from and to the host that no SmartArray makes, told to those who watch copies."""

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from haulage.runtime import observing
from haulage.runtime.arrays import layout
from haulage.runtime.arrays.address import address_of
from haulage.runtime.memory import owners
from haulage.runtime.memory.owners import Mark
from haulage.runtime.observing import Argument
from haulage.runtime.transfers.entry import HOST, Transfer

if TYPE_CHECKING:
    import numpy as np

    from haulage.runtime.device import Device
    from haulage.runtime.memory import Block
    from haulage.runtime.stream import Stream

# What a program calls, in words, where the name does not say it.
_CALLED = {
    "__setitem__": "a[...] = values",
    "setitem": "a.setitem(...)",
    "__getitem__": "a[...]",
    "getitem": "a.getitem(...)",
    "__array__": "NumPy (__array__)",
    "__iter__": "iteration",
    "__contains__": "value in a",
    "__reduce__": "pickling",
}


class Place(NamedTuple):
    """Memory of a device.

    Attributes:
        block: of which it is a part.
        address: of the element (0, ..., 0).
        nbytes: how many the elements have.
        dense: whether they lie one behind the other as they do on the host.
        ends: addresses of the first byte, and of the one behind the last.
    """

    block: "Block"
    address: int
    nbytes: int
    dense: bool
    ends: tuple[int, int]


class HostCopy(NamedTuple):
    """A copy between a host array and a device.

    Attributes:
        host: the host array, or the part of it that is copied.
        stream: what the copy is handed to.
        down: whether it is to the host.
        place: the device's end.
        is_new: whether the host array was made for the copy.
        called: what the program called, in words: 'to_device', 'kernel f', ...
        argument: of which launch it is an argument; None: of none.
        mark: the line of the program.
    """

    host: "np.ndarray"
    stream: "Stream"
    down: bool
    place: Place
    is_new: bool
    called: str
    argument: Argument | None
    mark: Mark

    @property
    def transfer(self) -> Transfer:
        """The entry for it."""
        host, device = self.host, str(self.stream.device)
        low, high = layout.extent(host.shape, host.strides, host.itemsize)
        at = address_of(host)
        why = self.called
        if self.argument is not None and self.argument.name:
            why = f"{why}, argument {self.argument.name!r}"
        return Transfer(
            f"array {layout.in_words(host.shape, host.dtype)}",
            *((device, HOST) if self.down else (HOST, device)),
            self.place.nbytes,
            self.stream.handle,
            why,
            _looked=self.mark,
            _of=((at + low, at + high), self.place.ends),
        )


def watched(
    host: "np.ndarray",
    stream: "Stream",
    down: bool,
    place: Place,
    is_new: bool,
    copy: Callable[..., None],
    work: tuple[Any, ...],
) -> None:
    """`copy(*work)`, told to those who watch.

    What a stream records for a graph is not done now, and not told.
    """
    if not place.nbytes or stream.handle in stream.device.capturing:
        copy(*work)
        return
    argument = observing.launching.argument
    caller = called() if argument is None else argument.why
    what = HostCopy(host, stream, down, place, is_new, caller, argument, owners.mark())
    call: Callable[[], object] = partial(copy, *work)
    for watcher in observing.watchers:
        call = partial(watcher.around, what, call)
    call()


def tell_between(device: "Device", stream: "Stream", source: int, target: int, nbytes: int) -> None:
    """Tell of a copy from `device` to that of `stream`, between these addresses."""
    if stream.handle in stream.device.capturing:
        return
    ends = (source, source + nbytes), (target, target + nbytes)
    one = Transfer(
        f"array of {nbytes:,} bytes",
        *(str(device), str(stream.device), nbytes, stream.handle, called()),
        _looked=owners.mark(),
        _of=ends,
    )
    for watcher in observing.watchers:
        watcher.moved(one)


def called() -> str:
    """What the program has called of Haulage's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and owners.is_own(frame.f_back.f_code):
        frame = frame.f_back
    name = frame.f_code.co_name
    if name == "__call__":
        name = frame.f_code.co_qualname.split(".")[0]
    if frame.f_globals.get("__name__", "").startswith("numpy"):
        return f"numpy.{name}"
    return _CALLED.get(name, name)
