"""A kernel typed and lowered for one signature: what the ways to code for all targets share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from haulage import forks
from haulage.compiler.access.analysis import accesses
from haulage.compiler.access.model import Accesses
from haulage.compiler.code import Code
from haulage.compiler.frontend import Lowered, Options, lower
from haulage.compiler.versions import GENERAL
from haulage.forks import cached_property
from haulage.targets.base import Target


class Body(ABC):
    """A kernel typed and lowered for one signature; gives code.

    Thread safe: each code is made once.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        argument_types: tuple[Any, ...],
        target: Target,
        options: Options,
        *,
        anew: bool = False,
    ) -> None:
        self.name: str = function.__qualname__
        self.target = target
        self._options = options
        self.lowered: Lowered = lower(function, argument_types, target, options, anew=anew)
        self._codes: dict[tuple[tuple[int, int, int], str, str], Code] = {}
        self._lock = forks.lock()

    # Whether its code is made for one size of the block, and in versions for what launches find.
    is_per_block = has_versions = False

    # Whether it was on disk, as `cache.kept.KeptBody` has it: nobody looked.
    found: bool | None = None

    def check(self) -> None:
        """Nothing: this is typed and lowered, so that it can be compiled is known."""

    def code(self, block: tuple[int, int, int], way: str, version: str = GENERAL) -> Code:
        """Code for blocks of `block` threads, run by one of `pipeline.STRATEGIES`; of a version,
        see `compiler.versions`, of which GPUs have none but the general one.

        Raises:
            CompileError: `way` is "regions" and a barrier stands where not all threads may come, or
                a function that calls itself has a barrier or a shared array.
        """
        with self._lock:
            made = self._codes.get((block, way, version))
            if made is None:
                made = self._codes[block, way, version] = self._make(block, way, version)
            return made

    def check_code(self, code: Code) -> None:
        """See that the kernel takes no more than the target has, as a launch would.

        Raises:
            CompileError: it takes more.
        """

    @cached_property
    def access(self) -> Accesses:
        """What it does with its arguments.

        Raises:
            CompileError: as `code`, for what is wrong for blocks of all sizes.
        """
        return accesses(self.lowered, *self._inlined())

    @abstractmethod
    def _inlined(self) -> tuple[str, str]:
        """A module with its function, optimised, with all that it calls inlined; that one's name
        there. Its last parameters are the arguments."""

    @abstractmethod
    def _make(self, block: tuple[int, int, int], way: str, version: str) -> Code:
        """The code, made now."""
