"""Copies from and to the host that no SmartArray makes, told to those who record copies."""

import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from haulage.runtime.buffers.copy import TO_HOST, Copy
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry import layout
from haulage.runtime.geometry.numpy_arrays import bounds
from haulage.runtime.memory import Block
from haulage.runtime.process import call_sites, observing, runtime
from haulage.runtime.process.call_sites import CallSite
from haulage.runtime.process.observing import Argument
from haulage.runtime.transfers.entries import HOST, Transfer

# What a program calls, in words, where the name does not say it.
_CALLED = {
    "__setitem__": "a[...] = values",
    "_setitem": "a[...] = values",
    "setitem": "a.setitem(...)",
    "__getitem__": "a[...]",
    "_getitem": "a[...]",
    "getitem": "a.getitem(...)",
    "__array__": "NumPy (__array__)",
    "__iter__": "iteration",
    "__contains__": "value in a",
    "__reduce__": "pickling",
    "array_anew": "unpickling",
    "record_anew": "unpickling",
    # Registered in `integrations/`, and tasks of `haulage.dask`.
    "_Upload": "haulage.dask.to_device",
    "_download": "haulage.dask.to_host",
    "_of_device_array": "Dask (its token)",
    "dask_deserialise": "Dask (received, or read back from disk)",
    "dask_serialise": "Dask (to be sent, or spilled to disk)",
}


class HostCopy(NamedTuple):
    """A copy between a host array and a device, and who asked for it.

    Attributes:
        copy: what is copied.
        host: the host array, or the part of it that is copied.
        block: the device's memory.
        called: what the program called, in words: 'to_device', 'kernel f', ...
        argument: of which launch it is an argument; None: of none.
        call_site: the line of the program.
    """

    copy: Copy
    host: np.ndarray
    block: Block
    called: str
    argument: Argument | None
    call_site: CallSite

    @property
    def stream(self) -> Stream:
        """What the copy is handed to."""
        return self.copy.stream

    @property
    def to_host(self) -> bool:
        """Its direction."""
        return self.copy.direction is TO_HOST

    @property
    def is_new(self) -> bool:
        """Whether the host array was made for the copy."""
        return self.copy.is_new

    @property
    def address(self) -> int:
        """The device's, of the element (0, ..., 0)."""
        return self.copy.on_device.address

    @property
    def nbytes(self) -> int:
        """How many bytes the elements have."""
        return self.copy.nbytes

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie one behind the other, on the device as they do on the host."""
        return self.copy.is_dense

    @property
    def transfer(self) -> Transfer:
        """The entry for it."""
        copy, host, device = self.copy, self.host, str(self.stream.device)
        why = self.called
        if self.argument is not None and self.argument.name:
            why = f"{why}, argument {self.argument.name!r}"
        address, strides = copy.on_device
        low, high = layout.extent(copy.shape, strides, copy.itemsize)
        return Transfer(
            f"array {layout.in_words(host.shape, host.dtype)}",
            *((device, HOST) if self.to_host else (HOST, device)),
            self.nbytes,
            self.stream.handle,
            why,
            _looked=self.call_site,
            _of=(bounds(host), (address + low, address + high)),
        )


def recorded(copy: Copy, perform: Callable[[], object]) -> None:
    """`perform()`, which makes a copy from or to the host, told to those who record copies.

    What a stream records for a graph is not done now, and not told.
    """
    host, block = copy.host, copy.block
    captured = copy.stream.handle in copy.stream.device.capturing
    if host is None or block is None or not copy.nbytes or captured:
        perform()
        return
    argument = observing.launching.argument
    caller = called() if argument is None else argument.why
    what = HostCopy(copy, host, block, caller, argument, call_sites.current())
    call = perform
    for watcher in runtime.current.watchers:
        call = partial(watcher.around, what, call)
    call()


def record_between(device: Device, copy: Copy) -> None:
    """Tell those who record copies of one from `device` to that of the copy's stream."""
    stream = copy.stream
    if stream.handle in stream.device.capturing:
        return
    nbytes, source, target = copy.nbytes, copy.source.address, copy.target.address
    one = Transfer(
        f"array of {nbytes:,} bytes",
        *(str(device), str(stream.device), nbytes, stream.handle, called()),
        _looked=call_sites.current(),
        _of=((source, source + nbytes), (target, target + nbytes)),
    )
    for watcher in runtime.current.watchers:
        watcher.moved(one)


def called() -> str:
    """What the program has called of Haulage's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and call_sites.is_own(frame.f_back.f_code):
        frame = frame.f_back
    name = frame.f_code.co_name
    if name == "__call__":
        name = frame.f_code.co_qualname.split(".")[0]
    if frame.f_globals.get("__name__", "").startswith("numpy"):
        return f"numpy.{name}"
    return _CALLED.get(name, name)
