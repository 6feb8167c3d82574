"""Lets each call of the HIP runtime that the AMD back end makes fail once, with the runtime of
`doubles.libamdhip64`: in a process of its own, by `run`.

A scene is what a program may do with a back end; it leaves nothing behind. Each is played with a
back end of its own as often as it makes calls, each time with another one that fails, and after
that once more, which has to go well.
"""

import contextlib
import ctypes
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import haulage
from doubles import libamdhip64
from haulage import cuda
from haulage.backends.base import DEVICE, MANAGED, MAPPED, NON_BLOCKING, PINNED, Backend
from haulage.cuda import cg
from haulage.errors import DeviceError
from haulage.platforms import PLATFORMS

# No status that anything is made of: hipErrorUnknown.
STATUS = 999
ONE = (1, 1, 1)

Scene = Callable[[Backend], None]
SCENES: list[Scene] = []

# These are called for another process, which is told in other words.
FOR_OTHERS = ("hipMemRetainAllocationHandle", "hipMemExportToShareableHandle", "hipMemRelease")
# What the back end makes and gives back in one call stays where that is refused.
STAYS = {"hipGraphDestroy": "graph", "hipMemRelease": "chunk"}


def scene(function: Scene) -> Scene:
    """Decorator: the function is one of the scenes."""
    SCENES.append(function)
    return function


def _back(call: Callable[..., object], *args: Any) -> None:
    """Give something back; what fails is not given back, and can be again."""
    try:
        call(*args)
    except DeviceError:
        call(*args)
        raise


@contextlib.contextmanager
def _memory(
    backend: Backend, kind: str = DEVICE, nbytes: int = 1 << 16
) -> Iterator[tuple[int, int]]:
    device, host = backend.alloc(nbytes, kind, 0)
    try:
        yield device, host
    except DeviceError:
        backend.synchronize()  # what has begun may use it
        raise
    finally:
        _back(backend.free, device, host, kind)


@contextlib.contextmanager
def _stream(backend: Backend) -> Iterator[int]:
    made = backend.stream_create(NON_BLOCKING)
    try:
        yield made
        backend.stream_synchronize(made)
    except DeviceError:
        # A function of the host that came after the back end has gone would be another's.
        backend.synchronize()
        raise
    finally:
        _back(backend.stream_destroy, made)


@contextlib.contextmanager
def _module(backend: Backend, code: bytes) -> Iterator[int]:
    made = backend.load(code)
    try:
        yield made
    finally:
        _back(backend.unload, made)


@scene
def devices(backend: Backend) -> None:
    """Figures, and what devices reach of one another."""
    backend.properties(0)
    backend.memory_info()
    backend.stream_priorities()
    if backend.can_access_peer(0, 1):
        backend.peer_enable(0, 1)
    backend.activate(1)
    backend.synchronize()
    backend.activate(0)
    backend.synchronize()


@scene
def kinds_of_memory(backend: Backend) -> None:
    """Memory of every kind, and hints about it."""
    for kind in (DEVICE, PINNED, MAPPED, MANAGED):
        with _memory(backend, kind) as (address, host):
            backend.check_address(address, 64)
            backend.fill(address, b"\7", 64, 0)
            backend.fill(address, b"\7\1", 64, 0)
            backend.fill(address, b"\7\1\1\1", 64, 0)
            backend.stream_synchronize(0)
            if kind == MANAGED:
                backend.prefetch(address, 4096, 0, 0)
                backend.advise(address, 4096, "set_read_mostly", 0)
            assert not host or ctypes.string_at(host, 4) == b"\7\1\1\1"
    room = ctypes.create_string_buffer(3 * 4096)
    page = (ctypes.addressof(room) + 4095) & -4096
    backend.register(page, 4096)
    _back(backend.unregister, page)


@scene
def copies(backend: Backend) -> None:
    """By the runtime, by kernels, by way of the host."""
    rows = ctypes.create_string_buffer(bytes(range(256)) * 16)
    at, back = ctypes.addressof(rows), ctypes.create_string_buffer(4096)
    with _memory(backend) as (x, _), _memory(backend) as (y, _), _stream(backend) as stream:
        backend.copy(x, at, 4096, stream)
        backend.fill(y, bytes(range(8)), 512, stream)
        backend.copy_nd(y, (128, 1), x, (256, 1), (16, 128), 1, stream)
        backend.copy_nd(y, (1280, 128, 1), x, (2048, 256, 1), (2, 8, 128), 1, stream)
        backend.copy_nd(y, (8, 4), x, (4, 512), (16, 2), 4, stream)
        backend.copy_nd(ctypes.addressof(back), (2,), y, (8,), (64,), 2, stream)
        backend.copy_nd(y, (8,), at, (2,), (64,), 2, stream)
        backend.copy(ctypes.addressof(back), y, 4096, stream)
        backend.stream_synchronize(stream)


@scene
def streams_and_events(backend: Backend) -> None:
    """Orders, times and functions of the host."""
    called: list[int] = []
    with _stream(backend) as stream, _stream(backend) as other:
        events = []
        try:
            for _ in range(2):
                events.append(backend.event_create(True))
                backend.event_record(events[-1], stream)
            backend.stream_wait_event(other, events[0])
            backend.stream_callback(other, lambda: called.append(1))
            backend.event_synchronize(events[1])
            backend.event_query(events[1])
            backend.event_elapsed(*events)
            backend.stream_query(stream)
            backend.stream_synchronize(other)
            assert called == [1]
        finally:
            with contextlib.ExitStack() as left:
                for event in events:
                    left.callback(_back, backend.event_destroy, event)


@scene
def code(backend: Backend) -> None:
    """Modules, launches, and what functions tell."""
    with _memory(backend) as (x, _), _module(backend, libamdhip64.CODE) as module:
        chain = backend.function(module, "chain")
        backend.symbol(module, "haulage_module")
        backend.function_info(chain)
        backend.occupancy(chain, 64, 0)
        args = b"".join(number.to_bytes(8, "little") for number in (x, 1, 1, 1))
        backend.launch(chain, ONE, ONE, 0, 0, args)
        backend.synchronize()


@cuda.jit
def _together(x: Any) -> None:
    cg.this_grid().sync()
    x[0] = cuda.globaltimer()


@cache
def _code_of_together() -> bytes:
    return haulage.compile(_together, "void(uint64[::1])", "gfx90a").code


def _cooperative(backend: Backend) -> None:
    """A kernel that has a barrier of its grid, and asks for the clock."""
    made = _code_of_together()
    with _memory(backend) as (x, _), _module(backend, made) as module, _stream(backend) as stream:
        function = backend.function(module, "_together")
        args = b"".join(number.to_bytes(8, "little") for number in (0, 0, 1, 8, x, 1, 8))
        backend.launch_cooperative(function, ONE, ONE, 0, stream, args)


@scene
def graphs(backend: Backend) -> None:
    """Recordings that become graphs, and one that does not."""
    with _memory(backend) as (x, _), _stream(backend) as stream, _stream(backend) as other:
        backend.capture_begin(stream)
        try:
            backend.capture_query(stream)
            backend.fill(x, b"\1", 64, stream)
        except DeviceError:
            _back(backend.capture_cancel, stream)
            raise
        graph, _ = backend.capture_end(stream)
        try:
            backend.graph_launch(graph, stream)
            backend.graph_launch(graph, other)
        finally:
            _back(backend.graph_destroy, graph)
        backend.capture_begin(stream)
        _back(backend.capture_cancel, stream)


def _ranges(backend: Backend) -> None:
    """Addresses first, memory later; and that shared with another process."""
    granule = backend.granularity()
    start = backend.reserve(2 * granule)
    try:
        backend.map(start, 2 * granule)
        try:
            handle = backend.ipc_export(start, granule, start, granule)
            try:
                opened, _ = backend.ipc_import(handle)
                _back(backend.ipc_close, opened)
            finally:
                backend.ipc_withdraw(start)
        finally:
            _back(backend.unmap, start, 2 * granule)
    finally:
        _back(backend.release, start, 2 * granule)


@scene
def sharing(backend: Backend) -> None:
    """Handles of the runtime's own."""
    with _memory(backend) as (x, _):
        backend.ipc_export(x, 64, x, 1 << 16)
        backend.ipc_withdraw(x)
    opened, _ = backend.ipc_import(_of_another_process)
    _back(backend.ipc_close, opened)


_of_another_process = b""
_ANOTHER = """
import sys
from doubles.libamdhip64 import Double
double = Double(major={major})
from haulage.platforms import PLATFORMS
backend = PLATFORMS["amd"].new_backend()
backend.activate(0)
x, _ = backend.alloc(4096, "device", 0)
print(backend.ipc_export(x, 4096, x, 4096).hex(), flush=True)
sys.stdin.read()
"""


def run(double: libamdhip64.Double, major: int) -> tuple[list[str], Counter[str]]:
    """(what went wrong, in words; how often a call of each function was made to fail)."""
    global _of_another_process
    scenes = list(SCENES)
    if major > 5:
        scenes += [_cooperative, _ranges]
        double.parameters(8)
    command = [sys.executable, "-c", _ANOTHER.format(major=major)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as another:  # type: ignore[call-overload]
        _of_another_process = bytes.fromhex(another.stdout.readline())
        wrong: list[str] = []
        tried: Counter[str] = Counter()
        for each in scenes:
            _try(double, each, wrong, tried)
        another.stdin.close()
    return wrong, tried


def _fresh() -> Backend:
    backend = PLATFORMS["amd"].new_backend()
    backend.activate(0)
    return backend


def _try(double: libamdhip64.Double, each: Scene, wrong: list[str], tried: Counter[str]) -> None:
    def alive() -> Counter[str]:
        return Counter(double.alive())

    def play() -> Counter[str]:
        before = alive()
        backend = _fresh()
        each(backend)
        each(backend)
        after = alive()
        after.subtract(before)
        return +after

    play()
    usual = play()
    start = double.now()
    each(_fresh())
    names = [name for name, _, _ in double.log(start) if name.startswith("hip")]
    for number, name in enumerate(names):
        if name == "hipGetLastError":
            continue
        tried[name] += 1
        where = f"{each.__name__}, call {number}, {name}"
        before, told, backend = alive(), None, None
        double.fail(name, STATUS, after=names[:number].count(name))
        try:
            backend = _fresh()
            each(backend)
        except BaseException as error:
            told = error
        double.heal()
        if told is None:
            wrong.append(f"{where}: nobody was told")
        elif not isinstance(told, DeviceError):
            wrong.append(f"{where}: {told!r}")
        elif not _is_told(told, name) and not (name in FOR_OTHERS and "exported" in str(told)):
            wrong.append(f"{where}: told as {told}")
        try:
            each(backend or _fresh())
        except BaseException as error:
            wrong.append(f"{where}: then it failed: {error!r}")
        after = alive()
        after.subtract(before)
        if name in STAYS:
            after.subtract([STAYS[name]])
        if +after != usual:
            wrong.append(f"{where}: left {dict(+after)}, as a rule {dict(usual)}")
        if double.misuses()[0]:
            wrong.append(f"{where}: misuse {double.misuses()}")
        if double.last_error():
            wrong.append(f"{where}: left the error {double.last_error()} for others")


def _is_told(told: DeviceError, name: str) -> bool:
    """Whether an error, or one that it comes from, names what was called and its status."""
    error: BaseException | None = told
    while error is not None:
        if name in str(error) and str(STATUS) in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
