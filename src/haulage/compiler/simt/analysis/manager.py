"""Runs analyses of a function when they are asked for, and keeps what they find until it changes.

After LLVM's `FunctionAnalysisManager`: an analysis is a function, or a class, whose first argument
is the `Analyses` of the function that it is about:

    def early_exits(analyses: Analyses) -> dict[str, EarlyExit]: ...

    analyses = Analyses(function)
    analyses.get(early_exits)      # works it out
    analyses.get(early_exits)      # the same object again
    function.blocks[label].body = changed
    analyses.invalidate()
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Concatenate, ParamSpec, TypeVar

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.forks import cached_property

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

# What holds as long as the control-flow graph is the same.
_OF_THE_GRAPH = frozenset(("predecessors", "order", "dominators", "postdominators", "loops"))


class Analyses:
    """What is known of one function. Results are shared: nobody may change them."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.successors = function.successors()
        self._results: dict[Hashable, object] = {}
        self._instructions = self._listed()

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

    def invalidate(self) -> None:
        """Forget what no longer holds, if blocks or instructions are others than before."""
        now, kept = Analyses(self.function), self.__dict__
        if now.successors != self.successors:
            kept = {}
        elif now._instructions != self._instructions:
            kept = {name: kept[name] for name in _OF_THE_GRAPH & kept.keys()}
        self.__dict__ = now.__dict__ | kept

    def _listed(self) -> dict[str, list[Instruction]]:
        return {label: block.instructions() for label, block in self.function.blocks.items()}

    # ---- of the instructions ----------------------------------------------------------------

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

    # ---- of the graph -----------------------------------------------------------------------

    @cached_property
    def predecessors(self) -> Mapping[str, list[str]]:
        """For each label those that control can come from, each once."""
        return control_flow.invert(self.successors)

    @cached_property
    def order(self) -> list[str]:
        """The labels in reverse postorder."""
        return control_flow.reverse_postorder(self.successors, self.function.entry)

    @cached_property
    def dominators(self) -> Mapping[str, str]:
        """The immediate dominator of each label that can be reached; the entry is its own."""
        return control_flow.immediate_dominators(self.successors, self.function.entry)

    @cached_property
    def postdominators(self) -> Mapping[str, str]:
        """The immediate post-dominator of each label, `control_flow.EXIT` of the last ones; labels
        from which no end can be reached are missing."""
        return control_flow.immediate_postdominators(self.successors)

    @cached_property
    def loops(self) -> list[Loop]:
        """The natural loops, inner ones first."""
        return control_flow.natural_loops(self.successors, self.function.entry)

    def dominates(self, upper: str, lower: str) -> bool:
        """Whether the block `upper` is on every path to the block `lower`."""
        known = self.dominators
        return lower in known and control_flow.dominates(known, upper, lower)

    def innermost_loop(self, label: str) -> Loop | None:
        """The smallest loop that a block is in."""
        return next((loop for loop in self.loops if label in loop.labels), None)
