"""Arrays of other libraries that a launch takes as they are described, without opening each anew.

Of those that DLPack's C exchange API or the CUDA array interface describes, what a launch needs
besides the address is kept by description; and their libraries' streams are known, so that events
order what follows. All others are opened in the launch's stream, by `exchange.foreign`.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from haulage import config
from haulage._core.exchange import Exchange
from haulage._core.packing import pack_array, unit_axis
from haulage.runtime.arrays import keys
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.devices import ordering, registry
from haulage.runtime.devices.device import Device
from haulage.runtime.exchange import foreign
from haulage.runtime.geometry.numpy_arrays import address_of
from haulage.runtime.launch import packing
from haulage.runtime.protocols import dlpack
from haulage.runtime.protocols.cuda_array_interface import NAME
from haulage.runtime.protocols.dlpack_exchange import exchange_of, tensor_of

# The numbers that other libraries have for the default stream, whose handle is 0.
_LEGACY = 1


class Producer:
    """Who knows in which stream a library works just now, on one device."""

    __slots__ = ("device_id", "device_type", "exchange")

    def __init__(self, exchange: Exchange, place: dlpack.Place) -> None:
        self.exchange = exchange
        self.device_type, self.device_id = place

    def handle(self) -> int:
        """The handle of that stream."""
        return self.exchange.current_stream(self.device_type, self.device_id)


class Layout:
    """What arrays with one description are in a launch.

    Attributes:
        key: what code is chosen by.
        device: that they are on; None: they are in the host's memory.
        before, behind: the address, in their field of the argument block.
        producer: whose stream its work is to be ordered with; None: nobody's, or one that each
            array names.
        kind: the `kinds.Kind`, once one was made.
        unit_axis: as the kind has it.
    """

    __slots__ = ("before", "behind", "device", "key", "kind", "producer", "unit_axis")

    def __init__(self, sample: DeviceNDArray | np.ndarray, producer: Producer | None) -> None:
        self.device: Device | None = None
        if isinstance(sample, np.ndarray):
            self.key, packed = keys.of_host_array(sample), pack_array(sample, address_of(sample))
        else:
            self.key, packed = sample._code_key, pack_array(sample, sample.device_pointer)
            self.device = sample.device
        self.before, self.behind = packing.around_address(packed)
        self.unit_axis = unit_axis(packed)
        self.producer = producer
        self.kind: Any = None


# An argument: its layout, its bytes in the argument block, and whose work to order with: a
# producer, the number of a stream, or None.
Described = tuple[Layout, bytes, Producer | int | None]
_Describe = Callable[[Any], Described | None]

_MOST_LAYOUTS = 4096
# Of arrays that have the CUDA array interface.
_layouts: dict[Any, Layout] = {}


def describe(value: Any) -> Described | None:
    """What another library's array is in a launch; None: it has to be opened.

    Raises:
        BufferError: it cannot be used where it is.
    """
    exchange = exchange_of(type(value))
    if exchange is not None:
        return _by_exchange(exchange)(value)
    return _by_interface(value) if hasattr(type(value), NAME) else None


def _keep(layouts: dict[Any, Layout], key: Any, layout: Layout) -> Layout:
    if len(layouts) >= _MOST_LAYOUTS:
        layouts.clear()
    layouts[key] = layout
    return layout


# ---- DLPack's C exchange API --------------------------------------------------------------------


@cache
def _by_exchange(exchange: Exchange) -> _Describe:
    look = exchange.look
    layouts: dict[Any, Layout] = {}

    def described_tensor(value: Any) -> Described | None:
        record = look(value)
        rest = record[8:]
        layout = layouts.get(rest)
        if layout is None:
            made = _layout_of(exchange, record)
            if made is None:
                return None
            layout = _keep(layouts, rest, made)
        return layout, layout.before + record[:8] + layout.behind, layout.producer

    return described_tensor


def _layout_of(exchange: Exchange, record: bytes) -> Layout | None:
    tensor = tensor_of(record, None)
    if dlpack.on_host(tensor.place):
        return Layout(tensor.as_numpy(), None)
    for device in registry.devices():
        if dlpack.reaches(device, tensor.place):
            return Layout(foreign.over(device, tensor), Producer(exchange, tensor.place))
    return None


# ---- the CUDA array interface -------------------------------------------------------------------


def _by_interface(value: Any) -> Described | None:
    device = registry.current_device()
    if device.properties.host_memory_is_device_memory:
        return None  # where each address is looked up
    described: Any = getattr(value, NAME, None)
    try:
        pointer, readonly = described["data"]
        number = described["stream"]
        shape, typestr = described["shape"], described["typestr"]
        key = device, shape, described.get("strides"), typestr, bool(readonly), pointer & 15
        layout = _layouts.get(key)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None  # one without a stream; or one that is not right, which is told there
    if described.get("mask") is not None or typestr[1:2] == "V":
        return None
    if not config.interface_sync():
        number = None
    elif type(number) is not int or number <= 0:
        return None  # without a stream, its owner has to be kept until the kernel is done
    if layout is None:
        layout = _keep(_layouts, key, Layout(foreign.described(device, described), None))
    data = layout.before + pointer.to_bytes(8, "little") + layout.behind
    return layout, data, number


# ---- the order of work --------------------------------------------------------------------------


class Order:
    """The order of a launch with the work of those who lend arrays to it.

    Args:
        device: on which it is.
        stream: the handle of its stream.
        producers: of its arguments.
    """

    __slots__ = ("_device", "_others", "_stream")

    def __init__(self, device: Device, stream: int, producers: list[Producer | int]) -> None:
        self._device = device
        self._stream = stream
        handles = {one if isinstance(one, int) else one.handle() for one in producers}
        self._others = {0 if handle == _LEGACY else handle for handle in handles} - {stream}

    def around(self, start: Callable[..., object], *launch: Any) -> None:
        """Make `start(*launch)`, which waits for what they have queued; what they queue from now on
        waits for it."""
        for other in self._others:
            ordering.order(self._device, self._stream, other)
        start(*launch)
        for other in self._others:
            ordering.order(self._device, other, self._stream)
