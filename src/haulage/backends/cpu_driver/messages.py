"""What running kernels tell the host: messages, which worker threads write and Python reads.

A message is a number and some 8-byte cells. Those with negative numbers go to a buffer of their
own, so that no flood of the others can crowd them out. Workers never touch the interpreter, so the
buffers are written by native code, one message at a time.
"""

import ctypes
import functools
import struct
import threading

from haulage._core import pool

_HEADER = struct.Struct("<iI")

_lock = threading.RLock()


@functools.cache
def _room() -> "ctypes.Array[ctypes.c_char]":
    return ctypes.create_string_buffer(pool.MESSAGE_BYTES)


def take(sign: int) -> tuple[list[tuple[int, bytes]], int]:
    """The messages whose numbers have that sign, in order, and how many more found no room."""
    with _lock:
        used, dropped = pool.take_messages(sign < 0, ctypes.addressof(_room()))
        text = ctypes.string_at(_room(), used)
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < used:
        number, count = _HEADER.unpack_from(text, at)
        start = at + _HEADER.size
        at = start + 8 * count
        found.append((number, text[start:at]))
    return found, dropped


def renew() -> None:
    """After a fork, in the child: locks may have been held by threads that are gone, and what was
    said before is the parent's to tell."""
    global _lock
    _lock = threading.RLock()
    pool.renew_messages()
