"""Kernels: compiled for the types they are launched with, and launched."""

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from haulage import forks
from haulage._core.launches import LaunchedBase
from haulage.checks import flag
from haulage.compiler.options import Options
from haulage.errors import HaulageError, LaunchError, LaunchTypeError
from haulage.forks import cached_property
from haulage.kernel import advice
from haulage.kernel.as_function import AsFunction
from haulage.kernel.compilation import body_for
from haulage.kernel.configuration import (
    bound,
    carveout,
    check_bound,
    for_tasks,
    in_blocks,
    key_in_stream,
)
from haulage.kernel.inspection import Inspection
from haulage.kernel.launcher import Launcher
from haulage.kernel.overload import Overload
from haulage.kernel.parameters import Parameters
from haulage.kernel.signatures import best, keys_of
from haulage.kernel.vocabulary import VOCABULARIES, Vocabulary
from haulage.lang.debug import asks
from haulage.platforms import PLATFORMS
from haulage.runtime.arrays.host_arrays import device_of_array
from haulage.runtime.arrays.keys import Key
from haulage.runtime.devices import registry
from haulage.runtime.launch.hints import leaves, without_hints
from haulage.runtime.launch.kinds import Kind, classify, key_of
from haulage.runtime.launch.loaded import Configuration
from haulage.runtime.launch.placement import Placement, place_of_launch
from haulage.runtime.launch.plan import LaunchPlan
from haulage.runtime.process import observing, runtime
from haulage.tracebacks import brief_errors, shorten

if TYPE_CHECKING:
    from haulage.compiler.access.model import Accesses
    from haulage.kernel.caching import CacheStats


# The kind and the architecture of a device.
CodeFor = tuple[str, str]

# Configurations that a kernel keeps.
_MANY = 256


class Kernel(LaunchedBase, AsFunction, Inspection):
    """A kernel; `kernel[grid, block, stream, shared_bytes](*args)` launches it.

    It is compiled for the types of its arguments and the size of its block when it is first
    launched with them, or at once for signatures given to `@jit`.
    """

    _launcher_class = Launcher
    # What `configure` makes of its arguments.
    _configuration_of: Callable[..., Configuration] = staticmethod(in_blocks)

    def __init__(
        self,
        py_func: Callable[..., Any],
        vocabulary: Vocabulary,
        options: Options,
        hints: dict[str, Any],
        signatures: Sequence[Any] = (),
        cache: bool = False,
    ) -> None:
        super().__init__(py_func, vocabulary, options, hints)
        self.cache = cache
        self.waits = options.debug
        self.extensions = []
        self._overloads: dict[tuple[CodeFor, tuple[Key, ...]], Overload] = {}
        # Another dictionary is put in its place when what it holds is no more to be used.
        self.chosen = {}
        self._configured = {}
        self._specializations: dict[tuple[CodeFor, tuple[Key, ...]], Kernel] = {}
        self._lock = forks.lock()
        self.parameters = Parameters(py_func)
        self.names = self.parameters.names
        self.plain_count = self.parameters.plain_count
        self._declared: list[tuple[Key, ...]] = []
        for signature in signatures:
            self.compile(signature)
        # A kernel with signatures takes nothing else, as in Numba.
        self._only_declared = bool(signatures)

    # ---- launching ------------------------------------------------------------------------

    def __getitem__(self, configuration: Any) -> "Launcher":
        """`kernel[grid, block]`, `kernel[grid, block, stream]` or with dynamic shared bytes too."""
        known: Launcher | None = self.known_launcher(configuration)
        if known is not None:
            return known
        try:
            key, stream = key_in_stream(configuration)
            if key is not None and (known := self._configured.get(key)) is not None:
                return known.in_stream(stream)
            if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 4:
                raise LaunchError(
                    f"kernel {self.__qualname__}[{configuration!r}]: expected "
                    "[grid, block], [grid, block, stream] or [grid, block, stream, shared_bytes]"
                )
            launcher = self._launcher(in_blocks, *configuration)
            if key is not None:
                self._note(key, launcher)
            return launcher
        except HaulageError as error:
            shorten(error)
            raise

    @brief_errors
    def configure(self, *args: Any, **kwargs: Any) -> "Launcher":
        """As `kernel[...]`; for roc (global size, local size, stream), sizes in work-items."""
        try:
            return self._launcher(self._configuration_of, *args, **kwargs)
        except TypeError:
            try:
                inspect.signature(self._configuration_of).bind(*args, **kwargs)
            except TypeError as error:
                raise LaunchTypeError(f"kernel {self.__qualname__}.configure: {error}") from None
            raise

    @brief_errors
    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> "Launcher":
        """A launch of at least `ntasks` threads in blocks of `tpb` (0: a usual number).

        The kernel has to leave out the threads beyond `ntasks`.
        """
        return self._for_all(for_tasks, ntasks, tpb, stream, sharedmem)

    def _for_all(self, configure: Callable[..., Configuration | None], *sizes: Any) -> "Launcher":
        usual = min(self.vocabulary.usual_block, bound(self.hints) or self.vocabulary.usual_block)
        launcher = self._launcher(configure, usual, *sizes)
        if launcher.configuration is not None:
            grid, block, chosen, shared_bytes = launcher.configuration
            key, _ = key_in_stream((grid, block, chosen, shared_bytes))
            if key is not None:
                self._note(key, launcher)
        return launcher

    def _note(self, key: Any, launcher: "Launcher") -> None:
        """Let a launcher find out, and know, what launches of an equal key do."""
        known = self._configured.get(key)
        if known is None:
            if len(self._configured) >= _MANY:
                self._configured = {}
            # Without the stream, which is not kept here.
            known = self._configured[key] = launcher.in_stream(0)
        launcher.plans = known.plans

    def _launcher(
        self, configure: Callable[..., Configuration | None], *args: Any, **kwargs: Any
    ) -> "Launcher":
        try:
            configuration = configure(*args, **kwargs)
            if configuration is not None:
                if "launch_bounds" in self.hints:
                    check_bound(configuration, bound(self.hints))
                if "numba.cuda" in sys.modules:
                    advice.of_few_blocks(configuration)
            return self._launcher_class(self, configuration)
        except LaunchError as error:
            raise type(error)(f"kernel {self.__qualname__}: {error.args[0]}") from None

    @brief_errors
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        raise LaunchError(
            f"kernel {self.__qualname__}: launch configuration was not specified; "
            f"write {self.__name__}[blocks, threads](...) or {self.__name__}.forall(n)(...)"
        )

    def launch(self, configuration: Configuration, args: tuple[Any, ...]) -> None:
        """Start the kernel with `configuration` and one argument for each parameter.

        Raises:
            As `runtime.launch.plan.launch`.
        """
        _, block, stream, shared = configuration
        key, _ = key_in_stream((configuration.grid, block, stream or 0, shared))
        launcher = self._launcher_class(self, configuration)
        if key is not None:
            self._note(key, launcher)
        launcher.launch_in(stream, args)

    def plan(
        self, configuration: Configuration, stream: Any, kinds: tuple[Kind, ...], args: Any
    ) -> LaunchPlan:
        """The plan of launches with arguments of some kinds, of which `args` are some."""
        if self._may_stop or runtime.current.debugger is not None:
            from haulage.interpreting.launching import DebuggedPlan

            return DebuggedPlan(self, configuration, stream, kinds, args)
        return LaunchPlan(self, configuration, stream, kinds, args)

    @cached_property
    def _may_stop(self) -> bool:
        return asks(self.py_func)

    def alike(self, py_func: Callable[..., Any]) -> "Kernel":
        """A kernel of another function, in the same vocabulary."""
        return type(self)(py_func, self.vocabulary, Options(), {})

    def overload_for(self, code_for: CodeFor, keys: tuple[Key, ...]) -> Overload:
        """The code for arguments with these keys, compiled now if need be."""
        return self._chosen(code_for, keys)

    @property
    def aligned(self) -> bool:
        """Whether its arrays have to have aligned elements, as signatures that users write mean."""
        return self._only_declared

    def _chosen(self, code_for: CodeFor, keys: tuple[Key, ...]) -> Overload:
        # `recompile` puts another dictionary in its place, in which nothing old is then put.
        known = self.chosen
        chosen = known.get((code_for, keys))
        if chosen is None:
            fitting = best(self._declared, keys, unsafe=self._only_declared)
            if len(fitting) > 1 or (self._only_declared and not fitting):
                raise self._no_choice(keys, fitting)
            chosen = self._overload(code_for, fitting[0] if fitting else keys)
            known[code_for, keys] = chosen
        return chosen

    def _no_choice(self, keys: tuple[Key, ...], fitting: list[tuple[Key, ...]]) -> LaunchTypeError:
        if fitting:
            # In Numba's words and order.
            listed = "\n".join(f"{self._types(each)} -> none" for each in fitting)
            return LaunchTypeError(
                f"kernel {self.__qualname__}: Ambiguous overloading for {self.py_func!r} "
                f"{self._types(keys)}:\n{listed}\nThese fit equally well; convert an argument"
            )
        listed = ", ".join(map(self._listed, self._declared))
        return LaunchTypeError(
            f"kernel {self.__qualname__}: No matching definition for argument type(s) "
            f"{self._listed(keys)}; it was compiled for these only: {listed}"
        )

    def no_argument(self, args: tuple[Any, ...], why: TypeError) -> LaunchError:
        """The error for the first of `args` that no kernel can take, or else for `why`."""
        for name, value in zip(self.names, args, strict=True):
            try:
                classify(value, [])
            except TypeError as error:
                return LaunchTypeError(f"kernel {self.__qualname__}, argument {name!r}: {error}")
        return LaunchTypeError(f"kernel {self.__qualname__}: {why}")

    # ---- compiling ------------------------------------------------------------------------

    @brief_errors
    def compile(self, signature: Any) -> Overload:
        """Type and lower the kernel for a signature now.

        Takes a string such as "void(float32[:], int64)", a tuple of dtypes, or Numba's signatures.
        """
        return self._declare(registry.current_device().code_for, self._keys_of(signature))

    def _keys_of(self, signature: Any) -> tuple[Key, ...]:
        keys = keys_of(signature, self.vocabulary.maker)
        if len(keys) != len(self.names):
            raise LaunchError(
                f"kernel {self.__qualname__} takes {len(self.names)} arguments, "
                f"the signature {signature!r} has {len(keys)}"
            )
        return keys

    @brief_errors
    def access(self, signature: Any = None) -> "Accesses":
        """What the kernel does with each argument that has memory, for one signature.

        Takes a signature as `compile` does, for which the kernel is compiled if it was not before.
        Without one, the kernel has to be compiled for one signature only.

        Returns:
            A dictionary, name -> `Access`; arrays in tuples are called `name[0]`. An `Access` is
            written as 'none', 'r' (read), 'w' (written and never read) or 'rw', and tells which
            launches are known to write every element: in words, and by `overwrites`.

        Raises:
            LaunchError: the signature has another number of arguments; or there is none, and the
                kernel is compiled for several signatures or for none.
            LaunchTypeError: the kernel takes other signatures only.
            TypeError: something in the signature names no type, as an array does not.
            CompileError: it cannot be compiled for this one.
        """
        if signature is not None:
            place = registry.current_device()
            return self._chosen(place.code_for, self._keys_of(signature)).access
        overloads = self.overloads
        if len(overloads) != 1:
            listed = ", ".join(map(str, overloads)) or "nothing yet"
            raise LaunchError(
                f"kernel {self.__qualname__}: access() without a signature is for kernels that are "
                f"compiled for one; this one is for {listed}; name one, as in "
                'kernel.access("void(float32[:], int64)")'
            )
        return next(iter(overloads.values())).access

    def _declare(self, code_for: CodeFor, keys: tuple[Key, ...]) -> Overload:
        overload = self._overload(code_for, keys)
        overload.body.check()
        if keys not in self._declared:
            self._declared.append(keys)
        return overload

    def _overload(self, code_for: CodeFor, keys: tuple[Key, ...]) -> Overload:
        with self._lock:
            overload = self._overloads.get((code_for, keys))
            if overload is None:
                overload = self._new_overload(code_for, keys)
                self._overloads[code_for, keys] = overload
            return overload

    @brief_errors
    def recompile(self) -> None:
        """Compile anew for all signatures, with the values that globals have now.

        Raises:
            CompileError: it cannot be compiled with them; nothing is changed then.
        """
        with self._lock:
            made = {
                (code_for, keys): self._new_overload(code_for, keys)
                for code_for, keys in self._overloads
            }
            for overload in made.values():
                overload.body.check()
            self._overloads = made
            self.chosen = {}

    def _new_overload(self, code_for: CodeFor, keys: tuple[Key, ...]) -> Overload:
        prefers = carveout(self.hints)

        def body(code_for: CodeFor, checks: frozenset[str] = frozenset()) -> Any:
            what = self.py_func.__qualname__
            return observing.compiling(what, self._untold_body, code_for, keys, checks)

        return Overload(body, code_for, keys, self.vocabulary, prefers)

    def _untold_body(self, code_for: CodeFor, keys: tuple[Key, ...], checks: frozenset[str]) -> Any:
        if self.cache and not checks:
            from haulage.kernel.caching import kept_body

            return kept_body(self.py_func, keys, code_for, self.vocabulary, self.haulage_options)
        kind, architecture = code_for
        target = PLATFORMS[kind].device_target(architecture, self.vocabulary.warp_size)
        return body_for(self.py_func, keys, target, replace(self.haulage_options, checks=checks))

    def disable_compile(self, val: bool = True) -> None:
        """Take no other signatures than those compiled by now, or with False any again."""
        only = flag(val, "disable_compile: val")
        with self._lock:
            here = registry.current_device().code_for
            compiled = [keys for of, keys in self._overloads if of == here]
            self._declared += [keys for keys in compiled if keys not in self._declared]
            self._only_declared = only
            self.chosen = {}

    def _state(self) -> tuple[Any, ...]:
        own = (self.haulage_options, self.hints, (), self.cache)
        declared = (self._declared, self._only_declared, self.extensions)
        return self.py_func, self.vocabulary.name, own, declared

    @classmethod
    def _rebuild(cls, *state: Any) -> "Kernel":
        py_func, vocabulary, own, declared = state
        made = cls(py_func, VOCABULARIES[vocabulary], *own)
        made._declared, made._only_declared, made.extensions = declared
        return made

    @brief_errors
    def specialize(self, *args: Any) -> "Kernel":
        """The kernel compiled for arguments such as `args`, which then takes no others.

        Each of `args` is an argument of a launch, or a Numba type for one.

        Raises:
            RuntimeError: the kernel is specialised already.
            LaunchError: no kernel can take these arguments.
            CompileError: the kernel cannot be compiled for them.
        """
        if self.specialized:
            raise RuntimeError(f"kernel {self.__qualname__}: Dispatcher already specialized")
        from haulage import numba_bridge

        args = self.parameters.bind(args, {})
        declared = [numba_bridge.key_of_type(value) for value in args]
        args = tuple(0 if key else value for key, value in zip(declared, args, strict=True))
        what = f"kernel {self.__qualname__}"
        arrays = [value for value in leaves(args) if device_of_array(value) is not None]
        place = place_of_launch(arrays, None, what)[0] or registry.current_device()
        placement = Placement(place.default_stream, what, aligned=True)
        try:
            placed = tuple([key_of(value) for value in placement.place(args)])
        except TypeError as error:
            raise self.no_argument(without_hints(args), error) from error
        keys = tuple(key or own for key, own in zip(declared, placed, strict=True))
        with self._lock:
            made = self._specializations.get((place.code_for, keys))
            if made is None:
                made = type(self)(
                    *(self.py_func, self.vocabulary, self.haulage_options, self.hints),
                    cache=self.cache,
                )
                made._declare(place.code_for, keys)
                made._only_declared = True
                self._specializations[place.code_for, keys] = made
        return made

    @property
    def specializations(self) -> dict[tuple[tuple[int, int], tuple[Any, ...]], "Kernel"]:
        """What `specialize` made: (compute capability, tuple of Numba types) -> kernel."""
        here = registry.current_device()
        return {
            (here.properties.compute_capability, types): kernel
            for (code_for, _), kernel in tuple(self._specializations.items())
            if code_for == here.code_for
            for types in kernel.overloads
        }

    @property
    def specialized(self) -> bool:
        """Whether the kernel takes one signature and no other."""
        return self._only_declared and len(self._declared) == 1

    @property
    def overloads(self) -> dict[tuple[Any, ...], Overload]:
        """Tuple of Numba types -> `Overload`, for the kind of the current device."""
        here = registry.current_device().code_for
        return {
            overload.argument_types: overload
            # A copy, as another thread may add one.
            for (code_for, _), overload in tuple(self._overloads.items())
            if code_for == here
        }

    @property
    def stats(self) -> "CacheStats":
        """Which signatures the disk cache had when they were first asked for, and which it had
        not; both are empty for kernels without `cache=True`."""
        from haulage.disk_cache import store
        from haulage.kernel.caching import CacheStats

        hits: Counter[tuple[Any, ...]] = Counter()
        misses: Counter[tuple[Any, ...]] = Counter()
        for types, overload in self.overloads.items():
            if overload.body.found is not None:
                (hits if overload.body.found else misses)[types] += 1
        path = store.path() if self.cache else None
        return CacheStats(str(path) if path is not None else None, hits, misses)

    def _listed(self, keys: tuple[Key, ...]) -> str:
        return f"({', '.join(map(str, self._types(keys)))})"

    def _types(self, keys: tuple[Key, ...]) -> tuple[Any, ...]:
        from haulage import numba_bridge

        return tuple(numba_bridge.numba_type(key) for key in keys)

    def __repr__(self) -> str:
        return f"<{self.vocabulary.name} kernel {self.__qualname__}>"
