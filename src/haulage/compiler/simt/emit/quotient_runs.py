"""Work-item loops in runs of threads for which quotients are the same.

Kernels make rows and columns of one index: `i = tid // m; j = tid % m`, or with more axes `tid //
(h * w)`, `tid // w % h`, `tid % w`. From thread to thread the quotient stays what it is and the
remainder grows by 1, until a row is full. So the loop over threads becomes one over runs, each to
the end of a row, around one over the threads of a run: there the row is uniform and its elements
are neighbours. The shape of an array is so found again in its linear index (delinearization;
Grosser et al., "Optimistic Delinearization of Parametrically Sized Arrays", ICS 2015).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from haulage.compiler.mathematics.definitions import is_division
from haulage.compiler.simt.analysis.affine import THREAD, AffineForms, AvailableForms
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.emit.loop_nest import BoundsWriter
from haulage.compiler.simt.ir.builder import Builder, Typed
from haulage.compiler.simt.ir.model import (
    Block,
    Function,
    Instruction,
    Operand,
    Parameter,
    value_name,
)
from haulage.compiler.simt.regions.parallel_regions import Region, Regions

# Threads of the shortest rows for which runs are worth it.
SHORTEST = 32
SUFFIX = ".of.run"
_START = "%run.start"


@dataclass(frozen=True)
class Division:
    """A quotient that is the same for all threads of a run, or a remainder that grows by 1."""

    result: str
    dividend: Operand
    divisor: Operand
    is_remainder: bool


def divisions(regions: Regions, region: Region, axis: int) -> tuple[Division, ...]:
    """The divisions of a region whose dividend grows by 1 along an axis, by what all threads have
    in common and is known where the region begins."""
    function, items = regions.function, regions.analyses.items
    made = regions.made_in(region)
    depending = function.made_from([THREAD[axis].value])
    of_threads = function.made_from([each.value for each in THREAD])
    ranges = regions.analyses.get(ValueRanges)
    forms = AffineForms(items, ranges=ranges)
    available = {each.name for each in function.parameters}
    available |= {name for name in region.loaded if not regions.slots[name].varying} - made
    growing, found = {THREAD[axis].value}, list[Division]()

    def grows(dividend: Operand) -> bool:
        form = forms.of(dividend)
        steps = [
            factor if len(monomial) == 1 else 0
            for monomial, factor in form.monomials.items()
            if any(each.value in growing for each in monomial)
        ]
        others = {each.value for each in form.symbols} - growing
        return form.exact and steps == [1] and not (others - available) & depending

    for label in region.labels:
        for item in function.blocks[label].body:
            opcode = _opcode(item)
            if opcode not in ("udiv", "urem") or item.type not in ("i32", "i64"):
                continue
            dividend, divisor = item.operands
            if divisor.number is not None and divisor.number < SHORTEST:
                continue
            known = AvailableForms(items, frozenset(), available, ranges)
            if (
                ranges.is_nonnegative(dividend.text)
                and grows(dividend)
                and divisor.text not in of_threads
                and known.can_evaluate(dividend.text)
                and known.can_evaluate(divisor.text)
            ):
                assert item.result is not None
                found.append(Division(item.result, dividend, divisor, opcode == "urem"))
                available.add(item.result)
                if opcode == "urem":
                    growing.add(item.result)
    return tuple(found)


def _opcode(item: Instruction) -> str:
    """How an integer is divided, by an instruction or a function for it."""
    if not is_division(item.callee):
        return item.opcode
    return (item.callee or "").split(".")[-2].removeprefix("near_")


def of_run(function: Function, found: Sequence[Division], axis: str) -> Function:
    """The function of a region for a thread of a run, which is given, behind the rest, the index of
    the run's first thread, and what each division comes to for that."""
    results = {each.result: each for each in found}
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        body: list[Instruction] = []
        for item in block.body:
            division = results.get(item.result or "")
            body += [item] if division is None else _in_run(division, axis)
        blocks[label] = replace(block, body=body)
    given = [Parameter(each.dividend.type, value_name(each.result, "run")) for each in found]
    parameters = (*function.parameters, Parameter("i32", _START), *given)
    return replace(function, name=function.name + SUFFIX, blocks=blocks, parameters=parameters)


def _in_run(division: Division, axis: str) -> list[Instruction]:
    """What a division comes to for a thread, made of what it comes to for the first of the run."""
    name, kind = division.result, division.dividend.type
    given, distance, wide = (value_name(name, each) for each in ("run", "distance", "wide"))
    if not division.is_remainder:
        return [Builder.binary("add", kind, given, "0", name=name)]
    made = [Builder.binary("sub", "i32", f"%threadIdx.{axis}", _START, "nuw", "nsw", name=distance)]
    if kind != "i32":
        made.append(Builder.cast("zext", "i32", distance, kind, wide))
        distance = wide
    return [*made, Builder.binary("add", kind, given, distance, "nuw", "nsw", name=name)]


def are_long(bounds: BoundsWriter, builder: Builder, found: Sequence[Division]) -> str:
    """An i1: whether runs are long enough."""
    result = "true"
    for name, kind in {(each.divisor.text, each.divisor.type): None for each in found}:
        long = builder.compare("uge", kind, bounds.value(name), str(SHORTEST), "rows.long")
        result = long if result == "true" else builder.binary("and", "i1", result, long)
    return result


def begin(
    bounds: BoundsWriter, builder: Builder, found: Sequence[Division], start: str, end: str
) -> tuple[str, list[Typed]]:
    """Where a run ends that begins at the index `start`, at the latest at `end`, and what the
    function of its threads is given."""
    stop, given = end, [("i32", start)]
    known: dict[tuple[str, str], str] = {}
    for each in found:
        kind = each.dividend.type
        dividend, divisor = bounds.value(each.dividend.text), bounds.value(each.divisor.text)
        if (dividend, divisor) not in known:
            known[dividend, divisor] = rest = builder.binary("urem", kind, dividend, divisor)
            left = builder.binary("sub", kind, divisor, rest, "nuw")
            room = builder.binary("sub", "i32", stop, start, "nuw", "nsw")
            if kind == "i64":
                room = builder.cast("zext", "i32", room, kind)
            left = builder.extremum("umin", kind, left, room)
            if kind == "i64":
                left = builder.cast("trunc", kind, left, "i32")
            stop = builder.binary("add", "i32", start, left, "nuw", "nsw")
        value = known[dividend, divisor]
        if not each.is_remainder:
            value = builder.binary("udiv", kind, dividend, divisor)
        bounds.set_value(each.result, value)
        given.append((kind, value))
    return stop, given
