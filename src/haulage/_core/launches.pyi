from collections.abc import Callable
from typing import Any

from haulage._core.environment import Variable
from haulage._core.memory import DeviceBase
from haulage._core.packing import Packer

def know(
    array_type: type,
    stream_type: type,
    thread_way: Variable,
    classify: Callable[[Any, list[Any]], Any],
    classifiers: dict[type, Any],
    number_kinds: dict[type, Any],
    int_kinds: tuple[Any, Any],
    nonnegative_end: int,
    wait_for: Callable[[Any], None],
    call_all: Callable[..., None],
    launch_error: type[Exception],
) -> None: ...

class Part:
    kind: Any
    shape: Any
    strides: Any
    data: bytes
    def __init__(self, kind: object, shape: object, strides: object, data: bytes) -> None: ...

def launch(
    kernel: LaunchedBase,
    plans: dict[Any, Any],
    configuration: Any,
    stream: Any,
    args: tuple[Any, ...],
) -> None: ...

class LaunchedBase:
    chosen: Any
    extensions: Any
    plain_count: int | None
    waits: bool
    _configured: dict[Any, Any]
    def known_launcher(self, given: object) -> Any: ...

def has_plain_sizes(given: object) -> bool: ...

def in_place(device: DeviceBase) -> bool: ...

class Movement:
    def __init__(self, number: int, mode: str, use: Any, hint: Any) -> None: ...

class PlanBase:
    _kernel: Any
    _chosen: Any
    _current: Any
    _device: Any
    _start: Any
    _way: str
    _checker: Any
    _packer: Packer
    _placed: Any
    _arrays: list[int]
    _moving: list[Movement]
    _ordered: list[int]
    _conversions: list[Any]
    _captured: tuple[Any, ...]
    _kinds: tuple[Any, ...]
    _apart: bool
    _flat: bool
    _in_place: bool
    _notes: bool
    _on_host: bool
    _special: bool
    _waits: bool

class LauncherBase:
    kernel: Any
    configuration: Any
    plans: Any
    def launch_plainly(self, args: tuple[Any, ...]) -> bool: ...

def call_plainly(
    launchers: type[LauncherBase],
    brief: type[BaseException],
    shorten: Callable[[Any], None],
) -> None: ...
