"""What device functions and kernels share: other kernels call them, and they can be pickled."""

from collections.abc import Callable
from typing import Any

from haulage.compiler.options import Options
from haulage.kernel.pickling import PickledFunction
from haulage.kernel.vocabulary import Vocabulary
from haulage.platforms import current_target
from haulage.tracebacks import brief_errors


class AsFunction(PickledFunction):
    """A Python function that is compiled with the kernels that call it."""

    haulage_function = True

    def __init__(
        self,
        py_func: Callable[..., Any],
        vocabulary: Vocabulary,
        options: Options,
        hints: dict[str, Any],
    ) -> None:
        self.py_func = py_func
        self.vocabulary = vocabulary
        self.haulage_options = options
        self.hints = hints
        self.__name__ = py_func.__name__
        self.__qualname__ = py_func.__qualname__
        self.__doc__ = py_func.__doc__
        self.__module__ = py_func.__module__
        # Where `inspect`, `doctest` and their like find the source and the parameters.
        self.__wrapped__ = py_func

    @brief_errors
    def compile_device(self, args: Any, return_type: Any = None) -> Any:
        """Type and lower it now, as a function that kernels call on the current device.

        Args:
            args: the arguments' types, a tuple of Numba types, dtypes or their names.
            return_type: the Numba type that the result is converted to; None is what it is.

        Returns:
            Numba's compile result.

        Raises:
            TypeError: something names no type.
            CompileError: it cannot be compiled for them.
        """
        from haulage.compiler.frontend import compile_function, parse_function_signature

        if not isinstance(args, (tuple, list)):
            raise TypeError(f"compile_device({args!r}): expected a tuple of types of arguments")
        kinds, _ = parse_function_signature(tuple(args))
        return compile_function(self, kinds, return_type, self._target())

    @property
    def targetoptions(self) -> dict[str, Any]:
        """What it was made with, by the names of `jit`'s options, but for `inline`."""
        options = self.haulage_options
        # Numba's passes would read `inline` here, and have another meaning for it.
        hints = {name: value for name, value in self.hints.items() if name != "inline"}
        return {"debug": options.debug, "fastmath": options.fastmath, **hints}

    @property
    def typingctx(self) -> Any:
        """What Numba's front end types it with on the current device."""
        return self._descriptor().typing_context

    @property
    def targetctx(self) -> Any:
        """What Numba's front end lowers it with on the current device."""
        return self._descriptor().target_context

    def _descriptor(self) -> Any:
        from haulage.compiler.frontend import descriptor

        return descriptor(self._target())

    def _target(self) -> Any:
        return current_target(self.vocabulary.warp_size)
