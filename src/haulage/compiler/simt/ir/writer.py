"""Writes instructions as LLVM's assembly language has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from haulage.compiler.simt.ir.types import CASTS, FORMS, TAIL_CALLS

if TYPE_CHECKING:
    from haulage.compiler.simt.ir.model import Function, Instruction, Operand


def definition(function: Function) -> str:
    """The text of a function."""
    parameters = ", ".join(f"{each.type} {each.name}" for each in function.parameters)
    head = f"define {function.linkage} {function.result} @{function.name}({parameters})"
    head = f"{head} {function.attributes} {{".replace("  ", " ")
    return f"{head}\n{listing(function)}\n}}"


def listing(function: Function) -> str:
    """The blocks of a function, and where regions of it end."""
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
    text = _call(item) if item.opcode == "call" else _listed(item)
    if item.metadata:
        text = ", ".join((text, *(f"!{kind} {node}" for kind, node in item.metadata)))
    return text if item.result is None else f"{item.result} = {text}"


def _typed(operand: Operand) -> str:
    if operand.attributes:
        return f"{operand.type} {operand.attributes} {operand.text}"
    return f"{operand.type} {operand.text}"


def _call(item: Instruction) -> str:
    # The word of a tail call stands before the opcode, other flags behind it.
    tails = [flag for flag in item.flags if flag in TAIL_CALLS]
    words = [*tails, "call", *(flag for flag in item.flags if flag not in tails)]
    if item.convention:
        words.append(item.convention)
    arguments = ", ".join(map(_typed, item.operands))
    text = f"{' '.join(words)} {item.source_type} {item.called}({arguments})"
    return f"{text} {item.attributes}" if item.attributes else text


def _listed(item: Instruction) -> str:
    opcode, operands, form = item.opcode, item.operands, FORMS[item.opcode]
    words = [opcode, *item.flags]
    if item.predicate:
        words.append(item.predicate)
    if form.pair:
        one, other = operands
        return f"{' '.join(words)} {one.type} {one.text}, {other.text}"
    if opcode == "phi":
        words.append(item.type)
        listed = [f"[ {value}, {label} ]" for value, label in item.incoming]
    elif opcode in CASTS:
        listed = [f"{_typed(operands[0])} to {item.type}"]
    elif opcode == "switch":
        default, *others = item.targets
        cases = zip(item.indices, others, strict=True)
        of_cases = " ".join(
            f"{operands[0].type} {number}, label {label}" for number, label in cases
        )
        listed = [_typed(operands[0]), f"label {default} [ {of_cases} ]"]
    else:
        listed = [*map(_typed, operands)]
        if form.first and not item.predicate:
            listed.insert(0, getattr(item, form.first))
        elif item.targets or item.indices:
            listed += [f"label {label}" for label in item.targets]
            listed += map(str, item.indices)
    if listed:
        words.append(", ".join(listed))
    elif opcode == "ret":
        words.append("void")
    if item.ordering:
        words.append(item.ordering)
    text = " ".join(words)
    if item.align:
        text += f", align {item.align}"
    return f"{text}, {item.attributes}" if item.attributes else text
