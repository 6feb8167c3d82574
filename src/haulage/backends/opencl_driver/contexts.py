"""Which device is current in a thread: OpenCL has no such thing, so it is kept here."""

from haulage.backends.gpu_driver import contexts
from haulage.backends.opencl_driver.calls import Calls
from haulage.backends.opencl_driver.devices import Device


class Contexts(contexts.Contexts):
    """Makes devices current, with a context of OpenCL's for each that is used."""

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self._opencl = calls

    def of_device(self, device: int) -> Device:
        """What is known of a device, with its context."""
        self.of(device)
        return self._opencl.devices[device]

    def here(self) -> Device:
        """The same of the device that is current."""
        return self.of_device(self.device())

    def current(self) -> int:
        """The context that is current in this thread."""
        return self._opencl.current()

    def activate(self, device: int) -> None:
        """Make `device` current in this thread."""
        handle = self.handles.get(device)
        if handle is None or handle != self._opencl.current() or self._opencl.inside.callback:
            self._enter(device)
