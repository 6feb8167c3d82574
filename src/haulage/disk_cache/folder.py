"""The folder of the cache.

Code that is found there is run, so nobody but the user (or root) may be able to write it: the
folder and each file have to belong to them and be closed to group and others. Files are opened
below the opened folder, so that nobody can put another folder in its place in between.
"""

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from haulage.errors import CacheWarning, warn

# Beyond either of these the files that were not used for longest go, until a tenth is free.
MOST_BYTES = 256 << 20
MOST_FILES = 10_000

_SUFFIX, _UNFINISHED = ".code", ".part"
# A file that its writer did not finish in this time never will be, seconds.
_ABANDONED = 3600.0
# The time of a file's last use is noted when the note is older than this, seconds.
_USE_NOTED = 86400.0

_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
# Without waiting for who writes to a pipe of that name.
_READ |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | (_READ & ~os.O_RDONLY)
# Systems without these have no such owners and modes either.
_CHECKS = os.open in os.supports_dir_fd and hasattr(os, "geteuid")

_warned: set[str] = set()


def warn_once(message: str) -> None:
    """A `CacheWarning`, the first time in this process that `message` is to be said."""
    if message not in _warned:
        _warned.add(message)
        warn(message, CacheWarning)


@dataclass(frozen=True)
class Kept:
    """A file in the folder: its name, bytes and time of last use in seconds since 1970."""

    name: str
    nbytes: int
    used: float


class Folder:
    """The files of a folder by name. Whatever goes wrong is a warning, once; then there is no file
    to be found, or none is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._counted = False

    def read(self, name: str) -> bytes | None:
        """The bytes of a file; None if there is none that can be trusted."""
        with self._opened() as folder:
            if folder is None:
                return None
            try:
                file = os.open(self._place(name, folder), _READ, dir_fd=_below(folder))
            except OSError:
                # Mostly there is no such file. One that cannot be read is written anew, and if that
                # fails too there is a warning.
                return None
            # Python opens no folder, and closes nothing then.
            facts = os.fstat(file)
            usual = stat.S_ISREG(facts.st_mode) and facts.st_size <= MOST_BYTES
            if not usual or not _only_ours(facts):
                os.close(file)
                return None
            with open(file, "rb") as opened:
                if time.time() - facts.st_mtime > _USE_NOTED and os.utime in os.supports_fd:
                    # In a folder that can only be read nothing is dropped, so it need not be noted.
                    with contextlib.suppress(OSError):
                        os.utime(file)
                try:
                    return opened.read()
                except OSError as error:
                    self._cannot("read a file in", error)
                    return None

    def write(self, name: str, data: bytes) -> None:
        """Keep a file, in place of one that has the name; readers see the old or the new one."""
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
        except OSError as error:
            self._cannot("make", error)
            return
        with self._opened() as folder:
            if folder is None:
                return
            part = f".{name}.{os.getpid()}.{os.urandom(6).hex()}{_UNFINISHED}"
            here = _below(folder)
            at = self._place(part, folder)
            try:
                file = os.open(at, _CREATE, 0o600, dir_fd=here)
                try:
                    with open(file, "wb") as opened:
                        opened.write(data)
                    os.replace(at, self._place(name, folder), src_dir_fd=here, dst_dir_fd=here)
                except BaseException:
                    with contextlib.suppress(OSError):
                        os.unlink(at, dir_fd=here)
                    raise
            except OSError as error:
                self._cannot("write to", error)
                return
        if not self._counted:
            self._counted = True
            try:
                self.trim()
            except OSError as error:
                self._cannot("drop old files from", error)

    def files(self) -> list[Kept]:
        """What is kept, in order of last use, the latest last.

        Raises:
            OSError: the folder cannot be read.
        """
        found = [Kept(each.name, size, used) for each, size, used in self._all(_SUFFIX)]
        return sorted(found, key=lambda kept: kept.used)

    def trim(self, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES) -> None:
        """Drop what was not used for longest if there is too much, and what nobody finished."""
        for each, _, used in self._all(_UNFINISHED):
            if time.time() - used > _ABANDONED:
                Path(each.path).unlink(missing_ok=True)
        kept = self.files()
        total, count = sum(file.nbytes for file in kept), len(kept)
        if total <= most_bytes and count <= most_files:
            return
        for file in kept:
            if total <= most_bytes * 9 // 10 and count <= most_files * 9 // 10:
                return
            (self.path / file.name).unlink(missing_ok=True)
            total, count = total - file.nbytes, count - 1

    def clear(self) -> int:
        """Drop everything that is kept; returns how many files that were.

        Raises:
            OSError: a file cannot be removed.
        """
        dropped = self.files()
        for name in [file.name for file in dropped] + [
            e.name for e, _, _ in self._all(_UNFINISHED)
        ]:
            (self.path / name).unlink(missing_ok=True)
        return len(dropped)

    def _all(self, suffix: str) -> list[tuple[os.DirEntry[str], int, float]]:
        """(entry, bytes, time of last use) of each file with a suffix."""
        found = []
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            os.scandir(self.path) as all_,
        ):
            for entry in all_:
                if entry.name.endswith(suffix):
                    # Another process may drop it in this moment.
                    with contextlib.suppress(FileNotFoundError):
                        facts = entry.stat(follow_symlinks=False)
                        if not stat.S_ISDIR(facts.st_mode):  # none of the cache's
                            found.append((entry, facts.st_size, facts.st_mtime))
        return found

    def _place(self, name: str, folder: int) -> str:
        return name if _CHECKS else str(self.path / name)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int | None]:
        """The folder's descriptor; None if it is not there, or others can write to it."""
        if not _CHECKS:
            yield 0 if self.path.is_dir() else None
            return
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK
            folder = os.open(self.path, flags)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            self._cannot("read", error)
            yield None
            return
        try:
            yield folder if self._trusted(os.fstat(folder)) else None
        finally:
            os.close(folder)

    def problem(self) -> str | None:
        """Why the files in the folder are not used, None if they are or there is no folder.

        Raises:
            OSError: the folder cannot be looked at.
        """
        try:
            facts = self.path.stat()
        except FileNotFoundError:
            return "it is a link to nothing" if self.path.is_symlink() else None
        return _distrust(facts) if stat.S_ISDIR(facts.st_mode) else "it is no folder"

    def _trusted(self, facts: os.stat_result) -> bool:
        why = _distrust(facts)
        if why is not None:
            warn_once(
                f"the cache folder {self.path} is not used: {why}; or set HAULAGE_CACHE_DIR to a "
                "folder of your own. Kernels are compiled anew in each process until then"
            )
        return why is None

    def _cannot(self, what: str, error: OSError) -> None:
        warn_once(
            f"cannot {what} the cache folder {self.path}: {error.strerror or error}; set "
            "HAULAGE_CACHE_DIR to a folder that can be written to. Compiled kernels are not kept "
            "until then"
        )


def _below(folder: int) -> int | None:
    return folder if _CHECKS else None


def _distrust(facts: os.stat_result) -> str | None:
    """Why code in a folder must not be run, None if it may."""
    if _only_ours(facts):
        return None
    if facts.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {facts.st_uid}, and code in it could be theirs"
    return f"others can write to it (mode {stat.S_IMODE(facts.st_mode):o}); chmod go-w it"


def _only_ours(facts: os.stat_result) -> bool:
    """Whether nobody but this user and root can write to a file or folder."""
    if not _CHECKS:
        return True
    return facts.st_uid in (0, os.geteuid()) and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
