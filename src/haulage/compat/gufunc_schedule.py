"""`GUFuncEngine`: what a generalised ufunc does with arrays of given shapes, without any arrays."""

from collections.abc import Sequence
from math import prod

from haulage.lib.ufuncs.core_shapes import Core, CoreShapes, parse
from haulage.lib.ufuncs.operands import broadcast_shape
from haulage.runtime.geometry.layout import Ints


class GUFuncSchedule:
    """The shapes of one call.

    Attributes:
        parent: the engine.
        ishapes, oshapes: the core shapes of inputs and outputs.
        loopdims, loopn: the shape of the loop and how many places it has.
        pinned: for each input, whether it is the same in all places of a loop that others have.
        output_shapes: the shapes of the outputs.
    """

    def __init__(
        self,
        parent: "GUFuncEngine",
        ishapes: list[Ints],
        oshapes: list[Ints],
        loopdims: Ints,
        pinned: list[bool],
    ) -> None:
        self.parent = parent
        self.ishapes = ishapes
        self.oshapes = oshapes
        self.loopdims = loopdims
        self.loopn = prod(loopdims)
        self.pinned = pinned
        self.output_shapes = [loopdims + shape for shape in oshapes]


class GUFuncEngine:
    """The arithmetic of a layout: `GUFuncEngine.from_signature("(m,n),(n,p)->(m,p)")`.

    Args:
        inputsig, outputsig: the names of the core dimensions of each input and output.
    """

    def __init__(self, inputsig: Sequence[Core], outputsig: Sequence[Core]) -> None:
        self.sin = [tuple(core) for core in inputsig]
        self.sout = [tuple(core) for core in outputsig]
        self.nin, self.nout = len(self.sin), len(self.sout)

    @classmethod
    def from_signature(cls, signature: str) -> "GUFuncEngine":
        """The engine of a layout.

        Raises:
            TypeError, ValueError: `signature` is none.
        """
        cores = parse(signature)
        return cls(cores.inputs, cores.outputs)

    def schedule(self, ishapes: Sequence[Ints]) -> GUFuncSchedule:
        """What a call with inputs of these shapes does.

        Raises:
            TypeError: too few or too many shapes.
            ValueError: core dimensions do not fit, or the loop axes cannot be broadcast.
        """
        shapes = [tuple(shape) for shape in ishapes]
        if len(shapes) != self.nin:
            raise TypeError(f"expected the shapes of {self.nin} inputs; got {len(shapes)}")
        left, right = (
            ",".join(f"({','.join(core)})" for core in side) for side in (self.sin, self.sout)
        )
        text = f"{left}->{right}"
        cores = CoreShapes(text, tuple(self.sin), tuple(self.sout))
        sizes = cores.sizes(text, shapes, [None] * self.nout)
        outer = [
            shape[: len(shape) - len(core)] for core, shape in zip(self.sin, shapes, strict=True)
        ]
        loop = broadcast_shape(outer, text)
        return GUFuncSchedule(
            self,
            [tuple(sizes[name] for name in core) for core in self.sin],
            [tuple(sizes[name] for name in core) for core in self.sout],
            loop,
            [axes != loop and prod(axes) == 1 for axes in outer],
        )
