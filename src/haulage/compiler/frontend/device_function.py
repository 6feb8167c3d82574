"""Functions that kernels call: compiled for the kernel's target, once for each tuple of types."""

import contextlib
import types as python_types
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from numba.core import compiler, sigutils, types, typing
from numba.core.dispatcher import Dispatcher
from numba.core.target_extension import target_override
from numba.core.targetconfig import ConfigStack

from haulage.compiler.frontend.binding import bind_types
from haulage.compiler.frontend.flags import numba_flags
from haulage.compiler.frontend.pipeline import SIMTPipeline
from haulage.compiler.options import Options

_DEFAULT = Options()


class DeviceFunction(Dispatcher):
    """Numba's view of a device function; each target has a subclass (`target.device_class`)."""

    numba_name: str
    known: "WeakKeyDictionary[Any, DeviceFunction]"
    outlive: "list[WeakKeyDictionary[Any, DeviceFunction]]"

    # Numba itself makes device functions of overloads, and knows no options.
    def __init__(
        self, py_func: Any, options: Options = _DEFAULT, declared: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(py_func, targetoptions={}, pipeline_class=SIMTPipeline)
        self._options = options
        self._declared = declared
        # By the arguments' types, and what is inherited.
        self._results: dict[tuple[Any, tuple[bool, bool, bool]], Any] = {}

    def fold_argument_types(self, args: Any, kws: Any) -> Any:
        """The function's signature, and a type for each of its parameters."""
        signature = self._compiler.pysig
        return signature, bind_types(self.py_func.__qualname__, signature, args, kws)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        pysig, args = self.fold_argument_types(args, kws)
        # Numba chooses among declared signatures, and converts the arguments. A function that calls
        # itself for other types has, as with Numba, none of its declared results yet.
        if self._declared and not self.is_compiling:
            results = [self.compile(declared) for declared in self._declared]
            args = tuple(map(self._kind_given, args))
        else:
            results = [self.compile_for(args)]
        template = typing.make_concrete_template(
            f"CallTemplate({self.py_func.__name__})",
            key=self.py_func,
            signatures=[result.signature for result in results],
        )
        # Folding has put the keyword arguments in their places.
        return template, pysig, args, {}

    def _kind_given(self, kind: Any) -> Any:
        """The type of an argument that a declared signature converts, also of a default."""
        if not isinstance(kind, types.Omitted):
            return kind
        return types.unliteral(self.targetdescr.typing_context.resolve_value_type(kind.value))

    def compile_for(self, args: Any, return_type: Any = None) -> Any:
        """Numba's compile result for a tuple of argument types.

        Where the function that is being compiled has its indices checked, so has this, and on the
        CPU likewise its lines told and the ways of threads counted.
        """
        key = (args, self._inherited())
        result = self._results.get(key)
        if result is None:
            context = self.targetdescr.target_context
            # The counter is how Numba's type inference notices a function that calls itself.
            with target_override(self.numba_name), self._compiling_counter:
                result = compiler.compile_extra(
                    self.targetdescr.typing_context,
                    context,
                    self.py_func,
                    args,
                    return_type,
                    self._flags(),
                    {},
                    pipeline_class=SIMTPipeline,
                )
            result.library.finalize()
            self._results[key] = result
            self.overloads[tuple(args)] = result
            context.insert_user_function(result.entry_point, result.fndesc, [result.library])
        return result

    def _flags(self) -> Any:
        flags = numba_flags(self._options, self.targetdescr.target)
        checks_indices, watched, counts = self._inherited()
        flags.boundscheck = flags.boundscheck or checks_indices
        if watched:
            flags.watched = flags.debuginfo = flags.dbg_directives_only = True
        flags.counts = flags.counts or counts
        return flags

    def _inherited(self) -> tuple[bool, bool, bool]:
        """Whether the function that Numba is compiling has its indices checked, its accesses
        checked and the ways of threads counted."""
        flags = ConfigStack.top_or_none()
        if flags is None:
            return False, False, False
        watched, counts = getattr(flags, "watched", False), getattr(flags, "counts", False)
        return bool(flags.boundscheck), watched, counts

    def get_overload(self, sig: Any) -> Any:
        args, _ = sigutils.normalize_signature(sig)
        result = self._results.get((tuple(args), self._inherited()))
        return super().get_overload(sig) if result is None else result.entry_point

    def compile(self, sig: Any) -> Any:
        args, return_type = sigutils.normalize_signature(sig)
        return self.compile_for(args, return_type)


@contextlib.contextmanager
def afresh(function_class: Any) -> Iterator[None]:
    """Compile functions anew in here, with the values that their globals have now."""
    before = function_class.known
    function_class.known = WeakKeyDictionary()
    # Numba's types refer to functions weakly, and contexts keep the types.
    function_class.outlive.append(function_class.known)
    try:
        yield
    finally:
        function_class.known = before


def as_device_function(function_class: Any, value: Any) -> Any:
    """`value` as a device function of one target, or None if it is no function of ours.

    Ours are the objects that `@jit` made (they carry `haulage_function`) and functions compiled by
    Numba for other targets, which are compiled anew from their Python source.
    """
    if isinstance(value, DeviceFunction):
        return None
    if hasattr(value, "haulage_function") or isinstance(value, Dispatcher):
        return _known(function_class, value)
    return None


def plain_device_function(function_class: Any, value: Any) -> Any:
    """A plain Python function as a device function of one target, or None for anything else."""
    return _known(function_class, value) if isinstance(value, python_types.FunctionType) else None


def _known(function_class: Any, value: Any) -> Any:
    function = function_class.known.get(value)
    if function is None:
        py_func = getattr(value, "py_func", value)
        options = getattr(value, "haulage_options", _DEFAULT)
        declared = getattr(value, "haulage_signatures", ())
        function = function_class.known[value] = function_class(py_func, options, declared)
    return function
