"""Entries by key, in the folder that the settings name."""

import functools
from pathlib import Path
from typing import Any

from haulage import config
from haulage.disk_cache import entry
from haulage.disk_cache.folder import Folder, warn_once

# Whether a kernel of this process is to be kept; what else is compiled for it is kept then too.
_in_use = False


def use() -> None:
    """Say that this process keeps code."""
    global _in_use
    _in_use = True


def in_use() -> bool:
    """Whether this process keeps code."""
    return _in_use


def folder() -> Folder:
    """The folder in force now.

    Raises:
        RuntimeError: there is no home to have one in.
    """
    return _folder(config.cache_folder())


def _folder_or_none() -> Folder | None:
    try:
        return folder()
    except RuntimeError as error:
        warn_once(f"no place for compiled kernels: {error} Set HAULAGE_CACHE_DIR to a folder")
        return None


# An object for each folder remembers whether it was looked through.
_folder = functools.lru_cache(maxsize=8)(Folder)


def load(key: str) -> tuple[dict[str, Any], bytes] | None:
    """(facts, code) that were saved under a key; None if they are not there, whole and trusted."""
    place = _folder_or_none()
    data = place.read(_name(key)) if place is not None else None
    found = entry.unpack(data) if data is not None else None
    if found is None or found[0].get("key") != key:
        return None
    return found


def save(key: str, facts: dict[str, Any], code: bytes) -> None:
    """Keep facts, which JSON can say, and code under a key."""
    place = _folder_or_none()
    if place is not None:
        place.write(_name(key), entry.pack({**facts, "key": key}, code))


def path() -> Path | None:
    """Where entries are kept; None, with a warning, if there is no place."""
    place = _folder_or_none()
    return place.path if place is not None else None


def _name(key: str) -> str:
    return f"{key}.code"
