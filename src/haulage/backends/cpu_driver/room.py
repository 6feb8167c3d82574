"""Whether the machine has room for more memory, asked before the system hands it out."""

from haulage.backends.cpu_driver import processor
from haulage.errors import OutOfMemory

# The system hands out large memory before it has it and kills a process that then uses it; from
# this size on it is asked first what is really free. Below, asking costs more than it tells.
CHECKED_FROM = 16 << 20


def check(nbytes: int, kind: str) -> None:
    """See that there is room for `nbytes` of some kind of memory.

    Raises:
        OutOfMemory: says how much was asked and how much is free.
    """
    if nbytes >= CHECKED_FROM and nbytes > processor.memory()[0]:
        raise none(nbytes, kind)


def none(nbytes: int, kind: str) -> OutOfMemory:
    """The exception that says so."""
    free, total = processor.memory()
    return OutOfMemory(
        f"the cpu device has no room for {nbytes:,} bytes of {kind} memory: "
        f"{free:,} of {total:,} bytes are free"
    )
