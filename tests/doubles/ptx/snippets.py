"""Single instructions with their operands and results, as tests write them down.

A snippet is made an entry in which each thread takes one row: it loads the row's inputs, does what
the snippet says with `{i0}`, `{i1}` ... and `{o0}`, `{o1}` ..., and stores the outputs.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from doubles.ptx.loading import Loaded
from doubles.ptx.syntax import Type

# Of floats, as `struct` has them.
_FLOATS = {"f16": ("e", "H"), "f32": ("f", "I"), "f64": ("d", "Q")}


@dataclass(frozen=True)
class Snippet:
    """`kinds` are types of inputs and outputs, `f32 u32 -> pred`; `rows` have values for both,
    ints or floats; an output that is None may be anything."""

    text: str
    kinds: str
    rows: Sequence[tuple[int | float | None, ...]]
    declarations: str = ""

    @property
    def inputs(self) -> list[str]:
        return self.kinds.partition("->")[0].split()

    @property
    def outputs(self) -> list[str]:
        return self.kinds.partition("->")[2].split()

    def entry(self, name: str) -> str:
        """The text of an entry, which takes the address of the rows' cells of 8 bytes."""
        lines = [f".visible .entry {name}(.param .u64 rows)", "{"]
        lines += ["  .reg .b64 %at<3>;", "  .reg .b32 %thread;", "  .reg .b32 %predicate;"]
        lines += [f"  .reg {_register(kind)} %i{n};" for n, kind in enumerate(self.inputs)]
        lines += [f"  .reg {_register(kind)} %o{n};" for n, kind in enumerate(self.outputs)]
        lines += [self.declarations, "  ld.param.u64 %at0, [rows];", "  mov.u32 %thread, %tid.x;"]
        cells = len(self.inputs) + len(self.outputs)
        lines += [f"  mul.wide.u32 %at1, %thread, {8 * cells};", "  add.u64 %at2, %at0, %at1;"]
        for n, kind in enumerate(self.inputs):
            if kind == "pred":
                lines.append(f"  ld.global.b32 %predicate, [%at2+{8 * n}];")
                lines.append(f"  setp.ne.u32 %i{n}, %predicate, 0;")
            else:
                lines.append(f"  ld.global.b{Type(kind).bits} %i{n}, [%at2+{8 * n}];")
        names = {f"i{n}": f"%i{n}" for n in range(len(self.inputs))}
        names |= {f"o{n}": f"%o{n}" for n in range(len(self.outputs))}
        text = self.text
        for short, long in names.items():
            text = text.replace("{" + short + "}", long)
        lines.append(f"  {text}")
        for n, kind in enumerate(self.outputs):
            place = f"[%at2+{8 * (len(self.inputs) + n)}]"
            if kind == "pred":
                lines.append(f"  selp.u32 %predicate, 1, 0, %o{n};")
                lines.append(f"  st.global.b32 {place}, %predicate;")
            else:
                lines.append(f"  st.global.b{Type(kind).bits} {place}, %o{n};")
        return "\n".join([*lines, "  ret;", "}"])


def _register(kind: str) -> str:
    return ".pred" if kind == "pred" else f".b{max(16, Type(kind).bits)}"


def bits(value: int | float, kind: str) -> int:
    """The bits of a value of a type."""
    if kind in _FLOATS and isinstance(value, float):
        of_float, of_int = _FLOATS[kind]
        (found,) = struct.unpack(f"<{of_int}", struct.pack(f"<{of_float}", value))
        return int(found)
    return int(value) & (1 << Type(kind).bits) - 1


def module(snippets: Sequence[Snippet], target: str = "sm_90", version: str = "8.5") -> str:
    """A text with an entry `s0`, `s1` ... for each snippet."""
    entries = [snippet.entry(f"s{n}") for n, snippet in enumerate(snippets)]
    head = f".version {version}\n.target {target}\n.address_size 64\n"
    return "\n".join([head, *entries]) + "\n"


def outputs(loaded: Loaded, name: str, snippet: Snippet) -> list[tuple[int, ...]]:
    """The bits of each row's outputs."""
    inputs, results = snippet.inputs, snippet.outputs
    cells = np.zeros((len(snippet.rows), len(inputs) + len(results)), np.uint64)
    for n, row in enumerate(snippet.rows):
        for place, kind in enumerate(inputs):
            value = row[place]
            assert value is not None
            cells[n, place] = bits(value, kind)
    loaded.launch(name, (1, 1, 1), (len(cells), 1, 1), 0, struct.pack("<Q", cells.ctypes.data))
    return [tuple(int(each) for each in row[len(inputs) :]) for row in cells]


def expected(snippet: Snippet) -> list[tuple[int | None, ...]]:
    """The bits of what each row's outputs have to be; None for anything."""
    return [
        tuple(
            None if value is None else bits(value, kind)
            for value, kind in zip(row[len(snippet.inputs) :], snippet.outputs, strict=True)
        )
        for row in snippet.rows
    ]
