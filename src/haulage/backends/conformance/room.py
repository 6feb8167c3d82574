"""What the checks share: their registry, their kernels, their memory."""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import numpy as np

from haulage.backends.base import DEVICE, Backend

KERNELS = ("where", "types", "scale", "chain", "stop")

# Steps of `chain` that take long enough to be overtaken by work that does not wait: milliseconds.
LONG = 5_000_000


class Programs(Protocol):
    """Gives the suite its kernels."""

    @property
    def reports_faults(self) -> bool:
        """Whether a kernel's fault reaches the host on this device (not so on most GPUs)."""

    @property
    def overlaps(self) -> bool:
        """Whether work of one stream surely goes on while another's is not done."""

    def code(self) -> bytes:
        """One module, for `Backend.load`, that has all of `KERNELS`."""


Check = Callable[[Backend, Programs], None]
registered: list[Check] = []


def check(function: Check) -> Check:
    """Decorator: the function is one of the suite's checks."""
    registered.append(function)
    return function


class Room:
    """Device memory and code of one check, given back at its end."""

    def __init__(self, backend: Backend, programs: Programs) -> None:
        self.backend = backend
        self.programs = programs
        self._memory: list[tuple[int, int, str]] = []
        self._streams: list[int] = []
        self._events: list[int] = []
        self._modules: dict[str, int] = {}

    def alloc(self, nbytes: int, kind: str = DEVICE) -> int:
        """Device pointer of new memory."""
        device, host = self.backend.alloc(nbytes, kind)
        self._memory.append((device, host, kind))
        return device

    def put(self, array: np.ndarray) -> int:
        """Device pointer of new memory with the array's bytes."""
        pointer = self.alloc(array.nbytes)
        self.write(pointer, array)
        return pointer

    def write(self, pointer: int, array: np.ndarray) -> None:
        """Copy the array's bytes to device memory that is there already."""
        self.backend.copy(pointer, address_of(array), array.nbytes, 0)
        self.backend.stream_synchronize(0)

    def get(self, pointer: int, like: np.ndarray) -> np.ndarray:
        """A host array as `like` from device memory, after all work."""
        self.backend.synchronize()
        result = np.empty_like(like)
        self.backend.copy(address_of(result), pointer, result.nbytes, 0)
        self.backend.synchronize()
        return result

    def stream(self, flags: int = 0) -> int:
        """A new stream."""
        self._streams.append(self.backend.stream_create(flags))
        return self._streams[-1]

    def event(self) -> int:
        """A new event with timing."""
        self._events.append(self.backend.event_create())
        return self._events[-1]

    def function(self, name: str) -> int:
        """One of the kernels, in a module of its own: devices may tell only which stopped."""
        if name not in self._modules:
            self._modules[name] = self.backend.load(self.programs.code())
        return self.backend.function(self._modules[name], name)

    def chain(self, pointer: int, a: int, b: int, stream: int, rounds: int = LONG) -> None:
        """Launch `chain` on one thread."""
        args = struct.pack("@Pqqq", pointer, a, b, rounds)
        self.backend.launch(self.function("chain"), (1, 1, 1), (1, 1, 1), 0, stream, args)

    def close(self) -> None:
        """Give everything back."""
        self.backend.synchronize()
        for event in self._events:
            self.backend.event_destroy(event)
        for stream in self._streams:
            self.backend.stream_destroy(stream)
        for module in self._modules.values():
            self.backend.unload(module)
        for entry in self._memory:
            self.backend.free(*entry)


@contextmanager
def room_of(backend: Backend, programs: Programs) -> Iterator[Room]:
    """A room for one check."""
    room = Room(backend, programs)
    yield room
    room.close()  # not after a failed check, whose own error is the one to see


def address_of(array: np.ndarray) -> int:
    """The address of a host array's first element."""
    return array.__array_interface__["data"][0]


def same(got: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Assert equality of arrays."""
    assert np.array_equal(got, expected), f"{what}: got {got}, expected {expected}"


ONE = np.zeros(1, np.int64)


_Error = TypeVar("_Error", bound=Exception)


def raised(kind: type[_Error], call: Callable[[], object], what: str) -> _Error:
    """What `call` raised, which must be of `kind`; `what` says what was asked."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} for {what}")
