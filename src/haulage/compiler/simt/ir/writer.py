"""Writes instructions as LLVM's assembly language has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from haulage.compiler.simt.ir.types import BINARY, CASTS

if TYPE_CHECKING:
    from haulage.compiler.simt.ir.model import Function, Instruction, Operand


def definition(function: Function) -> str:
    """The text of a function."""
    parameters = ", ".join(f"{each.type} {each.name}" for each in function.parameters)
    head = f"define {function.linkage} {function.result} @{function.name}({parameters})"
    lines = [f"{head} {function.attributes} {{".replace("  ", " ")]
    for block in function.blocks.values():
        lines.append(f"{block.label[1:]}:")
        lines += [f"  {item.text}" for item in block.instructions()]
    return "\n".join([*lines, "}"])


def listing(function: Function) -> str:
    """The blocks of a function that is on its way, ends of regions among them, to be read."""
    lines: list[str] = []
    for block in function.blocks.values():
        lines.append(f"{block.label[1:]}:")
        lines += [f"  {item.text}" for item in block.instructions()]
        end = block.terminator
        if end is not None and not hasattr(end, "opcode"):
            lines.append(f"  ; a region ends ({end.reason}), the next one begins at {end.target}")
    return "\n".join(lines)


def written(item: Instruction) -> str:
    """The text of an instruction, without indentation."""
    write = _FORMS.get(item.opcode, _as_list)
    text = write(item)
    if item.align:
        text += f", align {item.align}"
    if item.opcode == "alloca" and item.attributes:
        text += f", {item.attributes}"
    for kind, node in item.metadata:
        text += f", !{kind} {node}"
    return text if item.result is None else f"{item.result} = {text}"


def _head(item: Instruction) -> str:
    return " ".join((item.opcode, *item.flags)) if item.flags else item.opcode


def _typed(operand: Operand) -> str:
    if operand.attributes:
        return f"{operand.type} {operand.attributes} {operand.text}"
    return f"{operand.type} {operand.text}"


def _listed(operands: tuple[Operand, ...]) -> str:
    return ", ".join(map(_typed, operands))


def _as_list(item: Instruction) -> str:
    return f"{_head(item)} {_listed(item.operands)}" if item.operands else _head(item)


def _pair(item: Instruction) -> str:
    left, right = item.operands
    return f"{_head(item)} {left.type} {left.text}, {right.text}"


def _comparison(item: Instruction) -> str:
    left, right = item.operands
    return f"{_head(item)} {item.predicate} {left.type} {left.text}, {right.text}"


def _cast(item: Instruction) -> str:
    return f"{_head(item)} {_typed(item.operands[0])} to {item.type}"


def _phi(item: Instruction) -> str:
    sources = zip(item.operands, item.sources, strict=True)
    listed = ", ".join(f"[ {operand.text}, {label} ]" for operand, label in sources)
    return f"{_head(item)} {item.type} {listed}"


def _load(item: Instruction) -> str:
    return f"{_head(item)} {item.type}, {_listed(item.operands)}{_ordering(item)}"


def _store(item: Instruction) -> str:
    return _as_list(item) + _ordering(item)


def _ordering(item: Instruction) -> str:
    return f" {item.ordering}" if item.ordering else ""


def _atomic_operation(item: Instruction) -> str:
    return f"{_head(item)} {item.predicate} {_listed(item.operands)} {item.ordering}"


def _element_address(item: Instruction) -> str:
    return f"{_head(item)} {item.source_type}, {_listed(item.operands)}"


def _allocation(item: Instruction) -> str:
    return ", ".join((f"{_head(item)} {item.source_type}", *map(_typed, item.operands)))


def _with_indices(item: Instruction) -> str:
    return ", ".join((_as_list(item), *map(str, item.indices)))


def _call(item: Instruction) -> str:
    # The word of a tail call stands before the opcode, other flags behind it.
    tails = [flag for flag in item.flags if flag.endswith("tail")]
    words = [*tails, item.opcode, *(flag for flag in item.flags if flag not in tails)]
    if item.convention:
        words.append(item.convention)
    text = f"{' '.join(words)} {item.source_type} {item.called}({_listed(item.operands)})"
    return f"{text} {item.attributes}" if item.attributes else text


def _branch(item: Instruction) -> str:
    labels = ", ".join(f"label {label}" for label in item.targets)
    return f"br {_typed(item.operands[0])}, {labels}" if item.operands else f"br {labels}"


def _switch(item: Instruction) -> str:
    value = item.operands[0]
    default, *others = item.targets
    cases = " ".join(
        f"{value.type} {number}, label {label}"
        for number, label in zip(item.indices, others, strict=True)
    )
    return f"switch {_typed(value)}, label {default} [ {cases} ]"


def _return(item: Instruction) -> str:
    return f"ret {_typed(item.operands[0])}" if item.operands else "ret void"


_FORMS = {
    **dict.fromkeys(BINARY, _pair),
    **dict.fromkeys(CASTS, _cast),
    "icmp": _comparison,
    "fcmp": _comparison,
    "phi": _phi,
    "load": _load,
    "store": _store,
    "fence": lambda item: f"fence {item.ordering}",
    "atomicrmw": _atomic_operation,
    "cmpxchg": lambda item: f"{_as_list(item)} {item.ordering}",
    "getelementptr": _element_address,
    "alloca": _allocation,
    "extractvalue": _with_indices,
    "insertvalue": _with_indices,
    "call": _call,
    "br": _branch,
    "switch": _switch,
    "ret": _return,
}
