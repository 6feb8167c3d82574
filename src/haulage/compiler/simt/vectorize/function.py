"""Whole-function vectorisation of one region: its analysis for a vectorization factor, its
function, and the loop over strips of a block's threads that calls it (strip-mining).

`{ i32, i32 } @haulage.region.K(...)` has the parameters of the function for one thread
(`region_function.py`), which are here those of the first lane; the other lanes are the threads that
follow it in the block.
"""

from collections.abc import Callable, Container, Mapping
from math import prod

from haulage.compiler.ends import code_of
from haulage.compiler.mathematics.definitions import is_mathematics
from haulage.compiler.simt.analysis import AXES
from haulage.compiler.simt.emit.block_function import private_stride
from haulage.compiler.simt.emit.loop_nest import Index, Ranges
from haulage.compiler.simt.emit.region_function import DONE, RESULT, RegionFunctions
from haulage.compiler.simt.ir.builder import Builder, Typed
from haulage.compiler.simt.ir.model import Block, Function, Instruction, RegionEnd, value_name
from haulage.compiler.simt.regions.parallel_regions import Region, Slot
from haulage.compiler.simt.regions.ssa_updater import SSAUpdater
from haulage.compiler.simt.vectorize.builder import (
    BYTES,
    EVERY_LANE,
    ZERO,
    VectorBuilder,
    has_vector_form,
)
from haulage.compiler.simt.vectorize.linearization import Linearization
from haulage.compiler.simt.vectorize.shapes import LinearOrder, Shape, Shapes
from haulage.compiler.simt.vectorize.widening import Values
from haulage.forks import cached_property

_INDICES = tuple(f"%threadIdx.{axis}" for axis in AXES)

# The label of what comes before the region's own blocks; no block can have it.
_START = "%"
# The lanes of the threads that pass the kernel's guards.
_FIRST, _END = "%lanes.from", "%lanes.to"


class VectorizedRegion:
    """A region for `width` threads at once of a block of size (x, y, z), whose threads are numbered
    along `axes`, the last of them fastest.

    Raises:
        Irreducible: the region's control flow cannot be linearised.
    """

    def __init__(
        self,
        functions: RegionFunctions,
        region: Region,
        block: tuple[int, int, int],
        axes: tuple[str, ...],
        width: int,
    ) -> None:
        self.functions = functions
        self.body = functions.body
        self.regions = functions.regions
        self.region = region
        self.width = width
        # The axes and their sizes, the fastest first.
        self.sizes = [(axis, block[AXES.index(axis)]) for axis in reversed(axes)]
        self.threads = prod(block)
        self.is_clipped = bool(functions.regions.kernel_guards)
        # What is recomputed comes first.
        steps = [step for step in region.steps if step.result not in region.loaded]
        begun = {*region.loaded, *(step.result for step in steps if step.result)}
        again = begun & functions.made_in[region.number]
        # What values that the region makes too are called when it begins.
        self.begun = {name: value_name(name, "live-in") for name in again}
        self.guards = {
            guard.condition: value_name(guard.condition, "guard")
            for guard in functions.guards(region)
            if guard.condition not in again
        }
        blocks = self.regions.function.blocks
        self.blocks = {
            label: _renamed(blocks[label], self.guards, region.labels) for label in region.labels
        }
        steps = [step.renamed(self.begun) for step in steps]
        self.blocks[_START] = Block(_START, [], steps, Builder.jump(region.entry))
        items = functions.items
        values = SSAUpdater(
            self.blocks, _START, {name: (items[name].type, new) for name, new in self.begun.items()}
        )
        # For each block that ends the region the slots that are stored there, and of what.
        self.stored = {
            label: [(slot, values.at_end(slot.value, label)) for slot in self._stored_at(end)]
            for label, block in self.blocks.items()
            if isinstance(end := block.terminator, RegionEnd)
        }
        self.order = LinearOrder(self.blocks, _START)
        self.shapes = self._find_shapes()

    @property
    def is_along_rows(self) -> bool:
        """Whether all lanes are neighbours along the fastest axis."""
        return self.shapes.of(f"%threadIdx.{self.sizes[0][0]}") == 1

    def function(self) -> Function:
        """The region's function on vectors."""
        return _Writer(self).function()

    @cached_property
    def types(self) -> dict[str, str]:
        """The types of all values in one lane."""
        types = {name: item.type for name, item in self.functions.items.items()}
        types |= {name: item.type for name, (_, item) in self.shapes.definitions.items()}
        types |= {new: types[name] for name, new in self.begun.items()}
        types |= {each.name: each.type.split(" ", 1)[0] for each in self.body.function.parameters}
        types |= dict.fromkeys(self.guards.values(), "i1")
        types |= {array.name: "ptr" for array in (*self.body.shared, *self.body.private)}
        return types

    def _stored_at(self, end: RegionEnd) -> list[Slot]:
        """The slots of the context that are stored at an end of the region."""
        live = self.regions.live[end.target]
        return [slot for slot in self.functions.stored(self.region) if slot.value in live]

    def _find_shapes(self) -> Shapes:
        body = self.body
        uniform = [parameter.name for parameter in body.function.parameters]
        uniform += [array.name for array in body.shared]
        known: dict[str, Shape] = dict.fromkeys((*uniform, *self.guards.values(), *_INDICES), 0)
        known |= {array.name: private_stride(array) for array in body.private}
        (fastest, size), *others = self.sizes
        if size % self.width == 0 or not others:
            known[f"%threadIdx.{fastest}"] = 1
        else:
            known |= {f"%threadIdx.{axis}": None for axis, _ in self.sizes}
        for name in self.region.loaded:
            varies = self.regions.slots[name].varying
            known[self.begun.get(name, name)] = None if varies else 0
        return Shapes(self.blocks, self.order, known, frozenset(_INDICES))

    def uses(self) -> tuple[set[str], set[str]]:
        """(values used in other blocks than they are defined in, those used behind a divergent
        loop)."""
        definitions = self.shapes.definitions
        used: list[tuple[str, str]] = []
        for label, block in self.blocks.items():
            for item in block.instructions():
                used += item.incoming if item.is_phi else [(name, label) for name in item.uses]
            used += [(value, label) for _, value in self.stored.get(label, ())]
        used = [each for each in used if each[1] in self.blocks and each[0] in definitions]
        crossing = {name for name, label in used if definitions[name][0] != label}
        return crossing, {name for name, label in used if self.shapes.outlives_loop(name, label)}


class _Writer:
    """Writes the function of a vectorised region."""

    def __init__(self, of: VectorizedRegion) -> None:
        self._of = of
        self._body, self._regions, self._region = of.body, of.regions, of.region
        self._shapes = of.shapes
        parameters: list[Typed] = of.functions.parameters(of.region)
        if of.is_clipped:
            parameters += [("i32", _FIRST), ("i32", _END)]
        name = f"haulage.region.{of.region.number}"
        self._builder = VectorBuilder(name, parameters, RESULT, of.width)
        self._numbers = self._builder.vector_type("i32")
        self._values = Values(self._builder, of.shapes, of.types, *of.uses())
        self._next = self._builder.slot("i32")
        self._fault = self._builder.slot("i32")
        # The states of the lanes' threads, if threads may have left for good.
        self._states = self._builder.slot(self._numbers)

    def function(self) -> Function:
        builder, masked = self._builder, self._regions.masked
        present = self._present()
        mask = present
        if masked:
            address, now, mask = self._load_states(present)
        builder.store("i32", str(DONE), self._next)
        builder.store("i32", "0", self._fault)
        if masked:
            builder.store(self._numbers, now, self._states)
            with builder.when(builder.any_lane(mask), "lanes.begin"):
                self._write_region(mask)
            states = builder.load(self._numbers, self._states)
            builder.masked_store("i32", states, address, present)
        else:
            self._write_region(mask)
        following = builder.load("i32", self._next)
        fault = builder.load("i32", self._fault)
        pair = builder.insert(RESULT, "poison", ("i32", following), 0)
        builder.ret(RESULT, builder.insert(RESULT, pair, ("i32", fault), 1))
        return builder.function

    def _write_region(self, mask: str) -> None:
        of = self._of
        self._begin(mask)
        blocks = Linearization(
            self._builder, self._values, of.shapes, of.order, of.blocks, self._end
        )
        blocks.write(mask)

    def _present(self) -> str:
        """The lanes that are threads of the block, and pass the kernel's guards."""
        builder, threads = self._builder, self._of.threads
        if self._of.is_clipped:
            return builder.lanes_between(_FIRST, _END)
        if threads % builder.width == 0:
            return EVERY_LANE
        numbers = builder.linear("i64", "%thread", 1)
        return builder.compare(
            "ult", builder.vector_type("i64"), numbers, builder.broadcast("i64", str(threads))
        )

    def _load_states(self, present: str) -> tuple[str, str, str]:
        """(address of the threads' states, their states, the lanes that are at this region)."""
        builder, number = self._builder, self._region.number
        address = builder.at("i32", "%states", "%thread")
        if not number:
            return address, builder.broadcast("i32", str(DONE)), present
        now = builder.masked_load("i32", address, present)
        here = builder.compare("eq", self._numbers, now, builder.broadcast("i32", str(number)))
        return address, now, builder.logical_and(present, here)

    # ---- the region's start -----------------------------------------------------------------

    def _begin(self, mask: str) -> None:
        """Find or load what is live when the region begins."""
        of, builder, live_in = self._of, self._builder, self._values.live_in
        given = [parameter.name for parameter in self._body.function.parameters]
        given += [array.name for array in (*self._body.shared, *self._body.private)]
        live_in |= {name: name for name in (*given, *of.guards.values())}
        self._begin_indices()
        for name in self._region.loaded:
            slot = self._regions.slots[name]
            value = value_name(name, "live-in")
            if slot.varying:
                value = builder.masked_load(slot.type, self._element(slot, "context"), mask)
            live_in[of.begun.get(name, name)] = value

    def _begin_indices(self) -> None:
        """Compute the lanes' indices where they are no more than that of the first one and on."""
        builder = self._builder
        if all(self._shapes.of(name) is not None for name in _INDICES):
            return
        rest = builder.linear("i32", builder.cast("trunc", "i64", "%thread", "i32"), 1)
        for axis, size in self._of.sizes:
            divisor = builder.broadcast("i32", str(size))
            index = builder.binary("urem", self._numbers, rest, divisor)
            self._values.live_in[f"%threadIdx.{axis}"] = index
            rest = builder.binary("udiv", self._numbers, rest, divisor)

    def _element(self, slot: Slot, role: str) -> str:
        """The address of the first lane's element of a context array."""
        return self._builder.at(slot.type, value_name(slot.value, role), "%thread")

    # ---- the region's ends ------------------------------------------------------------------

    def _end(self, block: Block, mask: str) -> None:
        builder, end = self._builder, block.terminator
        number = DONE
        if isinstance(end, RegionEnd):
            number = self._of.functions.numbers[end.target]
            for slot, value in self._of.stored[block.label]:
                self._store_context(slot, value, mask)
        else:
            code = block.returned
            if code is None:
                return
            self._keep_fault(code, mask)
        builder.store("i32", str(number), self._next)
        if self._regions.masked:
            old = builder.load(self._numbers, self._states)
            new = builder.blend(mask, "i32", builder.broadcast("i32", str(number)), old)
            builder.store(self._numbers, new, self._states)

    def _store_context(self, slot: Slot, name: str, mask: str) -> None:
        builder, values, kind = self._builder, self._values, slot.type
        if slot.varying or self._regions.masked:
            address = self._element(slot, "context" if slot.varying else "live-out")
            builder.masked_store(kind, values.vector(kind, name), address, mask)
            return
        if values.shape(name) == 0:
            value = values.scalar(name)
        else:
            value = builder.extract_last(kind, values.vector(kind, name), mask)
        builder.store(kind, value, value_name(slot.value, "live-out"))

    def _keep_fault(self, code: str, mask: str) -> None:
        if not self._body.may_fail:
            return
        builder, vector = self._builder, self._numbers
        codes = self._values.vector("i32", code)
        if self._body.has_ends:
            is_end = builder.compare(
                "uge", vector, codes, builder.broadcast("i32", str(code_of(1)))
            )
            codes = builder.blend(is_end, "i32", ZERO, codes)
        faults = builder.blend(mask, "i32", codes, ZERO)
        callee = f"llvm.vector.reduce.umax.{builder.mangled(vector)}"
        largest = builder.call("i32", callee, [(vector, faults)])
        old = builder.load("i32", self._fault)
        builder.store("i32", builder.extremum("umax", "i32", old, largest), self._fault)


def declarations(function: Function) -> list[str]:
    """Declarations of the functions on vectors that one calls, other than LLVM's own."""
    found = {
        item.callee: f"declare {item.type} @{item.callee}({_types(item)})"
        for item in function.instructions()
        if is_mathematics(item.callee)
    }
    return list(found.values())


def _types(item: Instruction) -> str:
    return ", ".join(operand.type for operand in item.operands)


def can_vectorize(functions: RegionFunctions, region: Region) -> bool:
    """Whether all that a region does can be widened or scalarised."""
    blocks = [functions.regions.function.blocks[label] for label in region.labels]
    types = {functions.regions.slots[name].type for name in region.loaded}
    types |= {slot.type for slot in functions.stored(region)}
    types |= {phi.type for block in blocks for phi in block.phis}
    items = [*region.steps, *(item for block in blocks for item in block.body)]
    ends = [block.terminator for block in blocks if isinstance(block.terminator, Instruction)]
    return (
        types <= BYTES.keys()
        and all(has_vector_form(each) or not each.result or each.type in BYTES for each in items)
        and all(end.opcode in ("br", "ret", "unreachable") for end in ends)
    )


def _renamed(block: Block, names: Mapping[str, str], inside: Container[str]) -> Block:
    """A copy of a block with other names for what its instructions use, other than phis; these have
    what comes from blocks of the region, as others come to some blocks, too."""
    end = block.terminator
    if isinstance(end, Instruction):
        end = end.with_uses(names)
    phis = []
    for phi in block.phis:
        kept = [place for place, source in enumerate(phi.sources) if source in inside]
        operands = tuple(phi.operands[place] for place in kept)
        phis.append(
            phi.changed(operands=operands, sources=tuple(phi.sources[place] for place in kept))
        )
    return Block(block.label, phis, [item.with_uses(names) for item in block.body], end)


def run_strips(
    builder: Builder,
    sizes: tuple[int, int, int],
    axes: tuple[str, ...],
    width: int,
    ranges: Ranges | None,
    run: Callable[[Index, str, tuple[str, ...]], None],
) -> None:
    """Run a region for `width` threads after the other.

    `run` writes it for a strip, by the index of its first thread, the linear index of that, and the
    lanes that are in `ranges`: the first one and the one behind the last. With `ranges`, the first
    index and the one behind the last for each axis, strips without any such lane are passed over.
    """
    with builder.loop("strip", prod(sizes), kind="i32", step=width) as loop:
        rest = loop.index
        indices = dict.fromkeys(AXES, "0")
        for axis in reversed(axes):
            size = str(sizes[AXES.index(axis)])
            indices[axis] = builder.binary("urem", "i32", rest, size)
            rest = builder.binary("udiv", "i32", rest, size)
        linear = builder.cast("zext", "i32", loop.index, "i64", "thread")
        index = (indices["x"], indices["y"], indices["z"])
        if ranges is None:
            run(index, linear, ())
        else:
            first, end, some = _lanes_within(builder, indices, axes, width, ranges)
            with builder.when(some, "strip.some"):
                run(index, linear, (first, end))


def _lanes_within(
    builder: Builder, indices: dict[str, str], axes: tuple[str, ...], width: int, ranges: Ranges
) -> tuple[str, str, str]:
    """(the first lane in the range of the fastest axis, the one behind the last, whether any lane
    of the strip is in all ranges)."""
    *outer, fastest = axes
    index, (first, end) = indices[fastest], ranges[fastest]
    low = builder.call("i32", "llvm.usub.sat.i32", (("i32", first), ("i32", index)))
    high = builder.call("i32", "llvm.usub.sat.i32", (("i32", end), ("i32", index)))
    high = builder.extremum("umin", "i32", high, str(width))
    some = builder.compare("ult", "i32", low, high)
    for axis in outer:
        first, end = ranges[axis]
        above = builder.compare("uge", "i32", indices[axis], first)
        below = builder.compare("ult", "i32", indices[axis], end)
        some = builder.binary("and", "i1", some, builder.binary("and", "i1", above, below))
    return low, high, some
