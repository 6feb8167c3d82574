"""The state of `numba.cuda.cudadrv.driver` that programs set by assignment."""

from types import ModuleType
from typing import Any

from haulage.runtime.plugins import choice


class DriverModule(ModuleType):
    """The class of that module: `driver._memory_manager = None` gives Haulage's own memory back."""

    @property
    def _memory_manager(self) -> Any:
        return choice.chosen()

    @_memory_manager.setter
    def _memory_manager(self, plugin: Any) -> None:
        choice.choose(plugin)
