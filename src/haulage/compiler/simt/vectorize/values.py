"""Where the values of a region are while it is written for a chunk of lanes.

What is the same in all lanes, or goes up by a step from lane to lane, is one scalar, that of the
first lane; all else is a vector. What another block uses is kept in memory of the function, which
LLVM makes registers again.
"""

from collections.abc import Iterable, Mapping

from haulage.compiler.simt.vectorize.shapes import Shape, Shapes
from haulage.compiler.simt.vectorize.text import Text


class Values:
    """Defines and finds the values of one region.

    `types` are those of all names, `crossing` the values that are used in other blocks than they
    are made in, `exiting` those used behind a loop that lanes leave at different times, `again`
    those that come from outside and are made here as well.
    """

    def __init__(
        self,
        text: Text,
        shapes: Shapes,
        types: Mapping[str, str],
        crossing: Iterable[str],
        exiting: Iterable[str],
        again: Iterable[str],
    ) -> None:
        self._text = text
        self._shapes = shapes
        self._types = types
        self._again = frozenset(again)
        self._always: dict[str, str] = {}
        self._rooms = {
            name: text.room(self._kind(name)) for name in sorted({*crossing, *self._again})
        }
        self._left = {name: text.room(text.vector_type(types[name])) for name in sorted(exiting)}
        self.label = ""

    def _kind(self, name: str) -> str:
        kind = self._types[name]
        return self._text.vector_type(kind) if self._shapes.of(name) is None else kind

    def shape(self, value: str) -> Shape:
        """The shape that a value, or constant, has in the block that is being written."""
        return self._shapes.at(value, self.label) if value.startswith("%") else 0

    def result_shape(self, name: str) -> Shape:
        """The shape of a value where it is made."""
        return self._shapes.of(name)

    def type(self, name: str) -> str:
        """The type that a value has in one lane."""
        return self._types[name]

    def arrive(self, name: str, value: str) -> None:
        """A value, as its shape is, that is there from the start."""
        if name not in self._again:
            self._always[name] = value
            return
        text, kind, shape = self._text, self._types[name], self._shapes.of(name)
        text.do(f"store {self._kind(name)} {value}, ptr {self._rooms[name]}")
        if name in self._left:
            whole = value if shape is None else text.steps(kind, value, shape)
            text.do(f"store {text.vector_type(kind)} {whole}, ptr {self._left[name]}")

    def would_lose(self, name: str | None) -> bool:
        """Whether `define` with no lane on would still put a new value in the place of one that
        was there from the start."""
        return name is not None and name in self._again and self._shapes.of(name) is not None

    def define(self, name: str, value: str, mask: str) -> None:
        """`value` is now that of `name`, in the lanes of `mask`."""
        text, kind = self._text, self._types[name]
        text.at_hand[name] = value
        varies = self._shapes.of(name) is None
        left = self._left.get(name)
        if left is not None:
            new = value if varies else text.steps(kind, value, self._shapes.of(name) or 0)
            self._blend(left, kind, new, mask)
        room = self._rooms.get(name)
        if room is None:
            return
        if name in self._again and varies:
            # Lanes that do not come here still have what they came with.
            text.at_hand[name] = self._blend(room, kind, value, mask)
        else:
            text.do(f"store {self._kind(name)} {value}, ptr {room}")

    def _blend(self, room: str, kind: str, value: str, mask: str) -> str:
        text = self._text
        vector = text.vector_type(kind)
        old = text.add(f"load {vector}, ptr {room}")
        both = text.choose(mask, kind, value, old)
        text.do(f"store {vector} {both}, ptr {room}")
        return both

    def scalar(self, value: str) -> str:
        """The first lane's number of a value whose shape is not None, or the constant itself."""
        return self._find(value) if value.startswith("%") else value

    def vector(self, kind: str, value: str) -> str:
        """A value, or constant, with one element for each lane."""
        text = self._text
        shape = self.shape(value)
        if shape is not None:
            return text.steps(kind, self.scalar(value), shape)
        if not self._shapes.leaves_split(value, self.label):
            return self._find(value)
        known = text.at_hand.get(("left", value))
        if known is None:
            known = text.add(f"load {text.vector_type(kind)}, ptr {self._left[value]}")
            text.at_hand["left", value] = known
        return known

    def _find(self, name: str) -> str:
        known = self._always.get(name) or self._text.at_hand.get(name)
        if known is None:
            known = self._text.add(f"load {self._kind(name)}, ptr {self._rooms[name]}")
            self._text.at_hand[name] = known
        return known
