from contextvars import ContextVar
from types import TracebackType
from typing import Any

import numpy as np

from haulage.runtime.geometry.ranges import Ranges
from haulage.runtime.process.call_sites import CallSite
from haulage.runtime.transfers.entries import View

def know(
    ndarray: type[np.ndarray], view_type: type[View], block_type: type, nothing: RangesBase
) -> None: ...
def know_only_read(variable: ContextVar[tuple[Any, ...]]) -> None: ...

class RangesBase:
    runs: Any
    def __init__(self, runs: tuple[tuple[int, int], ...] = ()) -> None: ...

class Lock:
    @property
    def depth(self) -> int: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None: ...
    def enter_within(self, seconds: float) -> bool: ...

class SumsBase:
    kept: bool
    uses: int
    used_bytes: int
    found: int
    found_bytes: int
    launches: int
    launched_bytes: int
    as_host_arrays: int
    pageable_bytes: int

class Write:
    def __init__(self, part: RangesBase, call_site: Any, view: View | None) -> None: ...
    @property
    def part(self) -> Any: ...
    @property
    def call_site(self) -> Any: ...
    @property
    def view(self) -> View | None: ...

class AccountBase:
    sums: Any
    writes: list[Write]
    def wrote_again(self, part: RangesBase, call_site: Any, view: View | None) -> bool: ...
    def used(self, nbytes: int, found: bool) -> None: ...
    def launched(self, nbytes: int, ways: int) -> None: ...

class Records:
    records: list[Any]
    pending: Any

class BaselineBase:
    parts: dict[Any, Any]

class HandedOutBase(Records):
    baseline: Any

class Borrow:
    part: Ranges
    call_site: CallSite
    why: str
    stale: tuple[Any, ...]
    is_overwritten: bool
    is_alive: bool
    def __init__(
        self, part: Ranges, call_site: CallSite, why: str, is_overwritten: bool
    ) -> None: ...
    @property
    def fresh(self) -> Ranges: ...
    @property
    def view(self) -> View | None: ...

class BorrowedMemory:
    def __init__(self, host: np.ndarray, borrow: Borrow) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class ReplicaBase:
    valid: Any
    acquired: Any
    arrays: Any
    call_site: Any

class DeviceReplicaBase(ReplicaBase):
    block: Any
    writers: Any
    writing: Any
    used: int
    read_since_write: bool
    def count_use(self) -> None: ...

class StateBase:
    account: Any
    borrows: Any
    defined: Any
    evicted: Any
    exports: Any
    handed_out: Any
    host: Any
    host_writers: Any
    host_writing: Any
    last_written: Any
    lock: Lock
    lost: Any
    on_host: Any
    replicas: Any
    shared: Any
    uploads: Any
    whole: Any
    def array_if_at_rest(
        self, stream: Any, mode: str, part: RangesBase, key: Any, nbytes: int, ways: int
    ) -> Any: ...

class Key:
    def __init__(self, *parts: Any) -> None: ...

class Moving:
    coherence: Any
    _dtype: Any
    _given: Any
    _key: Any
    _launch_kind: Any
    _layout: Any
    _offset: Any
    _part: Any
    _shape: Any
    _skew: Any
    _strides: Any
    _typed: Any
    _own_bytes: int
    _is_plain: bool
    _state: StateBase
    def _borrowed_at_once(self, why: str) -> np.ndarray | None: ...
    @property
    def _numba_type_(self) -> Any: ...

def address_of_host_array() -> int: ...
def acquire(
    array: Any, device: Any, stream: Any, handle: int, mode: str, ways: int, written: list[Any]
) -> Any: ...
def release(
    written: list[Any], device: Any, stream: Any, handle: int, dones: list[Any]
) -> None: ...
