"""Kernels with a launch configuration."""

from typing import TYPE_CHECKING, Any, Self

from haulage._core.launches import LauncherBase, call_plainly, launch
from haulage.errors import HaulageError
from haulage.kernel.parameters import prepared
from haulage.runtime.launch.loaded import Configuration
from haulage.runtime.launch.plan import Plans
from haulage.tracebacks import shorten

if TYPE_CHECKING:
    from haulage.kernel.kernel import Kernel


class Launcher(LauncherBase):
    """A kernel with a launch configuration; calling it launches the kernel.

    `plans` are those of launches with the same configuration.
    """

    __slots__ = ()

    def __init__(
        self, kernel: "Kernel", configuration: Configuration | None, plans: Plans | None = None
    ) -> None:
        self.kernel = kernel
        self.configuration = configuration
        self.plans = {} if plans is None else plans

    # Calls come here where it takes more than `launch_plainly`.
    def __call__(self, *args: Any, **named: Any) -> None:
        try:
            if named or not self.launch_plainly(args):
                self._launch_bound(args, named)
        except HaulageError as error:
            shorten(error)
            raise

    def _launch_bound(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Launch with the arguments that a call of the Python function would have, and what the
        kernel's extensions make of them."""
        # There is nothing to run in `forall(0)`.
        if self.configuration is None:
            return
        kernel, stream = self.kernel, self.configuration.stream
        args = kernel.parameters.bind(args, named)
        args, later = prepared(kernel.extensions, args, stream)
        launch(kernel, self.plans, self.configuration, stream, args)
        for call in later:
            call()

    def in_stream(self, stream: Any) -> Self:
        """One that has the rest in common, in another stream, as `Configuration` has it."""
        return type(self)(self.kernel, self.configuration._replace(stream=stream), self.plans)

    def launch_in(self, stream: Any, args: tuple[Any, ...]) -> None:
        """Launch in another stream than the configuration's, with one value for each parameter."""
        launch(self.kernel, self.plans, self.configuration, stream, args)

    @property
    def griddim(self) -> Any:
        """(x, y, z) blocks; None for a launch of no tasks."""
        return self.configuration and self.configuration.grid

    @property
    def blockdim(self) -> Any:
        """(x, y, z) threads of a block; None for a launch of no tasks."""
        return self.configuration and self.configuration.block

    @property
    def stream(self) -> Any:
        """The stream, 0 for the default stream of the arguments' device."""
        return self.configuration and self.configuration.stream

    @property
    def sharedmem(self) -> Any:
        """Bytes of dynamic shared memory of a block; None for a launch of no tasks."""
        return self.configuration and self.configuration.shared_bytes

    def __reduce__(self) -> Any:
        # Streams are of their process.
        kept = self.configuration and self.configuration._replace(stream=0)
        return type(self), (self.kernel, kept)

    def __repr__(self) -> str:
        return f"<{self.kernel!r} with {self.configuration}>"


call_plainly(Launcher, HaulageError, shorten)
