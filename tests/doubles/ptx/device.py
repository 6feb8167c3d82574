"""A device whose kernels are PTX: those of the NVIDIA target, executed by this machine's processor.

All but its code is the CPU device's: memory is the host's, streams and events are the processor's.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from doubles.processor import NeverOpposed
from doubles.ptx import ARCHITECTURE, runtime
from doubles.ptx.channel import Channel
from doubles.ptx.loading import HEADER, Loaded, check
from doubles.ptx.syntax import PTXError
from haulage import platforms
from haulage.backends.base import Backend, KernelStopped, Probe, Properties
from haulage.backends.cpu_driver.pool import POOL
from haulage.errors import DeviceError
from haulage.platforms import PLATFORMS
from haulage.runtime.devices import registry
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import Driver, Protocols
from haulage.runtime.process import runtime as process
from haulage.runtime.protocols.dlpack_structs import CPU

KIND = "ptx"
# All blocks of a cooperative launch are there at one time, each thread with a stack of its own.
_MOST_TOGETHER = 1 << 14


class PTXBackend(NeverOpposed):
    """The driver. There is one device, number 0."""

    name = KIND

    def __init__(self) -> None:
        super().__init__()
        self._channel = Channel()
        self._code: dict[int, tuple[Loaded, int]] = {}
        # Address of what runs blocks -> module, number of the module, name of the entry.
        self._functions: dict[int, tuple[Loaded, int, str]] = {}

    @classmethod
    def probe(cls) -> Probe:
        """It is there where there is a C compiler."""
        return Probe(runtime.compiler() is not None, ("a C compiler",), "a reader of PTX")

    def properties(self, device: int) -> Properties:
        """The processor's, with the architecture that code is made for."""
        found = super().properties(device)
        return dataclasses.replace(
            found,
            name="PTX",
            uuid=f"ptx-{found.uuid}",
            architecture=ARCHITECTURE,
            code_in_versions=False,
        )

    # ---- code ---------------------------------------------------------------------------------

    def load(self, code: bytes) -> int:
        """Load PTX."""
        try:
            module = Loaded(code.decode())
        except (PTXError, UnicodeDecodeError) as error:
            raise DeviceError(f"the ptx device did not take the code: {error}") from error
        handle = id(module)
        self._code[handle] = module, self._channel.introduce(module)
        return handle

    def unload(self, module: int) -> None:
        """Give it back."""
        if module not in self._code:
            raise DeviceError(f"the ptx device has no module {module}; it may be unloaded")
        gone, _ = self._code.pop(module)
        for address in [each for each, known in self._functions.items() if known[0] is gone]:
            del self._functions[address]
            POOL.waiting.discard(address)
        gone.close()

    def function(self, module: int, name: str) -> int:
        """The address of what runs blocks of an entry."""
        if module not in self._code:
            raise DeviceError(f"the ptx device has no module {module}; it may be unloaded")
        loaded, number = self._code[module]
        loaded.entry(name)
        address = loaded.address(name)
        self._functions[address] = loaded, number, name
        # Nothing is known of what its threads wait for.
        POOL.waiting.add(address)
        return address

    def symbol(self, module: int, name: str) -> tuple[int, int]:
        """(address, bytes) of a variable."""
        return self._code[module][0].symbol(name)

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        """Share a grid's blocks out over the worker threads."""
        self._submit(self._run, function, grid, block, shared_bytes, stream, args)

    def launch_cooperative(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        """Run all blocks by turns in one thread."""
        self._submit(self._run_together, function, grid, block, shared_bytes, stream, args)

    def function_info(self, function: int) -> dict[str, int]:
        """What a code says of itself: the most threads of a block."""
        loaded, _, name = self._functions[function]
        return {"max_threads": loaded.entry(name).most_threads or 1024}

    def max_cooperative_blocks(
        self, function: int, threads: int, shared_bytes: int, block_bytes: int
    ) -> int:
        """As many as have that many threads in all."""
        return _MOST_TOGETHER // threads

    def prepare_launch(
        self,
        device: int,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
    ) -> tuple[bytes, Callable[[int, bytes], None]]:
        """As the seam has it."""
        return Backend.prepare_launch(self, device, function, grid, block, shared_bytes)

    def messages(self, sign: int) -> tuple[list[tuple[int, bytes]], int]:
        """What kernels have told by the channel."""
        return self._channel.messages(sign)

    def _submit(
        self,
        run: Callable[[int, bytes], None],
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        loaded, _, name = self._functions[function]
        check(loaded.entry(name), block, args)
        launch = HEADER.pack(*grid, *block, shared_bytes, 0) + args
        self._streams.submit(stream, run, function, launch)

    def _run(self, function: int, launch: bytes) -> None:
        if POOL.run(function, launch):
            runtime.raise_error()
        self._look_for_fault(function)

    def _run_together(self, function: int, launch: bytes) -> None:
        loaded, _, name = self._functions[function]
        x, y, z, *_ = HEADER.unpack_from(launch)
        loaded.run_together(name, launch, x * y * z)
        self._look_for_fault(function)

    def _look_for_fault(self, function: int) -> None:
        fault = self._channel.fault(self._functions[function][1])
        if fault:
            raise KernelStopped(function, fault)


@functools.cache
def ptx_device() -> Device:
    """The one such device of the process."""
    return Device(KIND, PTXBackend(), 0)


@contextmanager
def registered(device: Device) -> Iterator[Device]:
    """While this holds, `device` is found among the others, and kernels can be made for it."""
    driver = Driver(device.kind, PTXBackend.probe, lambda: device.backend, protocols=Protocols(CPU))
    registry.register(driver)
    process.current.found[device.kind] = (device,)
    PLATFORMS[device.kind] = dataclasses.replace(PLATFORMS["nvidia"], name=device.kind)
    try:
        yield device
    finally:
        for table in (process.current.drivers, process.current.found, platforms.PLATFORMS):
            table.pop(device.kind, None)
