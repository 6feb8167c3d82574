"""Copies of storages that give way where a device has no room: the least recently used first.

First those go that nobody needs, as the bytes are current elsewhere or these are out of date; that
costs no copy. Then those go whose bytes have to be copied to the host before.
"""

import itertools
import sys
import weakref
from functools import partial
from typing import Any, Protocol

from haulage.runtime.device import Device
from haulage.runtime.memory import Block, holders, out_of_memory, owners


class Storage(Protocol):
    """What has copies on devices.

    Attributes:
        name: what it is called.
    """

    name: Any

    def blocks(self) -> list[Block]:
        """The memory of its copies."""
        ...

    def used(self, device: Device) -> int | None:
        """When the copy on a device was used last, by `now`; 0: it is out of date; None: there is
        none."""
        ...

    def give_way(self, device: Device, copying: bool, why: str) -> int:
        """Give the memory of the copy on a device back if nobody uses it; how many bytes.

        Without `copying` only if that needs no copy. `why` is recorded. It never waits for another
        thread that is at work with the storage: then it gives 0.
        """
        ...


now = itertools.count(1).__next__
_storages: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()


def add(storage: Storage) -> None:
    """Let a storage give way from now on, as long as it is there."""
    _storages[id(storage)] = storage


def references(holder: Any, name: str) -> int:
    """How many references there are to `holder.name`: `ALONE`, if only the holder has one."""
    return sys.getrefcount(getattr(holder, name))


class _Sample:
    def __init__(self) -> None:
        self.thing = object()


ALONE = references(_Sample(), "thing")


def is_referenced(kept: dict[Any, Any], key: Any) -> bool:
    """Whether anybody but the dictionary `kept` has what it keeps by `key`."""
    return sys.getrefcount(kept.get(key)) > _KEPT_ALONE


_KEPT = {0: object()}
_KEPT_ALONE = sys.getrefcount(_KEPT.get(0))


def _make_room(device: Device, nbytes: int, enough: int, copying: bool) -> int:
    asked = owners.site(owners.mark())
    why = (
        f"{'spilled' if copying else 'dropped'}: {device} had no room for {nbytes:,} bytes at "
        f"{asked.filename}:{asked.line}"
    )
    found = [storage for ref in _storages.valuerefs() if (storage := ref()) is not None]
    known = [(used, storage) for storage in found if (used := storage.used(device)) is not None]
    freed = 0
    for _, storage in sorted(known, key=lambda one: one[0]):
        if freed >= enough:
            break
        freed += storage.give_way(device, copying, why)
    return freed


def _names() -> dict[int, str]:
    found = [storage for ref in _storages.valuerefs() if (storage := ref()) is not None]
    return {block.generation: str(each.name) for each in found for block in each.blocks()}


holders.namers.append(_names)
out_of_memory.replicas.append(partial(_make_room, copying=False))
out_of_memory.spills.append(partial(_make_room, copying=True))
