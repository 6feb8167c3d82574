"""Launches that are repeated with arguments of one kind, which are not looked at again."""

from typing import TYPE_CHECKING, Any

import numpy as np

from haulage import config
from haulage.errors import CaptureError
from haulage.kernel.overload import Overload
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.capture import capture_of
from haulage.runtime.device import Device
from haulage.runtime.launching.arguments import pack_array
from haulage.runtime.launching.launch import Configuration, use_memory
from haulage.runtime.launching.parts import current_part
from haulage.runtime.stream import Stream

if TYPE_CHECKING:
    from haulage.kernel.kernel import Kernel
    from haulage.kernel.launcher import Repeated


def start(
    overload: Overload,
    place: Device,
    configuration: Configuration,
    stream: Stream,
    args: tuple[Any, ...],
) -> bool:
    """Hand a kernel to `stream`, whose arguments and configuration fit; whether a host array is
    among the arguments, which is then in use until the stream has run it."""
    packed = overload.packer.pack(args)
    loaded = overload.load(place, configuration.block)
    on_host = use_memory(args, stream)
    if on_host and stream.handle in place.capturing:
        raise CaptureError(
            "a launch with host arrays waits until it is done, so a graph cannot have it; give it "
            "arrays of the device, mapped or managed ones"
        )
    for array in loaded.captured:
        array.block.use(stream)
    loaded.start(configuration, stream, packed)
    return on_host


def wait_for(stream: Stream) -> None:
    """Wait for a launch; if it was only recorded, let each launch of its graph wait."""
    captured = capture_of(stream)
    if captured is None:
        stream.finish()
    else:
        captured.waits = True


class PreparedLaunch:
    """A launch whose arguments may be others of the same kind, made by `Kernel.prepare_launch`.

    Host arrays among them are used in place, and the call waits for them.
    """

    __slots__ = ("_configuration", "_kernel", "_overload", "_place", "_repeated", "_waits")

    def __init__(
        self,
        kernel: "Kernel",
        overload: Overload,
        place: Device,
        configuration: Configuration,
        waits: bool,
        repeated: "Repeated | None",
    ) -> None:
        self._kernel = kernel
        self._overload = overload
        self._place = place
        self._configuration = configuration
        self._waits = waits
        self._repeated = repeated

    def __call__(self, args: tuple[Any, ...], stream: Stream) -> None:
        """Launch it with arguments that have the keys of the first ones, in a stream of the same
        device."""
        known = self._repeated
        if (
            known is not None
            and not stream.handle
            and known.chosen is self._kernel.chosen
            and known.way == config.thread_way()
        ):
            known.start(stream.handle, known.pack(known.header, *map(_packed, args)))
            on_host = known.waits
        else:
            on_host = start(self._overload, self._place, self._configuration, stream, args)
        if on_host or self._waits:
            wait_for(stream)


def _packed(value: Any) -> Any:
    """What `Repeated.pack` takes for an argument.

    Raises:
        ValueError: it is an array that is closed.
    """
    if type(value) is DeviceNDArray:
        value.block.use()
        return current_part(value).data
    return pack_array(value) if type(value) is np.ndarray else value
