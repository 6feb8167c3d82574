"""How Haulage asks the memory manager of a plug-in, and what it makes of the answers."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from haulage.backends.base import (
    ATTACH_HOST,
    DEVICE,
    MANAGED,
    MAPPED,
    PORTABLE,
    WRITE_COMBINED,
)
from haulage.errors import DeviceMismatch, Unsupported
from haulage.runtime.buffers.span import Span
from haulage.runtime.devices.device import Device
from haulage.runtime.memory import Block, MemoryInfo
from haulage.runtime.memory.allocation import allocate_external, count_external
from haulage.runtime.plugins.managers import BaseCUDAMemoryManager
from haulage.runtime.plugins.pointers import block_of
from haulage.runtime.process import call_sites

# Block -> the manager that has given it, which may keep the block itself.
_givers: "weakref.WeakKeyDictionary[Block, weakref.ref[Any]]" = weakref.WeakKeyDictionary()


@contextmanager
def blamed(plugin: object, method: str, asked: str = "") -> Iterator[None]:
    """An exception of the body gets a note that says which method of a plug-in raised it."""
    try:
        yield
    except Exception as error:
        error.add_note(f"raised by {method}() of the memory manager {_name(plugin)}{asked}")
        raise


def allocate(manager: Any, device: Device, nbytes: int, kind: str, flags: int) -> Block:
    """A block of what `manager` gives; see `memory.allocate`.

    Raises:
        TypeError, ValueError: it gave something that is no such memory.
        Unsupported: it has no memory of that kind.
        Exception: what it raised.
    """
    options: tuple[bool, ...]
    if kind == DEVICE:
        method, options = "memalloc", ()
    elif kind == MANAGED:
        method, options = "memallocmanaged", (not flags & ATTACH_HOST,)
    else:
        method = "memhostalloc"
        options = (kind == MAPPED, bool(flags & PORTABLE), bool(flags & WRITE_COMBINED))
    ask = getattr(manager, method, None)
    if ask is None:
        raise Unsupported(
            f"the memory manager {_name(manager)} gives no {kind} memory: it has no {method}"
        )

    def taken() -> Block:
        with blamed(manager, method, f", which was asked for {nbytes} bytes of {device}"):
            given = ask(nbytes, *options)
        return _taken(manager, given, nbytes, kind)

    return allocate_external(device, nbytes, kind, taken)


def mempin(manager: Any, owner: Any, pointer: Any, size: int, mapped: bool) -> Any:
    """What `manager` gives for memory of the host to be pinned by it.

    Raises:
        TypeError, ValueError: it gave something that is no such memory.
        Exception: what it raised.
    """
    with blamed(manager, "mempin"):
        given = manager.mempin(owner, pointer, size, mapped)
    _check(manager, given, size, MAPPED)
    return given


def unpin(given: Span) -> None:
    """Let go of what `mempin` gave, also inside `defer_cleanup`: else the same memory could not be
    pinned once more."""
    block = given.block
    release = block.release
    if release is not None:
        block.release = int  # what `close` calls then does nothing
    block.close()
    if release is not None:
        release()


def memory_info(manager: Any) -> MemoryInfo:
    """Free and total bytes, as `manager` tells.

    Raises:
        TypeError: it told something else.
        Exception: what it raised.
    """
    with blamed(manager, "get_memory_info"):
        told = manager.get_memory_info()
    try:
        return MemoryInfo(*told)
    except TypeError as error:
        raise TypeError(
            f"get_memory_info() of the memory manager {_name(manager)} gave {told!r}; expected "
            "MemoryInfo(free, total)"
        ) from error


def export(block: Block, pointer: int, nbytes: int) -> Any:
    """What the manager that gave `block` makes for other processes; None if none has given it,
    or it is there no more.

    Raises:
        TypeError: it made nothing.
        Exception: what it raised.
    """
    giver = _givers.get(block)
    manager = None if giver is None else giver()
    if manager is None:
        return None
    with blamed(manager, "get_ipc_handle"):
        made = manager.get_ipc_handle(Span(block, pointer, nbytes))
    if made is None:
        raise TypeError(
            f"get_ipc_handle() of the memory manager {_name(manager)} gave None; expected an "
            "IpcHandle"
        )
    return made


def _taken(manager: Any, given: Any, nbytes: int, kind: str) -> Block:
    _check(manager, given, nbytes, kind)
    if given.block in _givers:
        raise ValueError(
            f"the memory manager {_name(manager)} gave {given!r} twice; expected memory that no "
            "other array stands on"
        )
    block = block_of(given)
    _givers[block] = weakref.ref(manager)
    block.call_site = call_sites.current()  # till now, the plug-in's own line
    # What the parent class has from Haulage is count_external already.
    return block if block.pool is not None else count_external(block, reserves=True)


def _check(manager: BaseCUDAMemoryManager, given: Any, nbytes: int, kind: str) -> None:
    gave = f"the memory manager {_name(manager)} gave"
    if not isinstance(given, Span):
        raise TypeError(f"{gave} {given!r}; expected a MemoryPointer, or one of its subclasses")
    device = manager.context.device
    if given.block.device is not device:
        raise DeviceMismatch(f"{gave} memory of {given.block.device}; expected some of {device}")
    if given.block.closed:
        raise ValueError(f"{gave} {given!r}, which is closed; expected memory in use")
    if given.size < nbytes:
        raise ValueError(f"{gave} {given.size} bytes; {nbytes} were asked for")
    if nbytes and not given.device_pointer:
        raise ValueError(f"{gave} {given.size} bytes at the address 0; expected memory")
    if kind != DEVICE and given.block.kind == DEVICE:
        raise TypeError(
            f"{gave} memory of the device; {kind} memory was asked for: expected a "
            "PinnedMemory, a MappedMemory or a ManagedMemory"
        )


def _name(plugin: Any) -> str:
    return str(getattr(plugin, "__name__", type(plugin).__name__))
