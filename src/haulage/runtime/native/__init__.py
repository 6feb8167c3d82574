"""The fast way to a new array: code emitted for this process, for the plain case only.

`device_array` asks `take` first, where there is one. It makes an array of a shape and dtype that
was made before, on a block of a free list, with all that is noted of it, and gives None where
anything is out of the ordinary: then Python does it, to which the code is held by tests.

The code is made when a process has asked for many arrays, as that takes as long as thousands of
them, or at once with `HAULAGE_NATIVE=1`.
"""

import threading
from typing import TYPE_CHECKING, Any

from haulage import config
from haulage.errors import Unsupported, warn
from haulage.runtime.memory.classes import LARGEST
from haulage.runtime.native import layouts
from haulage.runtime.process import runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from haulage.runtime.arrays.array import DeviceNDArray
    from haulage.runtime.native.machine import Machine

# So many arrays, of those that the code could make, are Python's before it is made: fewer where
# LLVM is loaded, or the code is likely to be on disk.
AFTER, AFTER_IF_QUICK = 2000, 200

# None as long as there is no code.
take: "Callable[..., DeviceNDArray | None] | None" = None

# The one that the code is about.
_OF_PROCESS = runtime.current

_machine: "Machine | None" = None
# `plans.learn`, once there is a machine.
_learn: "Callable[[Machine, Any, Any, DeviceNDArray], None] | None" = None
_impossible = False
_made = 0
_starting = threading.Lock()


def made(shape: Any, dtype: Any, array: "DeviceNDArray") -> None:
    """Note that Python made an array, of the usual layout, for `shape` and `dtype`.

    Raises:
        Unsupported: `HAULAGE_NATIVE=1` asks for what this interpreter can't have.
    """
    if array.block.nbytes > LARGEST or runtime.current is not _OF_PROCESS:
        return  # it comes from the arena, which is Python's; or is made in a test's own runtime
    if _machine is None and not (_is_time() and _start(array)):
        return
    assert _machine is not None
    assert _learn is not None
    _learn(_machine, shape, dtype, array)


def _is_time() -> bool:
    global _made
    if _impossible:
        return False
    asked = config.native()
    if asked is not None:
        return asked
    _made += 1
    if _made < AFTER_IF_QUICK:
        return False
    if _made >= AFTER:
        return True
    from haulage.backends.cpu_driver import loader

    return loader.links_at_once()


def _start(array: "DeviceNDArray") -> bool:
    """Make the code, unless that is under way; whether it is there."""
    global _impossible, _learn, _machine, take
    if not _starting.acquire(blocking=False):
        return False
    try:
        if _machine is None:
            layouts.check()
            from haulage.runtime.native import plans
            from haulage.runtime.native.machine import Machine

            machine = Machine(array)
            runtime.current.other_blocks.append(machine.live)
            # In this order: a signal's handler may come in and allocate.
            _learn = plans.learn
            _machine, take = machine, machine.take
        return True
    except layouts.NotHere as why:
        _impossible = True
        if config.native():
            raise Unsupported(f"HAULAGE_NATIVE=1: {why}; unset it") from None
        return False
    except Exception as error:
        _impossible = True
        if config.native():
            raise
        warn(f"allocations stay slower: {error!r}")
        return False
    finally:
        _starting.release()


def start_anew() -> None:
    """After a fork, in the child: a thread of the parent may have been at it."""
    global _starting
    _starting = threading.Lock()
