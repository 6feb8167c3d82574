"""What a region does in order, with its loops unrolled as LLVM may unroll them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from haulage.compiler.simt.analysis import control_flow, induction
from haulage.compiler.simt.ir.model import Function, Instruction, RegionEnd, value_name

_INTEGER = re.compile(r"-?\d+$")

# Copies of instructions beyond which a loop is taken for one that is not unrolled.
_MOST = 2000


@dataclass(frozen=True)
class Step:
    """An instruction of a copy of a loop's body, the one that it is a copy of, and whether it is
    in a loop that is not unrolled here."""

    item: Instruction
    original: Instruction
    repeated: bool


@dataclass
class Listing:
    """The steps in order; the names that the copies have, with those of what they are copies of;
    and all names made in loops, which may become constants."""

    steps: list[Step] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)
    looped: set[str] = field(default_factory=set)


def unrolled(function: Function, labels: Sequence[str]) -> Listing:
    """What a region does; `labels` are its blocks, each in front of those that it goes to, but for
    the ways back in loops."""
    inside = set(labels)
    successors = {
        label: ()
        if isinstance(function.blocks[label].terminator, RegionEnd)
        else tuple(each for each in function.blocks[label].successors if each in inside)
        for label in labels
    }
    # Outer loops come first: the last ones found.
    loops = control_flow.natural_loops(successors, labels[0])[::-1]
    unroller = _Unroller(function)
    unroller.list_blocks(labels, loops, {}, repeated=False)
    return unroller.listing


class _Unroller:
    def __init__(self, function: Function) -> None:
        self._function = function
        self.listing = Listing()

    def list_blocks(
        self,
        labels: Sequence[str],
        loops: Sequence[control_flow.Loop],
        names: Mapping[str, str],
        *,
        repeated: bool,
    ) -> None:
        """List the instructions of blocks, with `names` for the values of what is around them."""
        listed: set[str] = set()
        for label in labels:
            if label in listed:
                continue
            loop = next((each for each in loops if label in each.labels), None)
            if loop is None:
                self._list_block(label, names, repeated=repeated)
                continue
            within = [each for each in labels if each in loop.labels]
            listed |= loop.labels
            self._list_loop(loop, within, [each for each in loops if each != loop], names, repeated)

    def _list_block(self, label: str, names: Mapping[str, str], *, repeated: bool) -> None:
        block = self._function.blocks[label]
        for item in (*block.phis, *block.body):
            copy = item.renamed(names)
            origin = self.listing.origins.get(copy.result or "", copy.result)
            if origin == item.result:
                # A phi that is another value in this turn is none.
                self.listing.steps.append(Step(copy, item, repeated))

    def _list_loop(
        self,
        loop: control_flow.Loop,
        labels: Sequence[str],
        inner: Sequence[control_flow.Loop],
        around: Mapping[str, str],
        repeated: bool,
    ) -> None:
        made = [
            item.result
            for label in labels
            for item in self._function.blocks[label].instructions()
            if item.result is not None
        ]
        self.listing.looped |= {around.get(name, name) for name in made}
        count = induction.constant_turns(self._function, loop)
        if count is None or (count + 1) * len(made) + len(self.listing.steps) > _MOST:
            self.list_blocks(labels, inner, around, repeated=True)
            return
        before: dict[str, str] = {}
        for turn in range(count + 1):
            names = dict(around)
            for name in made:
                names[name] = value_name(around.get(name, name), f"turn.{turn}")
                self.listing.origins[names[name]] = name
            self.listing.looped |= {names[name] for name in made}
            for phi in self._function.blocks[loop.header].phis:
                value = self._arriving(phi, loop, first=not turn)
                if value is None or phi.result is None:
                    continue
                arriving = (around if not turn else before).get(value, value)
                if arriving.startswith("%") or _INTEGER.match(arriving):
                    names[phi.result] = arriving
            self.list_blocks(labels, inner, names, repeated=repeated)
            before = names

    def _arriving(self, phi: Instruction, loop: control_flow.Loop, *, first: bool) -> str | None:
        """What a phi of the header is in the first turn or in later ones, if it is one value."""
        if first:
            return induction.start_of(phi, loop)
        values = {value for value, label in phi.incoming if label in loop.labels}
        return values.pop() if len(values) == 1 else None
