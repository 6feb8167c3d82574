"""What a kernel's variables are: Python objects, arrays that it was given, or numbers that are made
from a thread's place and the launch (`compiler/access/terms.py`)."""

import operator
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from numba.core import ir, types
from numba.core.analysis import compute_cfg_from_blocks

from haulage.compiler.access.model import Path
from haulage.compiler.access.terms import Sum, number, place, symbol, threads
from haulage.compiler.frontend.overwriting.loops import Loops, Place
from haulage.lang import index

NOTHING = object()

_OPERATORS = {
    **dict.fromkeys((operator.add, operator.iadd), operator.add),
    **dict.fromkeys((operator.sub, operator.isub), operator.sub),
    **dict.fromkeys((operator.mul, operator.imul), operator.mul),
}
_REGISTERS = {
    id(index.threadIdx): "thread",
    id(index.blockIdx): "at block",
    id(index.blockDim): "block",
    id(index.gridDim): "grid",
}
# Words that give a tuple for several dimensions, and words of one dimension.
_OF_AXES = {id(index.grid): place, id(index.gridsize): threads}
_OF_AXIS = {
    id(index.get_global_id): place,
    id(index.get_global_size): threads,
    id(index.get_local_id): lambda axis: symbol("thread", axis),
    id(index.get_group_id): lambda axis: symbol("at block", axis),
    id(index.get_local_size): lambda axis: symbol("block", axis),
    id(index.get_num_groups): lambda axis: symbol("grid", axis),
}


class Values:
    """The variables of a typed function.

    `assigned` has for each name the statements that give it a value, with their places.
    """

    def __init__(self, function_ir: Any, typemap: dict[str, Any]) -> None:
        self.blocks = function_ir.blocks
        self.typemap = typemap
        self.assigned: dict[str, list[tuple[Place, Any]]] = {}
        for label, block in self.blocks.items():
            for position, statement in enumerate(block.body):
                if isinstance(statement, ir.Assign):
                    at = Place(label, position)
                    self.assigned.setdefault(statement.target.name, []).append(
                        (at, statement.value)
                    )
        self.graph = compute_cfg_from_blocks(self.blocks)
        self.loops = Loops(self)
        self._numbers: dict[str, Sum | None] = {}

    # ---- what a variable stands for ---------------------------------------------------------

    def made(self, variable: Any) -> tuple[Place, Any] | None:
        """The only value that a variable is given, behind all copies, and where."""
        found = self.assigned.get(variable.name, ())
        if len(found) != 1:
            return None
        at, value = found[0]
        return self.made(value) if isinstance(value, ir.Var) else (at, value)

    def value(self, variable: Any) -> Any:
        """The only value that a variable is given; None if there are several."""
        found = self.made(variable)
        return None if found is None else found[1]

    def python(self, variable: Any) -> Any:
        """The Python object that a variable is: a global or of a module; else `NOTHING`."""
        value = self.value(variable)
        if isinstance(value, (ir.Global, ir.FreeVar)):
            return value.value
        if isinstance(value, ir.Expr) and value.op == "getattr":
            owner = self.python(value.value)
            if isinstance(owner, ModuleType):
                return getattr(owner, value.attr, NOTHING)
        return NOTHING

    def memory(self, variable: Any) -> Path | None:
        """The argument, or entry of a tuple that is one, that a variable is."""
        value = self.value(variable)
        if isinstance(value, ir.Arg):
            return (value.index,)
        if isinstance(value, ir.Expr):
            if value.op == "exhaust_iter":
                return self.memory(value.value)
            if value.op == "static_getitem" and isinstance(
                self.typemap.get(value.value.name), types.BaseTuple
            ):
                return self._entry(value)
        return None

    def _entry(self, value: Any) -> Path | None:
        whole = self.memory(value.value)
        count = len(self.typemap[value.value.name])
        if whole is None or type(value.index) is not int or not -count <= value.index < count:
            return None
        return (*whole, value.index % count)

    # ---- numbers ----------------------------------------------------------------------------

    def number(self, variable: Any) -> Sum | None:
        """The number that a variable is, if it is known what it is made from."""
        name = variable.name
        if name not in self._numbers:
            # While it is worked out it is not known.
            self._numbers[name] = None
            kind = self.typemap.get(name)
            if isinstance(kind, types.Integer):
                found = self.assigned.get(name, [])
                if len(found) == 1:
                    self._numbers[name] = self._in_its_loops(*found[0], kind)
                elif len(found) == 2:
                    self.loops.note_counter(name, found)
        return self._numbers[name]

    def know(self, name: str, value: Sum | None) -> None:
        """Note what the variable of a loop is."""
        self._numbers[name] = value

    def _in_its_loops(self, at: Place, value: Any, kind: Any) -> Sum | None:
        made = self._worked_out(value, kind)
        # The variable of a loop is something else behind it.
        if made is not None and made.is_small() and self.loops.are_around(made, at.label):
            return made
        return None

    def _worked_out(self, value: Any, kind: Any) -> Sum | None:
        if isinstance(value, ir.Var):
            return self.number(value)
        if isinstance(value, ir.Arg):
            return symbol("scalar", (value.index,), kind.bitwidth, kind.signed)
        if isinstance(value, (ir.Const, ir.Global, ir.FreeVar)):
            return number(value.value) if type(value.value) is int else None
        if not isinstance(value, ir.Expr):
            return None
        if value.op in ("binop", "inplace_binop"):
            return self._arithmetic(value, kind)
        if value.op == "cast":
            source = self.typemap.get(value.value.name)
            # No bits may be lost; the signs of 64 of them come back in sums and products.
            if isinstance(source, types.Integer) and (
                kind.bitwidth == 64
                or (kind.bitwidth, kind.signed) == (source.bitwidth, source.signed)
            ):
                return self.number(value.value)
            return None
        if value.op == "call":
            return self._called(value)
        if value.op == "getattr":
            return self._attribute(value)
        if value.op == "static_getitem":
            entries = self.entries(value.value)
            at = value.index
            if entries is not None and type(at) is int and -len(entries) <= at < len(entries):
                return entries[at]
            return None
        if value.op == "pair_first":
            return self.loops.of_range(value)
        return None

    def _arithmetic(self, value: Any, kind: Any) -> Sum | None:
        operation = _OPERATORS.get(value.fn)
        if operation is None or kind.bitwidth != 64:
            return None
        left, right = self.number(value.lhs), self.number(value.rhs)
        if left is None or right is None:
            return None
        made: Sum = operation(left, right)
        return made

    def _called(self, value: Any) -> Sum | None:
        function = self.python(value.func)
        if value.kws or value.vararg or len(value.args) != 1:
            return None
        (given,) = value.args
        if function is len:
            sizes = self._sizes(given)
            return sizes[0] if sizes else None
        axis = self._constant(given)
        if axis is None:
            return None
        if id(function) in _OF_AXES:
            return _OF_AXES[id(function)](0) if axis == 1 else None
        if id(function) in _OF_AXIS and 0 <= axis <= 2:
            return _OF_AXIS[id(function)](axis)
        return None

    def _attribute(self, value: Any) -> Sum | None:
        register = _REGISTERS.get(id(self.python(value.value)))
        if register is not None and value.attr in ("x", "y", "z"):
            return symbol(register, "xyz".index(value.attr))
        if value.attr == "size":
            sizes = self._sizes(value.value)
            if sizes is not None:
                product = number(1)
                for size in sizes:
                    product = product * size
                return product
        return None

    def entries(self, variable: Any) -> list[Sum | None] | None:
        """The numbers in a tuple."""
        at, value = self.made(variable) or (None, None)
        kind = self.typemap.get(variable.name)
        if isinstance(value, ir.Arg) and isinstance(kind, types.BaseTuple):
            return [
                symbol("scalar", (value.index, entry), each.bitwidth, each.signed)
                if isinstance(each, types.Integer)
                else None
                for entry, each in enumerate(kind)
            ]
        if not isinstance(value, ir.Expr):
            return None
        if value.op == "exhaust_iter":
            return self.entries(value.value)
        if value.op == "build_tuple":
            assert at is not None
            numbers = [self.number(each) for each in value.items]
            return [
                each if each is not None and self.loops.are_around(each, at.label) else None
                for each in numbers
            ]
        if value.op == "getattr" and value.attr == "shape":
            sizes = self._sizes(value.value)
            return None if sizes is None else [*sizes]
        if value.op == "call" and len(value.args) == 1 and not value.kws and not value.vararg:
            word = _OF_AXES.get(id(self.python(value.func)))
            count = self._constant(value.args[0])
            if word is not None and count in (2, 3):
                return [word(axis) for axis in range(count)]
        return None

    def _constant(self, variable: Any) -> int | None:
        found = self.number(variable)
        return None if found is None else found.constant()

    def _sizes(self, variable: Any) -> list[Sum] | None:
        """The sizes of an array that the kernel was given."""
        path = self.memory(variable)
        kind = self.typemap.get(variable.name)
        if path is None or not isinstance(kind, types.Array):
            return None
        return [symbol("shape", path, axis) for axis in range(kind.ndim)]

    def statements(self) -> Iterator[tuple[Place, Any]]:
        """All statements with their places."""
        for label, block in self.blocks.items():
            for position, statement in enumerate(block.body):
                yield Place(label, position), statement
