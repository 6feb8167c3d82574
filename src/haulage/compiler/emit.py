"""The stages from a Python function to code, by name; each stage's text is kept.

For the CPU: `lowered` (Numba's LLVM IR), `clean` (one body function, optimised), `blocks` (the
block function for one block size) and `llvm` (widened); then assembly and object code.
"""

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any

from haulage.compiler import llvm
from haulage.compiler.clean import clean
from haulage.compiler.code import Code
from haulage.compiler.frontend import Lowered, Options, lower
from haulage.compiler.mathematics import far
from haulage.compiler.mathematics.definitions import with_definitions
from haulage.compiler.simt import entry
from haulage.compiler.simt.body import NotInlined
from haulage.compiler.simt.transform import SCALAR, CannotCut, Transformed, transform
from haulage.errors import CompileError
from haulage.targets.base import Target


class Body:
    """A kernel typed and lowered for one signature; gives code for each block size.

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
        self._made: dict[tuple[tuple[int, int, int], str], Code] = {}
        self._lock = threading.Lock()

    # Whether it was on disk, as `cache.kept.KeptBody` has it: nobody looked.
    found: bool | None = None

    def check(self) -> None:
        """Nothing: this is typed and lowered, so that it can be compiled is known."""

    @cached_property
    def cleaned(self) -> str:
        return clean(self.lowered.llvm, self.lowered.entry, self.target)

    def code(self, block: tuple[int, int, int], way: str) -> Code:
        """Code for blocks of `block` threads, run in one of `transform.WAYS`.

        Raises:
            CompileError: `way` is "cut" and a barrier stands where not all threads may come, or
                a function that calls itself has a barrier or a shared array.
        """
        with self._lock:
            made = self._made.get((block, way))
            if made is None:
                made = self._made[block, way] = self._make(block, way)
            return made

    def _make(self, block: tuple[int, int, int], way: str) -> Code:
        with llvm.LOCK:
            try:
                blocks = transform(self.cleaned, self.target, block, way, self.lowered.cooperative)
            except CannotCut as error:
                raise CompileError(self._cannot_cut(error)) from error
            except NotInlined as error:
                raise CompileError(
                    f"kernel {self.name}: a function that calls itself can have no barrier and no "
                    "shared array; give it the array as an argument, or write a loop"
                ) from error
            module = _optimised(blocks, self.target, widen=way != SCALAR)
            text = str(module)
            constant_bytes = llvm.constant_bytes(module, self.target)
            code = llvm.object_code(module, self.target)
        offsets, nbytes = entry.argument_offsets(self.lowered.arguments)
        stages = {
            "lowered": self.lowered.llvm,
            "clean": self.cleaned,
            "blocks": blocks.llvm,
            "llvm": text,
        }
        # Loaded code stays as long as the process: it must not keep this, and so the function.
        target = self.target
        return Code(
            code=code,
            texts=lambda: (target, stages),
            metadata={
                "name": self.name,
                "target": self.target.architecture,
                "signature": self.lowered.signature,
                "entry": entry.ENTRY,
                "block": block,
                "way": blocks.way,
                "pieces": blocks.pieces,
                "shared_bytes": blocks.shared_bytes,
                "local_bytes": blocks.local_bytes,
                "block_bytes": blocks.block_bytes,
                "constant_bytes": constant_bytes,
                "cooperative": self.lowered.cooperative,
                "uses_dynamic_shared": self.lowered.dynamic_shared and blocks.uses_dynamic_shared,
                "argument_offsets": tuple(offsets),
                "argument_bytes": nbytes,
                "debug": self._options.debug,
            },
            faults=self.lowered.faults,
            prints=self.lowered.prints,
            captured=self.lowered.captured,
        )

    def _cannot_cut(self, error: CannotCut) -> str:
        places = sorted({self.lowered.faults[place].line for place in error.places})
        lines = ", ".join(str(line) for line in places)
        return (
            f"kernel {self.name} cannot be cut at its barriers: perhaps not all threads of a block "
            f"reach those in line {lines}; leave the choice of the way to Haulage"
        )


def _optimised(blocks: Transformed, target: Target, *, widen: bool) -> Any:
    """The module of blocks, with the mathematics that it calls, at LLVM's level 3."""
    module = llvm.parse(with_definitions(blocks.llvm, target))
    # Threads side by side would become a vector that is gathered from their rows.
    llvm.optimise(module, target, 3, widen=widen, superwords=not blocks.jammed)
    settled = far.settled(str(module))
    if settled is not None:
        module = llvm.parse(settled)
        llvm.run_passes(
            module, target, "always_inliner", "simplify_cfg", "global_dead_code_eliminate"
        )
    return module
