"""The driver's linker: one code of several, which name each other's functions."""

import ctypes
from collections.abc import Sequence

from haulage.backends.gpu_driver.calls import Calls
from haulage.backends.nvidia_driver.calls import bindings
from haulage.backends.nvidia_driver.code import logging

# The driver's numbers for kinds of input.
_INPUTS = {"cubin": 0, "ptx": 1, "fatbin": 2, "object": 3, "library": 4}


def link(calls: Calls, pieces: Sequence[tuple[str, str, bytes]]) -> bytes:
    """A cubin for the current context's device; see `Backend.link`."""
    log, *options = logging()
    (state,) = calls("LinkCreate", *options)
    try:
        for kind, name, data in pieces:
            # The driver reads PTX up to a zero byte, which counts.
            image = data + b"\0" if kind == "ptx" else data
            given = bindings().CUjitInputType(_INPUTS[kind])
            what = state, given, image, len(image), name.encode()
            status, _ = calls.ask("LinkAddData", *what, 0, [], [])
            if status:
                raise calls.failed("LinkAddData", (kind, name, len(data)), status, log)
        status, made = calls.ask("LinkComplete", state)
        if status:
            raise calls.failed("LinkComplete", (), status, log)
        address, nbytes = made
        # It is the linker's.
        return ctypes.string_at(address, nbytes)
    finally:
        calls("LinkDestroy", state)
