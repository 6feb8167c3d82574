"""How a `Runtime` is put together: what runs at a wait, at a reset, at an exit and in a child.

This is the one place that says so. What few programs need (SmartArrays) subscribes with its first
object, so that others need not import it.
"""

import atexit
import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from haulage import config, forks
from haulage.runtime.context import Context
from haulage.runtime.devices import capture, ordering, pending, registry, stream_arguments
from haulage.runtime.devices.event import Event
from haulage.runtime.devices.graph import Graph
from haulage.runtime.devices.registry import Driver
from haulage.runtime.devices.stream import Stream
from haulage.runtime.exchange import ipc
from haulage.runtime.memory import allocation, allocators, block, decay, heap, limits
from haulage.runtime.plugins import choice
from haulage.runtime.process import finalize, runtime
from haulage.runtime.process.runtime import Runtime


def compose(made: Runtime) -> Runtime:
    """Fill the lists of a new `Runtime`, and give it."""
    made.devices = registry.devices
    made.new_default_stream = partial(Stream, handle=0, role="default")
    made.new_event = partial(Event, timing=False)
    made.new_graph = lambda stream, mode: Graph(stream, mode=mode)
    made.new_context = Context
    made.new_ipc_handle = ipc.get_ipc_handle
    made.adversary_seed = config.adversary_seed()

    made.at_stream_end += [block.stream_ends]
    made.at_reset += [block.close_all, allocation.reset]
    made.when_pending += [decay.note_pending]
    # No thread may run Python code once the interpreter goes; failures are told while the drivers
    # are there; nothing is given back after that.
    made.at_exit += [decay.end, registry.tell_unraised, finalize.end]
    # From the ground up: what the parent's drivers and threads had is theirs.
    made.in_child += [
        finalize.forget,
        capture.start_anew,
        stream_arguments.start_anew,
        ordering.start_anew,
        pending.start_anew,
        heap.start_anew,
        limits.start_anew,
        allocators.start_anew,
        decay.start_anew,
    ]
    return made


def start() -> None:
    """Compose the `Runtime` of this process, and let it know of forks and of the end.

    The cycle collector is watched, too: see `process.finalize`.
    """
    compose(runtime.current)
    choice.follow_environment()
    gc.callbacks.append(finalize.note_collection)
    forks.in_child(lambda: runtime.current.forked())
    atexit.register(lambda: runtime.current.exit())


@contextmanager
def replaced(drivers: Iterable[Driver]) -> Iterator[Runtime]:
    """Inside, the process has another `Runtime`, with these drivers only: for tests.

    What was made of the one before stays its own, and must not be used inside.
    """
    before = runtime.current
    try:
        made = compose(Runtime())
        runtime.use(made)
        for driver in drivers:
            registry.register(driver)
        yield made
    finally:
        runtime.use(before)
