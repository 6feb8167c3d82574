"""Kernels of roc: sizes are counted in work-items, and they can be asked as numba.roc's were."""

from typing import Any, Self

from haulage.errors import LimitError, RocLimitError
from haulage.kernel.configuration import for_tasks, in_work_items
from haulage.kernel.kernel import Kernel
from haulage.kernel.launcher import Launcher
from haulage.kernel.overload import Overload
from haulage.runtime.devices import registry
from haulage.runtime.launch.kinds import Kind
from haulage.runtime.launch.loaded import Configuration
from haulage.runtime.launch.plan import LaunchPlan
from haulage.tracebacks import brief_errors


class RocLauncher(Launcher):
    """A kernel of roc with its sizes; it has what the kernel has, and can be configured anew."""

    __slots__ = ()

    @property
    def global_size(self) -> tuple[int, ...]:
        """Work-items along each of the dimensions that are used."""
        return tuple(n * size for n, size in zip(*self._sizes(), strict=True))

    @property
    def local_size(self) -> tuple[int, ...]:
        """Work-items of a group along each of the dimensions that are used."""
        return self._sizes()[1]

    def copy(self) -> "RocLauncher":
        """Another one, of the same kernel with the same sizes."""
        return RocLauncher(self.kernel, self.configuration)

    def _sizes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(groups, work-items of a group) along each of the dimensions that are used."""
        if self.configuration is None:
            return (0,), (0,)
        groups, local, *_ = self.configuration
        used = max((axis for axis in (2, 1) if groups[axis] * local[axis] > 1), default=0) + 1
        return groups[:used], local[:used]

    def __getitem__(self, configuration: Any) -> Launcher:
        return self.kernel[configuration]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.kernel, name)


class RocKernel(Kernel):
    """A kernel of roc; `kernel[groups, local](*args)` launches it, or
    `kernel.configure(global_size, local_size)(*args)`.

    `assembly`, `binary` and `entry_name` are of a kernel for one signature: one that `jit` was
    given, that `specialize` has chosen, or the only one that it was launched with.
    """

    _launcher_class = RocLauncher
    _configuration_of = staticmethod(in_work_items)

    @brief_errors
    def forall(
        self, nelem: int, local_size: int = 0, stream: Any = None, sharedmem: int = 0
    ) -> Launcher:
        """A launch of `nelem` work-items in groups of `local_size` (0: 64, or what `launch_bounds`
        allows), or in one of `nelem` if that is less.

        The last group is a whole one: the kernel has to leave out the work-items beyond `nelem`.
        """
        return self._for_all(_for_elements, nelem, local_size, stream, sharedmem)

    def plan(
        self, configuration: Configuration, stream: Any, kinds: tuple[Kind, ...], args: Any
    ) -> LaunchPlan:
        """As `Kernel.plan`.

        Raises:
            RocLimitError: the device has not what such a launch takes.
        """
        try:
            return super().plan(configuration, stream, kinds, args)
        except LimitError as error:
            advice = "\n* Try reducing group-size." if error.about == "block" else ""
            raise RocLimitError(
                f"insufficient resources to launch kernel due to:\n* {error.args[0]}{advice}",
                about=error.about,
            ) from None

    def copy(self) -> Self:
        """Another kernel of the same function, which has what this one is compiled for."""
        made = type(self).__new__(type(self))
        vars(made).update(vars(self))
        made._configured, made.chosen, made.waits = {}, self.chosen, self.waits
        made.extensions, made.plain_count = self.extensions, self.plain_count
        return made

    @property
    def assembly(self) -> str:
        """The text of its code for the current device."""
        return self._only_overload("assembly").inspect_asm()

    @property
    def binary(self) -> bytes:
        """Its code as the current device's driver loads it."""
        return self._only_overload("binary").code.code

    @property
    def entry_name(self) -> str:
        """The name of its function in `assembly` and `binary`."""
        return str(self._only_overload("entry_name").code.metadata["entry"])

    @property
    def argument_types(self) -> tuple[Any, ...]:
        """The Numba types of its arguments."""
        return self._only_overload("argument_types").argument_types

    def _only_overload(self, asked: str) -> Overload:
        if self.specialized:
            return self._overload(registry.current_device().code_for, self._declared[0])
        known = tuple(self.overloads.values())
        if len(known) != 1:
            raise AttributeError(
                f"kernel {self.__qualname__}: {asked!r} is that of one signature, and it is "
                f"compiled for {len(known)}; take kernel.specialize(*arguments).{asked}",
                name=asked,
                obj=self,
            )
        return known[0]


def _for_elements(
    usual: int, nelem: Any, local_size: Any, stream: Any, shared_bytes: Any
) -> Configuration | None:
    made = for_tasks(usual, nelem, local_size, stream, shared_bytes)
    if made is None or made.grid[0] > 1:
        return made
    return made._replace(block=(min(int(nelem), made.block[0]), 1, 1))
