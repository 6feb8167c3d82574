"""Writes the function of one region for a chunk of lanes.

`{ i32, i32 } @haulage.region.K(...)` has the parameters of the function for one thread
(`region_function.py`), which are here those of the first lane; the other lanes are the threads that
follow it in the block.
"""

from math import prod

from haulage.compiler.ends import code_of
from haulage.compiler.simt.analysis.exit_codes import return_code
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.emit.block_function import parameter_list, private_stride
from haulage.compiler.simt.emit.region_function import DONE, RegionFunctions
from haulage.compiler.simt.ir.model import Block, Instruction, RegionEnd, value_name
from haulage.compiler.simt.regions.parallel_regions import Region, Slot
from haulage.compiler.simt.vectorize.flow import Flow
from haulage.compiler.simt.vectorize.layout import Layout
from haulage.compiler.simt.vectorize.likely import LikelySteps
from haulage.compiler.simt.vectorize.operations import is_scalar
from haulage.compiler.simt.vectorize.shapes import Shape, Shapes
from haulage.compiler.simt.vectorize.text import EVERY_LANE, Text
from haulage.compiler.simt.vectorize.values import Values
from haulage.compiler.simt.vectorize.widening import Widening, can_write
from haulage.compiler.simt.vectorize.work import Work, work_of
from haulage.forks import cached_property

_INDICES = ("%threadIdx.x", "%threadIdx.y", "%threadIdx.z")
# The label of what comes before the region's own blocks; no block can have it.
_START = "%"


class LaneFunction:
    """The function of `region` for chunks of `width` threads of a block of size (x, y, z), whose
    threads are numbered along `axes`, the last of them fastest."""

    def __init__(
        self,
        functions: RegionFunctions,
        region: Region,
        block: tuple[int, int, int],
        axes: tuple[str, ...],
        width: int,
    ) -> None:
        self._functions = functions
        self._body: Body = functions.body
        self._regions = functions.regions
        self._region = region
        self._sizes = [(axis, block["xyz".index(axis)]) for axis in reversed(axes)]
        self._threads = prod(block)
        self._text = Text(width)
        self._guards = {
            guard.condition: value_name(guard.condition, "guard")
            for guard in functions.guards(region)
        }
        self._clips = bool(functions.ranges.of_kernel)
        self._blocks = {
            label: _renamed(self._regions.function.blocks[label], self._guards)
            for label in region.labels
        }
        self._steps, self._arriving = _arrivals(region)
        self._stored = functions.stored(region)
        self._made = functions.made_in[region.number]
        self._layout = Layout(_successors(self._blocks), region.entry)
        self._types = self._all_types()
        self._shapes = self._find_shapes()
        crossing, leaving = self._uses()
        self._values = Values(
            self._text,
            self._shapes,
            self._types,
            crossing,
            leaving,
            {name for name in self._arriving if name in self._made},
        )

        items = {
            item.result: item
            for block in self._blocks.values()
            for item in block.instructions()
            if item.result
        }
        self._likely = LikelySteps(self._shapes, items)
        self._widening = Widening(self._text, self._values, self._likely)

    @property
    def width(self) -> int:
        """How many threads run at once."""
        return self._text.width

    @property
    def follows_rows(self) -> bool:
        """Whether the lanes of a chunk are neighbours along the fastest axis, all of them."""
        return self._shapes.of(f"%threadIdx.{self._sizes[0][0]}") == 1

    @cached_property
    def work(self) -> Work:
        """What the loops of the region do."""
        return work_of(self._blocks, self._layout, self._shapes, self._likely)

    def _all_types(self) -> dict[str, str]:
        types = {name: item.type for name, item in self._regions.function.items().items()}
        types |= {step.result: step.type for step in self._steps if step.result}
        types |= {each.name: each.type.split(" ", 1)[0] for each in self._body.function.parameters}
        types |= dict.fromkeys(self._guards.values(), "i1")
        types |= {room.name: "ptr" for room in (*self._body.shared, *self._body.private)}
        return types

    def _find_shapes(self) -> Shapes:
        known: dict[str, Shape] = {each.name: 0 for each in self._body.function.parameters}
        known |= dict.fromkeys((room.name for room in self._body.shared), 0)
        known |= dict.fromkeys(self._guards.values(), 0)
        for room in self._body.private:
            known[room.name] = private_stride(room)
        known |= self._index_shapes()
        for name in self._region.loaded:
            varies = self._regions.slots[name].varying
            # Where threads have left, some go on with the old value while others make a new one.
            again = name in self._made and self._regions.masked
            known[name] = None if varies or again else 0
        start = Block(_START, [], list(self._steps), None)
        before = Shapes({_START: start}, _only(_START), known, frozenset(_INDICES))
        for step in self._steps:
            assert step.result is not None
            known[step.result] = before.of(step.result)
        for name, arrived in self._arriving.items():
            if arrived in known:
                known[name] = known[arrived]
                if name in self._made and self._regions.masked:
                    known[name] = None
        return Shapes(self._blocks, self._layout, known, frozenset(before.unsigned))

    def _index_shapes(self) -> dict[str, Shape]:
        shapes: dict[str, Shape] = dict.fromkeys(_INDICES, 0)
        (fastest, size), *others = self._sizes
        if size % self._text.width == 0 or not others:
            shapes[f"%threadIdx.{fastest}"] = 1
        else:
            shapes |= {f"%threadIdx.{axis}": None for axis, _ in self._sizes}
        return shapes

    def _uses(self) -> tuple[set[str], set[str]]:
        """(values used in other blocks than they are made in, those used behind a loop that lanes
        leave at different times)."""
        made_at = {
            item.result: label
            for label, block in self._blocks.items()
            for item in block.instructions()
            if item.result
        }
        used: list[tuple[str, str]] = []
        for label, block in self._blocks.items():
            for item in block.instructions():
                if not item.is_phi:
                    used += [(name, label) for name in item.uses]
            for phi in block.phis:
                used += [(value, source) for value, source in phi.incoming]
            if isinstance(block.terminator, RegionEnd):
                used += [(slot.value, label) for slot in self._kept(block.terminator.target)]
        used = [(name, label) for name, label in used if label in self._blocks and name in made_at]
        crossing = {name for name, label in used if made_at[name] != label}
        leaving = {name for name, label in used if self._shapes.leaves_split(name, label)}
        return crossing, leaving

    def _kept(self, target: str) -> list[Slot]:
        """The slots that are stored on the way to a label behind a cut."""
        live = self._regions.live[target]
        return [slot for slot in self._stored if slot.value in live]

    def text(self, region: Region) -> str:
        """LLVM text of the function, and of what it needs declared; once."""
        assert region is self._region
        text = self._text
        text.label("%lanes.start")
        first = self._first_mask()
        self._next = text.room("i32")
        self._fault = text.room("i32")
        self._states = text.room(text.vector_type("i32"))
        text.do(f"store i32 {DONE}, ptr {self._next}")
        text.do(f"store i32 0, ptr {self._fault}")
        if self._regions.masked:
            text.do(f"store {text.vector_type('i32')} {self._now}, ptr {self._states}")
            text.do(f"br i1 {text.any_lane(first)}, label %lanes.begin, label %lanes.end")
            text.label("%lanes.begin")
        self._arrive(first)
        Flow(
            text,
            self._values,
            self._shapes,
            self._layout,
            self._blocks,
            self._end,
            self._widening,
        ).write(first)
        text.do("br label %lanes.end")
        text.label("%lanes.end")
        if self._regions.masked:
            states = text.add(f"load {text.vector_type('i32')}, ptr {self._states}")
            text.store_lanes("i32", states, self._state_address, self._present)
        following = text.add(f"load i32, ptr {self._next}")
        fault = text.add(f"load i32, ptr {self._fault}")
        pair = text.add(f"insertvalue {{ i32, i32 }} poison, i32 {following}, 0")
        both = text.add(f"insertvalue {{ i32, i32 }} {pair}, i32 {fault}, 1")
        text.do(f"ret {{ i32, i32 }} {both}")
        head = (
            f"define internal {{ i32, i32 }} @haulage.region.{self._region.number}"
            f"({parameter_list(self._parameters())}) {{"
        )
        start, *rest = text.lines
        return "\n".join([*text.declarations, head, start, *text.rooms, *rest, "}"])

    def _parameters(self) -> list[tuple[str, str]]:
        """Types and names of the parameters; with the kernel's guards, which lanes pass them."""
        within = [("i32", "%lanes.from"), ("i32", "%lanes.to")] if self._clips else []
        return [*self._functions.parameters(self._region), *within]

    def _first_mask(self) -> str:
        """The lanes that are threads of the block, and are at this region."""
        text = self._text
        self._present = EVERY_LANE
        if self._clips:
            self._present = text.lanes_between("%lanes.from", "%lanes.to")
        elif self._threads % text.width:
            numbers = text.steps("i64", "%thread", 1)
            vector = text.vector_type("i64")
            self._present = text.add(f"icmp ult {vector} {numbers}, splat (i64 {self._threads})")
        if not self._regions.masked:
            return self._present
        self._state_address = text.add("getelementptr inbounds i32, ptr %states, i64 %thread")
        vector = text.vector_type("i32")
        if not self._region.number:
            self._now = f"splat (i32 {DONE})"
            return self._present
        self._now = text.load_lanes("i32", self._state_address, self._present)
        here = text.add(f"icmp eq {vector} {self._now}, splat (i32 {self._region.number})")
        return text.both(self._present, here)

    def _arrive(self, mask: str) -> None:
        text, values = self._text, self._values
        values.label = self._region.entry
        for parameter in self._body.function.parameters:
            if self._shapes.of(parameter.name) is not None:
                values.arrive(parameter.name, parameter.name)
        for room in (*self._body.shared, *self._body.private):
            values.arrive(room.name, room.name)
        for told in self._guards.values():
            values.arrive(told, told)
        self._arrive_indices()
        for name in self._region.loaded:
            slot = self._regions.slots[name]
            value = value_name(name, "in")
            if slot.varying:
                at = text.add(
                    f"getelementptr inbounds {slot.type}, ptr {value_name(name, 'slot')}, "
                    "i64 %thread"
                )
                value = text.load_lanes(slot.type, at, mask)
            elif self._shapes.of(name) is None:
                value = text.splat(slot.type, value)
            values.arrive(name, value)
        for step in self._steps:
            self._widening.write(step, mask)
            assert step.result is not None
            values.arrive(step.result, text.at_hand[step.result])
        for name, arrived in self._arriving.items():
            if name != arrived:
                values.arrive(name, self._as(name, arrived))

    def _as(self, name: str, arrived: str) -> str:
        """The value `arrived` in the shape that `name` has."""
        if self._shapes.of(name) is None:
            return self._values.vector(self._types[arrived], arrived)
        return self._values.scalar(arrived)

    def _arrive_indices(self) -> None:
        text = self._text
        if not any(self._shapes.of(name) is None for name in _INDICES):
            return
        vector = text.vector_type("i32")
        rest = text.steps("i32", text.add("trunc i64 %thread to i32"), 1)
        for axis, size in self._sizes:
            index = text.add(f"urem {vector} {rest}, splat (i32 {size})")
            self._values.arrive(f"%threadIdx.{axis}", index)
            rest = text.add(f"udiv {vector} {rest}, splat (i32 {size})")

    def _end(self, block: Block, mask: str) -> None:
        text = self._text
        number = DONE
        if isinstance(block.terminator, RegionEnd):
            number = self._functions.numbers[block.terminator.target]
            for slot in self._kept(block.terminator.target):
                self._keep(slot, mask)
        else:
            code = return_code(block)
            if code is None:
                return
            self._count_fault(code, mask)
        text.do(f"store i32 {number}, ptr {self._next}")
        if self._regions.masked:
            vector = text.vector_type("i32")
            old = text.add(f"load {vector}, ptr {self._states}")
            new = text.choose(mask, "i32", f"splat (i32 {number})", old)
            text.do(f"store {vector} {new}, ptr {self._states}")

    def _keep(self, slot: Slot, mask: str) -> None:
        text, values = self._text, self._values
        if slot.varying or self._regions.masked:
            role = "slot" if slot.varying else "out"
            at = text.add(
                f"getelementptr inbounds {slot.type}, ptr {value_name(slot.value, role)}, "
                "i64 %thread"
            )
            text.store_lanes(slot.type, values.vector(slot.type, slot.value), at, mask)
            return
        if values.shape(slot.value) == 0:
            value = values.scalar(slot.value)
        else:
            vector = values.vector(slot.type, slot.value)
            value = text.of_last_lane(slot.type, vector, mask)
        text.do(f"store {slot.type} {value}, ptr {value_name(slot.value, 'out')}")

    def _count_fault(self, code: str, mask: str) -> None:
        if not self._body.may_fail:
            return
        text, vector = self._text, self._text.vector_type("i32")
        codes = self._values.vector("i32", code)
        if self._body.has_ends:
            is_end = text.add(f"icmp uge {vector} {codes}, splat (i32 {code_of(1)})")
            codes = text.choose(is_end, "i32", "zeroinitializer", codes)
        faults = text.choose(mask, "i32", codes, "zeroinitializer")
        most = text.call("i32", f"llvm.vector.reduce.umax.v{text.width}i32", [(vector, faults)])
        old = text.add(f"load i32, ptr {self._fault}")
        new = text.call("i32", "llvm.umax.i32", [("i32", old), ("i32", most)])
        text.do(f"store i32 {new}, ptr {self._fault}")


def can_run(functions: RegionFunctions, region: Region) -> bool:
    """Whether all that a region does has a form for lanes."""
    blocks = [functions.regions.function.blocks[label] for label in region.labels]
    kinds = [functions.regions.slots[name].type for name in region.loaded]
    kinds += [slot.type for slot in functions.stored(region)]
    kinds += [phi.type for block in blocks for phi in block.phis]
    items = [item for block in blocks for item in block.body]
    ends = [block.terminator for block in blocks if isinstance(block.terminator, Instruction)]
    return (
        all(map(is_scalar, kinds))
        and all(can_write(item) for item in (*items, *region.steps))
        and all(end.opcode in ("br", "ret", "unreachable") for end in ends)
    )


def _successors(blocks: dict[str, Block]) -> dict[str, tuple[str, ...]]:
    return {
        label: () if isinstance(block.terminator, RegionEnd) else block.successors
        for label, block in blocks.items()
    }


def _renamed(block: Block, names: dict[str, str]) -> Block:
    """A block with other names for what its instructions use, other than phis."""
    if not names:
        return block

    def renamed(item: Instruction) -> Instruction:
        others = {name: new for name, new in names.items() if name != item.result}
        return item.renamed(others)

    end = block.terminator
    if isinstance(end, Instruction):
        end = renamed(end)
    return Block(block.label, block.phis, [renamed(item) for item in block.body], end)


def _only(label: str) -> Layout:
    return Layout({label: ()}, label)


def _arrivals(region: Region) -> tuple[list[Instruction], dict[str, str]]:
    """(what is worked out first, under names of its own; for each value that is there when the
    region begins the name that it then has)."""
    names: dict[str, str] = {}
    steps: list[Instruction] = []
    for step in region.steps:
        assert step.result is not None
        if step.result in region.loaded:
            continue
        own = value_name(step.result, "in")
        steps.append(step.renamed({**names, step.result: own}))
        names[step.result] = own
    arriving = {name: name for name in region.loaded}
    arriving |= {name: names[name] for name in region.recomputed if name in names}
    return steps, arriving
