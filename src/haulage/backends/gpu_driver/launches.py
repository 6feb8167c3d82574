"""Starting kernels: see `haulage._core.driver`."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from haulage._core.driver import ELSEWHERE, NOT_PERMITTED, DriverStart
from haulage.backends.gpu_driver.calls import Calls, named_stream
from haulage.backends.gpu_driver.contexts import Contexts

Dims = tuple[int, int, int]


class Launch(NamedTuple):
    """A kernel, its grid, and the block of its arguments."""

    function: int
    grid: Dims
    block: Dims
    shared_bytes: int
    args: bytes


class Launches(ABC):
    """Starts kernels. Safe to use from any thread."""

    def __init__(self, calls: Calls, contexts: Contexts) -> None:
        self._calls = calls
        self._contexts = contexts
        self._functions = calls.address("LaunchKernel"), calls.address("CtxGetCurrent")

    @abstractmethod
    def start_cooperative(self, launch: Launch, stream: int) -> None:
        """Start a kernel that has a barrier of its grid, whose blocks are all there at one time."""

    def prepare(
        self, device: int, function: int, grid: Dims, block: Dims, shared_bytes: int
    ) -> DriverStart:
        """What starts such a launch, which has no header: see `Backend.prepare_launch`."""
        launch, ask = self._functions
        return DriverStart(
            device,
            self._contexts.of(device),
            ask,
            launch,
            self._calls.launch_end,
            function,
            grid,
            block,
            shared_bytes,
            self._calls.last,
            self._again,
        )

    def start(self, device: int, launch: Launch, stream: int) -> None:
        """Start a kernel once."""
        self.prepare(device, *launch[:4])(stream, launch.args)

    def _again(self, start: DriverStart, stream: int, args: bytes, status: int) -> None:
        """After a launch that did not go."""
        if self._calls.inside.callback:
            status = NOT_PERMITTED
        elif status == ELSEWHERE:
            self._contexts.activate(start.device)
            status = start.call(stream, args)
        if status:
            self._contexts.check_process()
            launch = Launch(start.function, start.grid, start.block, start.shared_bytes, args)
            raise self._calls.refused(self._asked("LaunchKernel", launch, stream), status)

    def _asked(self, call: str, launch: Launch, stream: int) -> str:
        """What an error says of a launch."""
        function, grid, block, shared_bytes, args = launch
        name = self._calls.names.get(function, f"{function:#x}")
        return (
            f"{self._calls.named(call)} of {name} with {grid} blocks of {block} threads, "
            f"{shared_bytes} bytes of dynamic shared memory and {len(args)} bytes of "
            f"arguments in {named_stream(stream)}"
        )
