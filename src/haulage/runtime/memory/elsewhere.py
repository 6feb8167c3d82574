"""Memory that is not Haulage's own but stands below its arrays: room for it, and its count."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from haulage.errors import OutOfMemory
from haulage.runtime import finalize
from haulage.runtime.device import Device
from haulage.runtime.memory import allocating, limits, out_of_memory, pending
from haulage.runtime.memory.block import Block
from haulage.runtime.memory.pool import Pool

_Answer = TypeVar("_Answer")


def with_room(device: Device, nbytes: int, kind: str, ask: Callable[[], _Answer]) -> _Answer:
    """`ask()`, which gives memory that is `counted`, within the limit of the device.

    If it raises a MemoryError, it is called once more after all was done that may make room, and
    again after each function of the program that says it has made some; but not after an error that
    has an attribute `is_final` that is true.

    Raises:
        OutOfMemory: the limit is reached, or `ask` raised one each time; says who holds the memory.
        MemoryError: another one of `ask`, with a note that says the same.
    """
    errors: list[MemoryError] = []
    finalize.drain()
    pending.reap()
    try:
        return _with_room(device, nbytes, kind, ask, errors)
    finally:
        errors.clear()  # they hold the frames that hold them


def _with_room(
    device: Device,
    nbytes: int,
    kind: str,
    ask: Callable[[], _Answer],
    errors: list[MemoryError],
) -> _Answer:
    def attempt() -> _Answer:
        try:
            with limits.claimed(device, kind, nbytes):
                return ask()
        except MemoryError as error:
            errors.append(error)
            raise OutOfMemory(str(error)) from None

    try:
        return attempt()
    except OutOfMemory:
        if getattr(errors[-1], "is_final", False):
            raise errors[-1] from None
    try:
        return out_of_memory.climb(device, nbytes, kind, attempt, at_once=True)
    except OutOfMemory as described:
        if not isinstance(errors[-1], OutOfMemory):
            errors[-1].add_note(str(described))
            raise errors[-1] from None
        for note in getattr(errors[-1], "__notes__", ()):
            described.add_note(note)
        raise


def counted(block: Block, reserves: bool) -> Block:
    """The block, counted as memory in use until it is given back.

    Args:
        block: over memory of others that is not counted yet.
        reserves: whether its bytes are none that a pool of Haulage's holds already.
    """
    pool = allocating.pool_of(block.device, block.kind)
    reserved = block.nbytes if reserves else 0
    release = partial(_given_back, pool, reserved, block.release)
    # No call in between, nor behind the count: what is not counted is not taken off.
    pool.direct += reserved
    block.release = release
    pool.take_into(block, [block.device_ptr])
    block.pool = pool
    return block


def _given_back(pool: Pool, reserved: int, release: Callable[[], object] | None) -> None:
    pool.direct -= reserved
    if release is not None:
        release()
