"""The driver's linker: one code of several, which name each other's functions."""

import ctypes
from collections.abc import Sequence
from typing import Any

from haulage.backends.nvidia_driver.calls import Calls, bindings

# The driver's numbers for kinds of input.
_INPUTS = {"cubin": 0, "ptx": 1, "fatbin": 2, "object": 3, "library": 4}
# Options: where the errors go, and how many bytes there are for them.
_LOG, _LOG_BYTES = 5, 6
_MOST_OF_LOG = 16 << 10


def link(calls: Calls, pieces: Sequence[tuple[str, str, bytes]]) -> bytes:
    """A cubin for the current context's device; see `Backend.link`."""
    driver = bindings()
    log = bytearray(_MOST_OF_LOG)
    options = [driver.CUjit_option(number) for number in (_LOG, _LOG_BYTES)]
    state = calls(driver.cuLinkCreate, len(options), options, [log, len(log)])
    try:
        for kind, name, data in pieces:
            # The driver reads PTX up to a zero byte, which counts.
            image = data + b"\0" if kind == "ptx" else data
            given = driver.CUjitInputType(_INPUTS[kind])
            named = name.encode()
            answer = driver.cuLinkAddData(state, given, image, len(image), named, 0, [], [])
            _check(calls, log, "cuLinkAddData", answer, (kind, name, len(data)))
        answer = driver.cuLinkComplete(state)
        _check(calls, log, "cuLinkComplete", answer, ())
        _, address, nbytes = answer
        # It is the linker's.
        return ctypes.string_at(address, nbytes)
    finally:
        calls(driver.cuLinkDestroy, state)


def _check(calls: Calls, log: bytearray, name: str, answer: Any, given: tuple[Any, ...]) -> None:
    """Raise the error of a call that failed, with the linker's log."""
    if answer[0]:
        raise calls.failed(name, given, int(answer[0]), log)
