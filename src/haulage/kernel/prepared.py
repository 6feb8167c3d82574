"""Launches that are repeated with arguments of one kind, which are not looked at again."""

from typing import Any

from haulage.kernel.overload import Overload
from haulage.runtime.device import Device
from haulage.runtime.launching.launch import Configuration, use_memory
from haulage.runtime.stream import Stream


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
    if loaded.captured:
        use_memory(loaded.captured, stream)
    loaded.start(configuration, stream, packed)
    return on_host


class PreparedLaunch:
    """A launch whose arguments may be others of the same kind, made by `Kernel.prepare_launch`.

    Host arrays among them are used in place, and the call waits for them.
    """

    __slots__ = ("_configuration", "_overload", "_place", "_waits")

    def __init__(
        self, overload: Overload, place: Device, configuration: Configuration, waits: bool
    ) -> None:
        self._overload = overload
        self._place = place
        self._configuration = configuration
        self._waits = waits

    def __call__(self, args: tuple[Any, ...], stream: Stream) -> None:
        """Launch it with arguments that have the keys of the first ones, in a stream of the same
        device."""
        on_host = start(self._overload, self._place, self._configuration, stream, args)
        if on_host or self._waits:
            stream.synchronize()
