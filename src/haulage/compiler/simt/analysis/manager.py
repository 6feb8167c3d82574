"""Runs analyses of a function when they are asked for, and keeps what they find until it changes.

After LLVM's `FunctionAnalysisManager`: an analysis is a function, or a class, whose first argument
is the `Analyses` of the function that it is about:

    def early_exits(analyses: Analyses) -> dict[str, EarlyExit]: ...

    analyses = Analyses(function)
    analyses.get(early_exits)      # works it out
    analyses.get(early_exits)      # the same object again
    function.blocks[label].body = changed
    analyses.invalidate(Kept.GRAPH)
"""

from collections.abc import Callable, Hashable, Mapping
from enum import Enum
from typing import Concatenate, ParamSpec, TypeVar

from haulage.compiler.simt.analysis.control_flow import Graph
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.forks import cached_property

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Kept(Enum):
    """What still holds when a function has changed (LLVM's `PreservedAnalyses`)."""

    ALL = "all analyses"
    GRAPH = "those of the control-flow graph"
    NONE = "none"


class Analyses(Graph):
    """What is known of one function, of its graph among others. Results are shared: nobody may
    change them."""

    def __init__(self, function: Function) -> None:
        super().__init__(function.successors(), function.entry)
        self.function = function
        self._results: dict[Hashable, object] = {}

    def get(
        self,
        analysis: Callable[Concatenate["Analyses", _Arguments], _Result],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> _Result:
        """The result of an analysis; what it takes besides the function has to be hashable."""
        key = (analysis, args, tuple(kwargs.items()))
        if key not in self._results:
            self._results[key] = analysis(self, *args, **kwargs)
        return self._results[key]  # type: ignore[return-value]

    def invalidate(self, kept: Kept) -> None:
        """Forget what no longer holds of a function that was changed in place."""
        if kept is not Kept.ALL:
            names = vars(Graph) if kept is Kept.GRAPH else ()
            known = {name: self.__dict__[name] for name in names if name in self.__dict__}
            self.__dict__ = Analyses(self.function).__dict__ | known

    @cached_property
    def items(self) -> Mapping[str, Instruction]:
        """For each result its instruction."""
        return self.function.items()

    @cached_property
    def definitions(self) -> Mapping[str, tuple[str, Instruction]]:
        """For each result the label of its block, and its instruction."""
        return self.function.definitions()

    @cached_property
    def users(self) -> Mapping[str, list[Instruction]]:
        """For each local value the instructions that use it."""
        return self.function.users()
