"""`@jit`: from a Python function to kernels that run where their arguments are."""

import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from haulage import config
from haulage.errors import DeviceMismatch, LaunchError
from haulage.platforms import PLATFORMS
from haulage.runtime import arguments, device
from haulage.runtime.arguments import Key, Packer
from haulage.runtime.launch import (
    Configuration,
    Loaded,
    check_limits,
    device_of_arguments,
    normalise_dims,
    place_arguments,
    release_arguments,
    use_memory,
)
from haulage.runtime.stream import Stream, resolve

if TYPE_CHECKING:
    from haulage.compiler.emit import Body, Code

# Options that make nothing different on the CPU; they are kept on the kernel for devices that
# use them.
_HINTS = ("inline", "lineinfo", "max_registers", "launch_bounds", "opt")

# Threads of a block where nobody said how many.
_USUAL_BLOCK = 256


@dataclass(frozen=True)
class Vocabulary:
    """Whose words a kernel speaks: `cuda` (32 lanes a warp) or `roc` (64)."""

    name: str
    warp_size: int


CUDA = Vocabulary("cuda", 32)
ROC = Vocabulary("roc", 64)


class DeviceFunction:
    """A function that kernels call; made by `@jit(device=True)`."""

    haulage_function = True

    def __init__(self, py_func: Callable[..., Any], options: Any, hints: dict[str, Any]) -> None:
        self.py_func = py_func
        self.haulage_options = options
        self.hints = hints
        self.__name__ = py_func.__name__
        self.__qualname__ = py_func.__qualname__
        self.__doc__ = py_func.__doc__
        self.__module__ = py_func.__module__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise LaunchError(
            f"{self.__qualname__} is a device function: only kernels can call it "
            f"(its Python function is {self.__name__}.py_func)"
        )

    def __repr__(self) -> str:
        return f"<device function {self.__qualname__}>"


class _Overload:
    """A kernel for one signature on one kind of device: its body, and its code where loaded."""

    def __init__(self, body: "Body", keys: tuple[Key, ...]) -> None:
        self.body = body
        self.packer = Packer(keys)
        self.loaded: dict[tuple[device.Device, tuple[int, int, int], str], Loaded] = {}


class Kernel:
    """A kernel; `kernel[grid, block, stream, shared_bytes](*args)` launches it.

    It is compiled for the types of its arguments and the size of its block when it is first
    launched with them, or at once for signatures given to `@jit`.
    """

    haulage_function = True

    def __init__(
        self,
        py_func: Callable[..., Any],
        vocabulary: Vocabulary,
        options: Any,
        hints: dict[str, Any],
        signatures: Sequence[Any] = (),
    ) -> None:
        self.py_func = py_func
        self.vocabulary = vocabulary
        self.haulage_options = options
        self.hints = hints
        self.__name__ = py_func.__name__
        self.__qualname__ = py_func.__qualname__
        self.__doc__ = py_func.__doc__
        self.__module__ = py_func.__module__
        self._overloads: dict[tuple[str, tuple[Key, ...]], _Overload] = {}
        self._chosen: dict[tuple[str, tuple[Key, ...]], _Overload] = {}
        self._lock = threading.RLock()
        self._parameters = len(inspect.signature(py_func).parameters)
        self._configured = lru_cache(maxsize=128)(self._configure)
        self._declared: list[tuple[Key, ...]] = []
        for signature in signatures:
            self.compile(signature)
        # A kernel with signatures takes nothing else, as in Numba.
        self._only_declared = bool(signatures)

    # ---- launching ------------------------------------------------------------------------

    def __getitem__(self, configuration: Any) -> "Launcher":
        """`kernel[grid, block]`, `kernel[grid, block, stream]` or with dynamic shared bytes too."""
        if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 4:
            raise LaunchError(
                f"kernel {self.__qualname__}[{configuration!r}]: expected "
                "[grid, block], [grid, block, stream] or [grid, block, stream, shared_bytes]"
            )
        try:
            return self._configured(*configuration)
        except TypeError:
            # Lists cannot be remembered.
            return self._configure(*configuration)

    def _configure(
        self, grid: Any, block: Any, stream: Any = 0, shared_bytes: Any = 0
    ) -> "Launcher":
        name = f"kernel {self.__qualname__}: "
        if isinstance(shared_bytes, bool) or not hasattr(shared_bytes, "__index__"):
            raise LaunchError(f"{name}dynamic shared bytes {shared_bytes!r}: expected an int")
        if int(shared_bytes) < 0:
            raise LaunchError(f"{name}dynamic shared bytes {shared_bytes!r}: must not be negative")
        if not isinstance(stream, Stream) and stream not in (0, None):
            raise LaunchError(f"{name}stream {stream!r}: expected a stream made by stream(), or 0")
        return Launcher(
            self,
            Configuration(
                normalise_dims(grid, name + "grid"),
                normalise_dims(block, name + "block"),
                stream,
                int(shared_bytes),
            ),
        )

    def configure(self, *args: Any, **kwargs: Any) -> "Launcher":
        """As `kernel[...]`; for roc (global size, local size, stream), sizes in work-items."""
        if self.vocabulary is not ROC:
            return self._configure(*args, **kwargs)
        return self._configure_range(*args, **kwargs)

    def _configure_range(
        self, global_size: Any, local_size: Any = None, stream: Any = None
    ) -> "Launcher":
        name = f"kernel {self.__qualname__}: "
        whole = normalise_dims(global_size, name + "global size")
        if local_size is None:
            local_size = next(size for size in range(64, 0, -1) if whole[0] % size == 0)
        local = normalise_dims(local_size, name + "local size")
        if any(total % size for total, size in zip(whole, local, strict=True)):
            raise LaunchError(
                f"{name}global size {whole} is not a multiple of local size {local}; round it up "
                "and let the kernel leave out what is beyond the end"
            )
        groups = tuple(total // size for total, size in zip(whole, local, strict=True))
        return self._configure(groups, local, stream or 0)

    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> "Launcher":
        """A launch of at least `ntasks` threads in blocks of `tpb` (0: a usual number).

        The kernel has to leave out the threads beyond `ntasks`.
        """
        if isinstance(ntasks, bool) or not hasattr(ntasks, "__index__") or int(ntasks) < 0:
            raise LaunchError(
                f"kernel {self.__qualname__}.forall({ntasks!r}): expected a number of tasks"
            )
        threads = int(tpb) or (64 if self.vocabulary is ROC else _USUAL_BLOCK)
        blocks = -(-int(ntasks) // threads)
        if not blocks:
            return Launcher(self, None)
        return self._configure(blocks, threads, stream or 0, sharedmem)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        raise LaunchError(
            f"kernel {self.__qualname__} was called without a launch configuration; "
            f"write {self.__name__}[blocks, threads](...) or {self.__name__}.forall(n)(...)"
        )

    def launch(self, configuration: Configuration, args: tuple[Any, ...]) -> None:
        """Start the kernel with `configuration`; returns before it has run where it can.

        Raises:
            LaunchError: the configuration or the arguments do not fit; nothing ran.
            DeviceMismatch: arrays and stream are of different devices; nothing ran.
            CompileError: the kernel cannot be compiled for these arguments.
        """
        if len(args) != self._parameters:
            raise LaunchError(
                f"kernel {self.__qualname__} takes {self._parameters} arguments, got {len(args)}"
            )
        stream = configuration.stream
        place, movable = device_of_arguments(args, self.__qualname__)
        if isinstance(stream, Stream):
            if place is not None and stream.device is not place:
                raise DeviceMismatch(
                    f"kernel {self.__qualname__}: arrays on {place}, stream on {stream.device}"
                )
            place = stream.device
        elif place is None:
            place = device.current_device()
        stream = resolve(stream, place)
        check_limits(configuration, place.properties, self.__qualname__)
        releases: list[Callable[[], None]] = []
        if movable:
            args = place_arguments(args, stream, f"kernel {self.__qualname__}", releases)
        overload = self._overload_for(place, args)
        packed = overload.packer.pack(args)
        loaded = self._loaded(overload, place, configuration.block)
        on_host = use_memory(args, stream)
        try:
            loaded.start(configuration, stream, packed)
        finally:
            # Also when it failed or was interrupted: a part of it may have run.
            if releases:
                release_arguments(releases)
        if on_host and stream.handle:
            # A host array is used in place, and is its owner's again when the call returns.
            stream.synchronize()

    def _overload_for(self, place: device.Device, args: tuple[Any, ...]) -> _Overload:
        try:
            keys = tuple([arguments.key_of(value) for value in args])
        except TypeError as error:
            raise LaunchError(f"kernel {self.__qualname__}: {error}") from error
        chosen = self._chosen.get((place.kind, keys))
        if chosen is None:
            declared = next((own for own in self._declared if _all_accept(own, keys)), None)
            if declared is None and self._only_declared:
                raise LaunchError(
                    f"kernel {self.__qualname__} was compiled for {self.signatures} only; the "
                    f"arguments are {self._listed(keys)}"
                )
            chosen = self._overload(place.kind, declared or keys)
            self._chosen[place.kind, keys] = chosen
        return chosen

    def _loaded(
        self, overload: _Overload, place: device.Device, block: tuple[int, int, int]
    ) -> Loaded:
        way = config.thread_way()
        loaded = overload.loaded.get((place, block, way))
        if loaded is None:
            with self._lock:
                loaded = overload.loaded.get((place, block, way))
                if loaded is None:
                    loaded = Loaded(place, overload.body, overload.body.code(block, way))
                    overload.loaded[place, block, way] = loaded
        return loaded

    # ---- compiling ------------------------------------------------------------------------

    def compile(self, signature: Any) -> None:
        """Type and lower the kernel for a signature now.

        Takes a string such as "void(float32[:], int64)", a tuple of dtypes, or Numba's signatures.
        """
        from haulage import numba_bridge
        from haulage.compiler.frontend import parse_signature

        keys = tuple(numba_bridge.key_of(kind) for kind in parse_signature(signature))
        if len(keys) != self._parameters:
            raise LaunchError(
                f"kernel {self.__qualname__} takes {self._parameters} arguments, "
                f"the signature {signature!r} has {len(keys)}"
            )
        self._overload(device.current_device().kind, keys)
        if keys not in self._declared:
            self._declared.append(keys)

    def _overload(self, kind: str, keys: tuple[Key, ...]) -> _Overload:
        with self._lock:
            overload = self._overloads.get((kind, keys))
            if overload is None:
                target = PLATFORMS[kind].target_maker()()
                body = _body(self.py_func, keys, target, self.haulage_options)
                overload = self._overloads[kind, keys] = _Overload(body, keys)
            return overload

    @property
    def signatures(self) -> list[str]:
        """The signatures that the kernel was compiled for, as Numba writes types."""
        return [overload.body.lowered.signature for overload in self._overloads.values()]

    def inspect_llvm(self) -> dict[str, str]:
        """For each signature the LLVM IR that the front end made."""
        return {
            overload.body.lowered.signature: overload.body.lowered.llvm
            for overload in self._overloads.values()
        }

    def inspect_asm(self) -> dict[str, str]:
        """For each signature the assembly of the code that was loaded last."""
        return {
            overload.body.lowered.signature: list(overload.loaded.values())[-1].code.asm
            for overload in self._overloads.values()
            if overload.loaded
        }

    def _listed(self, keys: tuple[Key, ...]) -> str:
        from haulage import numba_bridge

        return f"({', '.join(str(numba_bridge.numba_type(key)) for key in keys)})"

    def __repr__(self) -> str:
        return f"<{self.vocabulary.name} kernel {self.__qualname__}>"


class Launcher:
    """A kernel with a launch configuration; calling it launches the kernel."""

    __slots__ = ("configuration", "kernel")

    def __init__(self, kernel: Kernel, configuration: Configuration | None) -> None:
        self.kernel = kernel
        self.configuration = configuration

    def __call__(self, *args: Any) -> None:
        # There is nothing to run in `forall(0)`.
        if self.configuration is not None:
            self.kernel.launch(self.configuration, args)

    def __repr__(self) -> str:
        return f"<{self.kernel!r} with {self.configuration}>"


def _all_accept(declared: tuple[Key, ...], given: tuple[Key, ...]) -> bool:
    return len(declared) == len(given) and all(map(arguments.accepts, declared, given))


def _body(function: Callable[..., Any], keys: tuple[Key, ...], target: Any, options: Any) -> "Body":
    from haulage import numba_bridge
    from haulage.compiler.emit import Body

    try:
        kinds = tuple(numba_bridge.numba_type(key) for key in keys)
    except TypeError as error:
        raise LaunchError(f"kernel {function.__qualname__}: {error}") from error
    return Body(function, kinds, target, options)


# ---- the decorator ---------------------------------------------------------------------------


def jit(
    vocabulary: Vocabulary,
    func_or_sig: Any = None,
    *,
    device: bool = False,
    fastmath: Any = False,
    **options: Any,
) -> Any:
    """Make a kernel, or with `device=True` a function for kernels, of a Python function.

    Use as `@jit`, `@jit(...)`, `@jit("void(float32[:], int32)")` or with a list of signatures.

    Args:
        func_or_sig: the function, a signature or a list of them.
        device: make a function that kernels call.
        fastmath: True, or a set of LLVM's fast-math flags: floats may be reordered and rounded
            differently. Sums and products are contracted even without it, as on GPUs.
        options: hints (`inline`, `lineinfo`, `max_registers`, `launch_bounds`, `opt`) are kept in
            `hints` for the devices that use them.

    Raises:
        TypeError: an option is unknown.
        NotImplementedError: an option that would change what the kernel does is not there yet.
    """
    hints = {name: options.pop(name) for name in _HINTS if name in options}
    for name, off in (("debug", False), ("cache", False), ("link", ()), ("boundscheck", False)):
        wanted = options.pop(name, off)
        if wanted is not None and wanted != off and wanted != []:
            raise NotImplementedError(f"jit({name}={wanted!r}) is not there yet in this version")
    if options:
        raise TypeError(f"jit got unknown options: {', '.join(sorted(options))}")
    chosen = _options(fastmath)

    def decorate(function: Callable[..., Any], signatures: Sequence[Any]) -> Any:
        if isinstance(function, (Kernel, DeviceFunction)):
            raise TypeError(f"{function!r} is compiled already; give jit the Python function")
        if device:
            return DeviceFunction(function, chosen, hints)
        return Kernel(function, vocabulary, chosen, hints, signatures)

    if inspect.isfunction(func_or_sig):
        return decorate(func_or_sig, ())
    if isinstance(func_or_sig, (Kernel, DeviceFunction)):
        return decorate(func_or_sig, ())
    signatures = func_or_sig if isinstance(func_or_sig, list) else [func_or_sig]
    given = [item for item in signatures if item is not None]
    return lambda function: decorate(function, given)


def cuda_jit(func_or_sig: Any = None, device: bool = False, **options: Any) -> Any:
    """`cuda.jit`: make a kernel with 32 lanes a warp; see `haulage.kernel.jit` for the options."""
    return jit(CUDA, func_or_sig, device=device, **options)


def roc_jit(signature: Any = None, device: bool = False, **options: Any) -> Any:
    """`roc.jit`: make a kernel with 64 lanes a wave; see `haulage.kernel.jit` for the options."""
    return jit(ROC, signature, device=device, **options)


def _options(fastmath: Any) -> Any:
    from haulage.compiler.options import Options

    if not isinstance(fastmath, bool):
        fastmath = frozenset(fastmath)
    return Options(fastmath)


def compile(
    function: Any,
    signature: Any,
    target: str = "host",
    *,
    block: Any = _USUAL_BLOCK,
    fastmath: Any = False,
) -> "Code":
    """Compile a kernel for a target, without any device.

    Args:
        function: a Python function, or a kernel made by `@jit`.
        signature: argument types: `"void(float32[:], int64)"`, a tuple of NumPy dtypes or Numba
            types, or a Numba signature.
        target: `host`, this computer's processor.
        block: threads of a block, an int or up to three; code for the CPU is made for one size.
        fastmath: as for `jit`.

    Returns:
        An object with `.llvm` and `.asm` (texts), `.code` (bytes), `.metadata` (a dictionary) and
        `.stages` (every stage's text by name).

    Raises:
        ValueError: the target is unknown, or the block's size is.
        TypeError: the signature names no types.
        CompileError: the function cannot be compiled for it.
    """
    if target != "host":
        raise ValueError(f"target {target!r}: this version compiles for 'host' only")
    from haulage import numba_bridge
    from haulage.compiler.frontend import parse_signature

    py_func = getattr(function, "py_func", function)
    options = getattr(function, "haulage_options", None) or _options(fastmath)
    keys = tuple(numba_bridge.key_of(kind) for kind in parse_signature(signature))
    body = _body(py_func, keys, PLATFORMS["cpu"].target_maker()(), options)
    return body.code(normalise_dims(block, "block"), config.thread_way())
