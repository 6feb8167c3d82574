from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from haulage._core.extents import Extents
from haulage._core.starts import Queues
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.memory.decay import Decay
from haulage.runtime.memory.heap import Heap
from haulage.runtime.process.runtime import Runtime

ALIGNMENT: int
LARGEST: int
QUANTUM: int

_CallSite = tuple[tuple[CodeType, int], ...]

def class_of(nbytes: int) -> int: ...

class Counter:
    @property
    def in_use(self) -> int: ...
    @property
    def peak(self) -> int: ...
    @property
    def allocations(self) -> int: ...
    def reset_peak(self) -> None: ...

class Allocation:
    device_ptr: int
    nbytes: int
    returned: bool

class HeapBase:
    @property
    def device(self) -> Device: ...
    @property
    def kind(self) -> str: ...
    @property
    def flags(self) -> int: ...
    @property
    def free_extents(self) -> Extents: ...
    @property
    def counter(self) -> Counter: ...
    @property
    def pools(self) -> dict[int | None, Pool]: ...
    of_default: Pool | None
    on_host: bool | None
    is_default_idle: Callable[[], bool] | None
    changing: bool
    decay: Decay | None
    lowest: int
    spare: int
    unwatched: int
    def __init__(
        self,
        device: Device,
        kind: str,
        flags: int,
        free_extents: Extents,
        host_address: Callable[[int], int],
    ) -> None: ...

class Pool:
    held: int
    direct: int
    misses: int
    def __init__(
        self,
        heap: Heap,
        stream: int | None,
        classes: int,
        of_device: Counter,
        of_all: Counter,
    ) -> None: ...
    @property
    def heap(self) -> Heap: ...
    @property
    def stream(self) -> int | None: ...
    @property
    def counter(self) -> Counter: ...
    @property
    def counters(self) -> tuple[Counter, Counter, Counter, Counter]: ...
    @property
    def free(self) -> list[list[int]]: ...
    @property
    def parked(self) -> Extents: ...
    @property
    def reserved(self) -> int: ...
    def is_idle(self) -> bool: ...
    def take(self, block: Allocation, counted: bool = True) -> bool: ...
    def give(self, block: Allocation, to_all: bool, counted: bool = True) -> bool: ...
    def take_if_free(self, block: Allocation) -> bool: ...
    def begin(self, block: Allocation, address: int) -> None: ...
    def end(self, block: Allocation) -> bool: ...

class DeviceBase:
    @property
    def heaps(self) -> dict[tuple[str, int], HeapBase]: ...
    capturing: Any
    default_stream: Stream
    queues: Queues | None
    heap: HeapBase | None

class RuntimeBase:
    chosen: Any
    choice: Any
    best: Any
    named: Any
    entered: Any
    selected: Any
    found: Any
    observer: Any
    checker: Any
    adversary_seed: Any
    after_wait: Any
    apart: bool
    captures: Any
    printing: Any
    watchers: Any

class Conditions:
    bystanders: set[int]
    collecting: int
    runtime: Runtime
    current_device: Callable[[], Device]
    pools_memory: Callable[[], bool]
    provider: Any
    aside: Any
    aside_handles: Any
    waiting: Any
    outer_frames: Any
    block_type: type[BlockBase]
    stream_type: type[Stream]
    own_files: dict[str, bool]
    environment: dict[Any, Any]
    decay_runs: bool
    limited: bool
    deferring: int
    frames_kept: int
    turns: int

conditions: Conditions

def current_call_site() -> _CallSite: ...

class BlockBase(Allocation):
    device: Device
    host_ptr: int
    kind: str
    release: Callable[[], object] | None
    home: Stream | None
    pool: Pool | None
    streams: dict[int | Stream, Stream] | None
    used_before: bool
    closed: bool
    exposed: bool
    exported: bool
    of_others: bool
    closed_at: _CallSite
    call_site: _CallSite
    generation: int
    born: float
    def __init__(
        self,
        device: Device,
        device_ptr: int,
        host_ptr: int,
        nbytes: int,
        kind: str,
        release: Callable[[], object] | None = None,
        pool: Pool | None = None,
        home: Stream | None = None,
        used_before: bool = False,
        has_memory: bool = True,
        call_site: _CallSite | None = None,
    ) -> None: ...
    def begun(self, host_ptr: int) -> object: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def _give_back(self) -> None: ...

class DeallocationBase(Allocation):
    def begin(
        self,
        device: Device,
        streams: dict[int | Stream, Stream] | None,
        home: Stream | None,
        action: Callable[[], object],
    ) -> None: ...
    def __call__(self) -> None: ...

def live_blocks() -> list[Any]: ...
def allocate(device: Device, nbytes: int, stream: object, kind: str, flags: int) -> Any: ...
