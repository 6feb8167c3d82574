"""Which memory manager is asked, and how Haulage asks it."""

import importlib
import threading
from typing import Any

from haulage import config
from haulage.backends.base import (
    ATTACH_HOST,
    DEVICE,
    MANAGED,
    MAPPED,
    PORTABLE,
    WRITE_COMBINED,
)
from haulage.errors import Unsupported
from haulage.runtime import memory
from haulage.runtime.arrays.strided import Span
from haulage.runtime.context import Context
from haulage.runtime.device import Device
from haulage.runtime.memory import Block
from haulage.runtime.plugins.managers import (
    INTERFACE_VERSION,
    BaseCUDAMemoryManager,
    DriverMemoryManager,
)

Plugin = type[BaseCUDAMemoryManager]

_lock = threading.RLock()
_plugin: Plugin | None = None
_managers: dict[Device, BaseCUDAMemoryManager] = {}


def set_memory_manager(mm_plugin: Plugin) -> None:
    """Let a plug-in give all memory of devices that is asked for from now on.

    Args:
        mm_plugin: a class derived from `BaseCUDAMemoryManager`; one object of it is made for each
            device, when memory is first asked for.

    Raises:
        RuntimeError: the plug-in is written for another version of the interface.
    """
    plugin: Any = mm_plugin
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
        memory.set_provider(None if plugin is None else _asked)


def chosen() -> Plugin | None:
    """The plug-in that was chosen; None if there is none."""
    return _plugin


def manager_of(device: Device) -> BaseCUDAMemoryManager:
    """The memory manager of a device: the plug-in's, or Haulage's own.

    Raises:
        RuntimeError: `NUMBA_CUDA_MEMORY_MANAGER` names a module that has none.
    """
    with _lock:
        if _plugin is None and memory.provider() is not None:
            set_memory_manager(_named(config.memory_manager()))
        manager = _managers.get(device)
        if manager is None:
            make: Any = _plugin or DriverMemoryManager
            manager = make(context=Context(device))
            assert manager is not None
            manager.initialize()
            _managers[device] = manager
        return manager


def forget(device: Device) -> None:
    """Make a new manager for the device when one is next asked for."""
    with _lock:
        _managers.pop(device, None)


def _named(module: str | None) -> Plugin:
    try:
        plugin: Plugin = importlib.import_module(str(module))._numba_memory_manager
    except (ImportError, AttributeError) as error:
        raise RuntimeError(
            f"Failed to use memory manager from {module}, which NUMBA_CUDA_MEMORY_MANAGER names: "
            f"{error}; unset it for Haulage's own"
        ) from error
    return plugin


class _Asked:
    """`memory.Provider` by plug-ins."""

    def allocate(self, device: Device, nbytes: int, kind: str, flags: int) -> Block:
        manager: Any = manager_of(device)
        if kind == DEVICE:
            return _block(manager, manager.memalloc(nbytes), nbytes)
        if kind == MANAGED:
            if not hasattr(manager, "memallocmanaged"):
                raise Unsupported(
                    f"the memory manager {type(manager).__name__} gives no managed memory: it has "
                    "no memallocmanaged"
                )
            given = manager.memallocmanaged(nbytes, not flags & ATTACH_HOST)
        else:
            wishes = bool(flags & PORTABLE), bool(flags & WRITE_COMBINED)
            given = manager.memhostalloc(nbytes, kind == MAPPED, *wishes)
        return _block(manager, given, nbytes)

    def pin(self, device: Device, owner: Any, address: int, nbytes: int) -> tuple[int, object]:
        manager = manager_of(device)
        given = manager.mempin(owner, address, nbytes, True)
        return _block(manager, given, nbytes).device_ptr, given

    def export(self, block: Block, pointer: int, nbytes: int) -> Any:
        return manager_of(block.device).get_ipc_handle(Span(block, pointer, nbytes))

    def reset(self, device: Device) -> None:
        manager = _managers.get(device)
        if manager is not None:
            manager.reset()


def _block(manager: Any, given: Any, nbytes: int) -> Block:
    if not isinstance(given, Span):
        raise TypeError(
            f"the memory manager {type(manager).__name__} gave {given!r}; expected a "
            "MemoryPointer, or one of its subclasses"
        )
    if given.size < nbytes:
        raise ValueError(
            f"the memory manager {type(manager).__name__} gave {given.size} bytes; {nbytes} were "
            "asked for"
        )
    return given.block


_asked = _Asked()

if config.memory_manager() is not None:
    memory.set_provider(_asked)
