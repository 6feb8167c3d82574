"""Which memory manager is asked for memory."""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from haulage import config, forks
from haulage.runtime.devices.device import Device
from haulage.runtime.memory import Block, allocators
from haulage.runtime.plugins import asking
from haulage.runtime.plugins.managers import (
    INTERFACE_VERSION,
    BaseCUDAMemoryManager,
    DriverMemoryManager,
)

Plugin = type[BaseCUDAMemoryManager]

_lock = forks.lock()
_plugin: Plugin | None = None
_managers: dict[Device, BaseCUDAMemoryManager] = {}


def set_memory_manager(mm_plugin: Plugin) -> None:
    """Let a plug-in give all memory of devices that is asked for from now on.

    Args:
        mm_plugin: a class derived from `BaseCUDAMemoryManager`; one object of it is made for each
            device, when memory is first asked for.

    What an earlier plug-in has given stays its own, and comes back to it.

    Raises:
        TypeError: it is no class, or lacks a method that it has to have.
        RuntimeError: the plug-in is written for another version of the interface.
    """
    plugin: Any = mm_plugin
    if not callable(plugin):
        raise TypeError(
            f"set_memory_manager({mm_plugin!r}): expected a class derived from "
            "BaseCUDAMemoryManager; an object with allocate and deallocate is for "
            "haulage.memory.set_allocator"
        )
    with asking.blamed(plugin, "__init__", ", which was made with context=None for its version"):
        version = plugin(context=None).interface_version
    if version != INTERFACE_VERSION:
        raise RuntimeError(
            f"EMM Plugin interface has version {version} - version {INTERFACE_VERSION} required"
        )
    choose(mm_plugin)


def choose(plugin: Plugin | None) -> None:
    """`set_memory_manager` for one whose version was looked at; None: the drivers again."""
    global _plugin
    with _lock:
        _plugin = plugin
        _managers.clear()
        allocators.set_plugin(None if plugin is None else _asked)


def chosen() -> Plugin | None:
    """The plug-in that was chosen; None if there is none."""
    return _plugin


def manager_of(device: Device) -> BaseCUDAMemoryManager:
    """The memory manager of a device: the plug-in's, or Haulage's own.

    Raises:
        RuntimeError: `NUMBA_CUDA_MEMORY_MANAGER` names a module that has none.
    """
    with _lock:
        if _plugin is None and allocators.plugin() is not None:
            set_memory_manager(_named(config.memory_manager()))
        manager = _managers.get(device)
        if manager is None:
            make: Any = _plugin or DriverMemoryManager
            with asking.blamed(make, "__init__"):
                manager = make(context=device.get_primary_context())
            assert manager is not None
            with asking.blamed(make, "initialize"):
                manager.initialize()
            _managers[device] = manager
        return manager


def forget(device: Device) -> None:
    """Make a new manager for the device when one is next asked for."""
    with _lock:
        _managers.pop(device, None)


def _named(module: str | None) -> Plugin:
    try:
        if str(module).startswith("."):
            raise ImportError("expected the whole name of a module, as 'package.module'")
        plugin: Plugin = importlib.import_module(str(module))._numba_memory_manager
    except Exception as error:
        raise RuntimeError(
            f"Failed to use memory manager from {module}, which NUMBA_CUDA_MEMORY_MANAGER names: "
            f"{error}; unset it for Haulage's own"
        ) from error
    return plugin


class _Asked:
    """`memory.Provider` by plug-ins."""

    def allocate(self, device: Device, nbytes: int, kind: str, flags: int) -> Block:
        return asking.allocate(manager_of(device), device, nbytes, kind, flags)

    def pin(
        self, device: Device, owner: Any, address: int, nbytes: int
    ) -> tuple[int, Callable[[], object]]:
        given = asking.mempin(manager_of(device), owner, address, nbytes, True)
        return given.device_pointer, partial(asking.unpin, given)

    def export(self, block: Block, pointer: int, nbytes: int) -> Any:
        return asking.export(block, pointer, nbytes)

    def reset(self, device: Device) -> None:
        manager = _managers.get(device)
        if manager is not None:
            with asking.blamed(manager, "reset"):
                manager.reset()


_asked = _Asked()


def follow_environment() -> None:
    """Let the plug-in that `NUMBA_CUDA_MEMORY_MANAGER` names, if it does, give all memory; its
    module is imported when memory is first asked for."""
    if config.memory_manager() is not None:
        allocators.set_plugin(_asked)
