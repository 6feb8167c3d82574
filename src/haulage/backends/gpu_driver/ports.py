"""A socket by which a process gives file descriptors to others of its user, on Linux.

Its name is in no folder of files, so nothing is left when the process is gone. Who connects sends
16 bytes and gets an answer, empty if there is nothing for them, then the descriptors; the
connection stays open as long as they are in use.
"""

import contextlib
import os
import select
import selectors
import socket
import struct
import sys
import threading
import weakref
from collections.abc import Callable

from haulage import forks
from haulage.errors import DeviceError, Unsupported

TOKEN = 16
# A message can have 253 of them.
_FILES = 64
# Seconds that a living process is given to answer.
_PATIENCE = 30.0

_credentials = struct.Struct("3i")  # process, user, group

# No memory begins there.
_ASKING = -1

Answer = Callable[[bytes], tuple[int, bytes, list[int]] | None]


def _place(process: int, name: bytes) -> bytes:
    return b"\0haulage-gpu-%d-%s" % (process, name.hex().encode())


class Port:
    """The socket of this process, with a thread that answers.

    `answer` gives for a token what its memory is a part of, the bytes to send, and the descriptors,
    which are closed here.
    """

    def __init__(self, answer: Answer) -> None:
        if not sys.platform.startswith("linux"):
            raise Unsupported(
                "memory of reserved addresses is shared between processes on Linux only; with "
                "HAULAGE_MEMORY=driver handles are the driver's own"
            )
        self.name = os.urandom(8)
        self._answer = answer
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(_place(os.getpid(), self.name))
        self._listener.listen()
        # Connections, and what the memory that they have is a part of; None: not asked yet; or
        # _ASKING.
        self._users: dict[socket.socket, int | None] = {}
        self._selector.register(self._listener, selectors.EVENT_READ)
        _live.add(self)
        threading.Thread(target=self._serve, name="haulage-gpu-port", daemon=True).start()

    def is_open(self, unit: int) -> bool:
        """Whether another process has memory of `unit` open, or may just be given some."""
        users = tuple(self._users.items())
        return any(of == _ASKING or (of == unit and not _has_ended(user)) for user, of in users)

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._heard(key.fileobj)  # type: ignore[arg-type]

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _credentials.size)
        if _credentials.unpack(told)[1] != os.getuid():
            connection.close()
            return
        connection.settimeout(_PATIENCE)
        self._users[connection] = None
        self._selector.register(connection, selectors.EVENT_READ)

    def _heard(self, connection: socket.socket) -> None:
        try:
            token = connection.recv(TOKEN)
            if not token or self._users[connection] is not None:
                self._drop(connection)
                return
            self._users[connection] = _ASKING
            found = self._answer(token)
            if found is None:
                self._drop(connection)
                return
            self._users[connection], answer, files = found
            try:
                connection.sendall(answer)
                for first in range(0, len(files), _FILES):
                    socket.send_fds(connection, [b"f"], files[first : first + _FILES])
            finally:
                for file in files:
                    os.close(file)
        except (OSError, DeviceError):
            # Who asked sees the connection end, and says so.
            self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._users[connection]
        connection.close()

    def forget(self) -> None:
        """In a forked child: the socket is its parent's."""
        self._selector.close()
        self._listener.close()
        for connection in self._users:
            connection.close()
        self._users = {}


def _has_ended(connection: socket.socket) -> bool:
    """Whether the other side is closed, which the port's thread may not have heard yet."""
    number = connection.fileno()
    if number < 0:
        return True
    state = select.poll()
    state.register(number, select.POLLHUP)
    return bool(state.poll(0))


def connect(process: int, name: bytes, nbytes: int) -> socket.socket:
    """A connection to the port of a process, which exported so many bytes.

    Raises:
        DeviceError: it is gone, or out of reach.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_PATIENCE)
    try:
        connection.connect(_place(process, name))
    except OSError as error:
        connection.close()
        raise DeviceError(
            f"{nbytes:,} bytes of memory that process {process} exported are gone: the process has "
            f"ended, or is in another container ({error})"
        ) from error
    return connection


def ask(connection: socket.socket, token: bytes, size: int) -> bytes | None:
    """The answer of `size` bytes to a token; None: there is nothing for it."""
    with contextlib.suppress(ConnectionError):
        connection.sendall(token)
        answer = connection.recv(size, socket.MSG_WAITALL)
        return answer if len(answer) == size else None
    return None


def receive_files(connection: socket.socket, count: int) -> list[int]:
    """So many file descriptors.

    Raises:
        DeviceError: the other process did not send them.
    """
    files: list[int] = []
    while len(files) < count:
        _, got, _, _ = socket.recv_fds(connection, 1, _FILES)
        if not got:
            for file in files:
                os.close(file)
            raise DeviceError("the process that exported the memory did not send it")
        files += got
    return files


_live: "weakref.WeakSet[Port]" = weakref.WeakSet()


def _forget_parents() -> None:
    for port in list(_live):
        port.forget()


forks.in_child(_forget_parents)
