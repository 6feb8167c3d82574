"""What a kernel does with the memory of its arguments, as programs and the runtime are told.

Of all but numbers, what is not proven is taken to be read and written.
"""

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

from haulage.compiler.access.terms import MOST, Sum, Symbol

Mode = Literal["none", "r", "w", "rw"]

# A parameter's number, followed by places within tuples.
Path = tuple[int, ...]

# How threads are shared out over an axis of an array: one of the grid's or of a block's threads, or
# a block, for each element; or loops that come to every element however many there are of these.
ByGrid, ByBlock, ByThread, ByLoop = "grid", "block", "thread", "loop"

_AXES = "xyz"
_WAYS = {
    ByGrid: ("the grid has", "threads"),
    ByBlock: ("the grid has", "blocks"),
    ByThread: ("each block has", "threads"),
}


@dataclass(frozen=True)
class Whole:
    """When a launch writes every element of an array.

    `along` has for each axis of the array how it is shared out, and among which axis of the grid.
    `bounds` are pairs (axis of the array, number): the number has to be that axis's size or more.
    """

    path: Path
    along: tuple[tuple[str, int], ...]
    bounds: tuple[tuple[int, Sum], ...] = ()

    def holds(self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any]) -> bool:
        """Whether it is so for a grid of blocks, threads of a block, and the arguments."""
        shape = _at(args, self.path).shape
        reach = {
            ByGrid: lambda axis: grid[axis] * block[axis],
            ByBlock: lambda axis: grid[axis],
            ByThread: lambda axis: block[axis],
        }
        for size, (way, axis) in zip(shape, self.along, strict=True):
            if way != ByLoop and reach[way](axis) < size:
                return False

        scalars = {each for _, bound in self.bounds for each in bound.symbols()}
        # What a kernel that takes declared types only makes of a float is not looked at.
        if not all(
            isinstance(_at(args, each[1]), Integral) for each in scalars if each[0] == "scalar"
        ):
            return False

        def value_of(symbol: Symbol) -> int:
            if symbol[0] == "shape":
                return int(_at(args, symbol[1]).shape[symbol[2]])
            if symbol[0] == "scalar":
                return _as_typed(_at(args, symbol[1]), symbol[2], symbol[3])
            return int((grid if symbol[0] == "grid" else block)[symbol[1]])

        return all(shape[axis] <= bound.value(value_of) <= MOST for axis, bound in self.bounds)

    def text(self, names: Sequence[str]) -> str:
        """It in words that come behind "all of it"; nothing if it is so for all launches."""
        name = named(names, self.path)
        alone = len(self.along) == 1
        sizes = [
            f"{name}.size" if alone else f"{name}.shape[{axis}]" for axis in range(len(self.along))
        ]
        needs = []
        for way, (who, what) in _WAYS.items():
            enough = [
                f"{size} {what}" if alone and axis == 0 else f"{size} {what} along {_AXES[axis]}"
                for size, (each, axis) in zip(sizes, self.along, strict=True)
                if each == way
            ]
            if enough:
                needs.append(f"{who} at least {' and '.join(enough)}")
        needs += [
            f"{bound.text(lambda symbol: _symbol_name(names, symbol))} >= {sizes[axis]}"
            for axis, bound in self.bounds
        ]
        return f" if {' and '.join(needs)}" if needs else ""


def _at(args: Any, path: Path) -> Any:
    for number in path:
        args = args[number]
    return args


def _as_typed(value: Any, bits: int, signed: bool) -> int:
    """An int argument as a kernel sees it that has it with so many bits."""
    value = operator.index(value) % (1 << bits)
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def named(names: Sequence[str], path: Path) -> str:
    return names[path[0]] + "".join(f"[{number}]" for number in path[1:])


def _symbol_name(names: Sequence[str], symbol: Symbol) -> str:
    if symbol[0] == "shape":
        return f"{named(names, symbol[1])}.shape[{symbol[2]}]"
    if symbol[0] == "scalar":
        return named(names, symbol[1])
    return f"{'gridDim' if symbol[0] == 'grid' else 'blockDim'}.{_AXES[symbol[1]]}"


@dataclass(frozen=True, repr=False)
class Access:
    """What a kernel does with the memory of one argument.

    Attributes:
        mode: 'none': its elements are not touched; 'r': read; 'w': written and never read, but
            perhaps not all of them; 'rw': both, or not known.
        wholes: the cases in which a launch writes every element; see `overwrites`.
        names: those of the kernel's parameters.
    """

    mode: Mode
    wholes: tuple[Whole, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def reads(self) -> bool:
        """Whether elements may be read."""
        return "r" in self.mode

    @property
    def writes(self) -> bool:
        """Whether elements may be written."""
        return "w" in self.mode

    def overwrites(self, grid: Any, block: Any, args: Sequence[Any]) -> bool:
        """Whether a launch is known to write every element, whatever was there, and to read none.

        What lies between the elements of a view with gaps is not written, and the answer is of no
        use where two arguments share memory.

        Args:
            grid: blocks of the grid, an int or up to three.
            block: threads of a block, an int or up to three.
            args: the arguments of the launch, in order: ints, whatever has a `.shape`, and tuples.
        """
        return any(whole.holds(_three(grid), _three(block), args) for whole in self.wholes)

    def __str__(self) -> str:
        if not self.wholes:
            return self.mode
        return f"{self.mode}, all of it" + " or".join(
            whole.text(self.names) for whole in self.wholes
        )

    def __repr__(self) -> str:
        return repr(str(self))


def _three(dims: Any) -> tuple[int, ...]:
    given = tuple(dims) if isinstance(dims, Sequence) else (dims,)
    return (*given, 1, 1)[:3]


class Accesses(Mapping[str, Access]):
    """What a kernel does with its arguments: name -> `Access`, for each that has memory.

    Arrays in tuples are called `name[0]`. `arguments` has the same by number: for each parameter
    its `Access`, a tuple of those of a tuple's entries, or None for what has no memory.
    """

    def __init__(self, names: Sequence[str], paths: Mapping[Path, Access], tree: Any) -> None:
        self.paths = dict(paths)
        self.names = tuple(names)
        self._tree = tree
        self._named = {named(self.names, path): access for path, access in paths.items()}
        self.arguments: tuple[Any, ...] = tuple(
            self._placed((number,), entries) for number, entries in enumerate(tree)
        )

    def _placed(self, path: Path, entries: Any) -> Any:
        if entries is None:
            return self.paths.get(path)
        return tuple(self._placed((*path, number), each) for number, each in enumerate(entries))

    def __getitem__(self, name: str) -> Access:
        return self._named[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)

    def __repr__(self) -> str:
        return repr(self._named)

    def facts(self) -> dict[str, Any]:
        """It as JSON can say it."""
        return {
            "names": self.names,
            "tree": self._tree,
            "paths": [
                [
                    path,
                    access.mode,
                    [
                        [each.path, each.along, [[axis, b.products] for axis, b in each.bounds]]
                        for each in access.wholes
                    ],
                ]
                for path, access in self.paths.items()
            ],
        }

    @staticmethod
    def of_facts(facts: Mapping[str, Any]) -> "Accesses":
        """What `facts` was made of."""
        names = tuple(facts["names"])
        paths = {}
        for path, mode, listed in _tuples(facts["paths"]):
            wholes = tuple(
                Whole(where, along, tuple((axis, Sum(products)) for axis, products in bounds))
                for where, along, bounds in listed
            )
            paths[path] = Access(mode, wholes, names)
        return Accesses(names, paths, _tuples(facts["tree"]))


def _tuples(value: Any) -> Any:
    """A value of JSON with tuples in the place of lists."""
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value
