"""A back end that does nothing: its memory holds nothing, its kernels run nowhere.

It shows how little a back end must have, and the defaults of `Backend` are tested on it.
"""

import itertools
from collections.abc import Sequence

from haulage.backends.base import Backend, Probe, Properties


class NullBackend(Backend):
    """One device that accepts everything and does nothing. Handles and pointers are distinct."""

    name = "null"

    def __init__(self) -> None:
        self._handles = itertools.count(1)
        self._addresses = itertools.count(1)

    # ---- devices ------------------------------------------------------------------------------

    @classmethod
    def probe(cls) -> Probe:
        """Always there."""
        return Probe(True, (), "nothing to look for")

    def count(self) -> int:
        """One."""
        return 1

    def properties(self, device: int) -> Properties:
        """A device of no memory."""
        return Properties(
            name="null",
            compute_capability=(0, 0),
            multiprocessors=1,
            warp_size=32,
            max_threads_per_block=1024,
            max_block=(1024, 1024, 64),
            max_grid=(2**31 - 1, 65535, 65535),
            max_static_shared=48 << 10,
            max_dynamic_shared=48 << 10,
            total_memory=0,
            architecture="null",
        )

    def activate(self, device: int) -> None:
        """Nothing."""

    def synchronize(self) -> None:
        """Nothing."""

    def memory_info(self) -> tuple[int, int]:
        """None."""
        return 0, 0

    # ---- memory -------------------------------------------------------------------------------

    def alloc(self, nbytes: int, kind: str, flags: int = 0) -> tuple[int, int]:
        """An address 1 TiB from the last one, with nothing behind it, nor on the host's side."""
        return next(self._addresses) << 40, 0

    def free(self, device_ptr: int, host_ptr: int, kind: str) -> None:
        """Nothing."""

    def register(self, host_ptr: int, nbytes: int, flags: int = 0) -> int:
        """The pointer itself."""
        return host_ptr

    def unregister(self, host_ptr: int) -> None:
        """Nothing."""

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Nothing."""

    def copy_nd(
        self,
        dst: int,
        dst_strides: Sequence[int],
        src: int,
        src_strides: Sequence[int],
        shape: Sequence[int],
        itemsize: int,
        stream: int,
    ) -> None:
        """Nothing."""

    def fill(self, dst: int, value: bytes, count: int, stream: int) -> None:
        """Nothing."""

    # ---- streams and events -------------------------------------------------------------------

    def stream_create(self, flags: int = 0, priority: int = 0) -> int:
        """A number."""
        return next(self._handles)

    def stream_destroy(self, stream: int) -> None:
        """Nothing."""

    def stream_synchronize(self, stream: int) -> None:
        """Nothing."""

    def stream_query(self, stream: int) -> bool:
        """Always done."""
        return True

    def stream_wait_event(self, stream: int, event: int) -> None:
        """Nothing."""

    def event_create(self, timing: bool = True) -> int:
        """A number."""
        return next(self._handles)

    def event_destroy(self, event: int) -> None:
        """Nothing."""

    def event_record(self, event: int, stream: int) -> None:
        """Nothing."""

    def event_synchronize(self, event: int) -> None:
        """Nothing."""

    def event_query(self, event: int) -> bool:
        """Always reached."""
        return True

    def event_elapsed(self, start: int, end: int) -> float:
        """No time."""
        return 0.0

    # ---- code ---------------------------------------------------------------------------------

    def load(self, code: bytes) -> int:
        """A number."""
        return next(self._handles)

    def unload(self, module: int) -> None:
        """Nothing."""

    def function(self, module: int, name: str) -> int:
        """A number."""
        return next(self._handles)

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        """Nothing."""
