from collections.abc import Callable
from typing import Any

from haulage._core.pool import Workers
from haulage._core.starts import Queues, Start

SHORT: int

class Cost:
    def is_short(self, blocks: float) -> bool: ...
    def note(self, blocks: float, ns: float) -> None: ...

def cost_of(function: int) -> Cost: ...

class TaskBase:
    done: bool
    followers: Any
    stream: Any
    thread: int

class StreamBase:
    own: Any
    tail: Any

def know(stream_type: type) -> None: ...

class StreamsBase(Queues):
    lock: Any
    closed: bool
    _default: Any
    _held: Any
    _waiting: int
    _busy: Any
    _streams: Any
    _failed: Any
    _ended: Any

class GridStart(Start):
    def __init__(
        self,
        streams: StreamsBase,
        workers: Workers,
        function: int,
        blocks: float,
        perform: Callable[[int, bytes], None],
        failed: Callable[[int, int], BaseException],
    ) -> None: ...
