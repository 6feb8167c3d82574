"""Reads functions from their text as LLVM prints it.

Asking LLVM instead takes a call from Python for each operand of each instruction, several times as
long for a whole kernel.
"""

import re
from typing import Any

from haulage.compiler.definitions import definition_start
from haulage.compiler.simt.ir.model import Block, Function, Instruction, Operand, Parameter
from haulage.compiler.simt.ir.types import (
    CASTS,
    FLAGS,
    FORMS,
    TAIL_CALLS,
    first_type,
    matching,
    split_list,
)

_NAME = r'[%@](?:"[^"]*"|[-a-zA-Z$._0-9]+)'
_RESULT = re.compile(rf"({_NAME}) = (.*)")
_PARAMETER = re.compile(rf" ({_NAME})$")
_CALLED = re.compile(rf'({_NAME}|asm [^"(]*"[^"]*", "[^"]*")\(')
_LABEL = re.compile(r'("[^"]*"|[-a-zA-Z$._0-9]+):')
_COMMENT = re.compile(r"\s+; .*$")
_CASES = re.compile(r"\[\n[^\]]*\]")
_CASE = re.compile(rf"i\d+ (-?\d+), label ({_NAME})")
_ORDER = r"(?:unordered|monotonic|acquire|release|acq_rel|seq_cst)"
_ORDERING = re.compile(rf'(?:^| )((?:syncscope\("[^"]*"\) )?{_ORDER}(?: {_ORDER})?)(?=,|$)')
_ATOMIC = frozenset(("atomicrmw", "cmpxchg", "fence"))
# An address that is a number, as captured arrays have, unless a constant is counted from it.
_NUMBER = re.compile(r"\bptr inttoptr \((i64 -?\d+) to ptr\)")
_COUNTED = re.compile(r"getelementptr [a-z ]*\(")
# What a part of a list can begin with that is no operand: `label`, `align`, `addrspace` among them.
_NO_OPERAND = frozenset("![la0123456789")
_EXPRESSION = r"(?:getelementptr|inttoptr|ptrtoint|addrspacecast|bitcast|trunc|splat|add|sub|xor)\b"
# What an argument may have between its type and its value.
_ATTRIBUTES = re.compile(
    rf'(?:(?:align \d+|"[^"]*"(?:="[^"]*")?|(?!{_EXPRESSION})[a-z_]+'
    r"(?:\((?:[^()]|\([^()]*\))*\))?) )*"
)
_BEFORE_TYPE = re.compile(
    r"(?:(?:align \d+|cc \d+|[a-z_]*cc|cold|noundef|nonnull|noalias|zeroext|signext|inreg|"
    r"[a-z_]+\([^()]*\)) )*"
)


def read(text: str, name: str) -> Function:
    """The function `name` of a module's text, whose every value and block is named.

    Addresses that are numbers get names too, so that analyses find what an access is of.
    """
    head, *lines = definition(text, name)
    blocks: dict[str, Block] = {}
    addresses: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        return "ptr " + addresses.setdefault(found[1], f"%haulage.address.{len(addresses)}")

    # Only switches are printed over several lines.
    body = _CASES.sub(lambda found: " ".join(found[0].split()), "\n".join(lines[:-1]))
    for line in body.split("\n"):
        if found := _LABEL.match(line):
            block = blocks.setdefault(f"%{found[1]}", Block(f"%{found[1]}"))
        elif line and line[0] != ";":
            if "inttoptr (" in line and not _COUNTED.search(line):
                line = _NUMBER.sub(named, line)
            block.add(read_instruction(line.strip()))
    function = Function(_parameters(head), blocks)
    blocks[function.entry].body[:0] = [
        Instruction("inttoptr", "ptr", name, (_operand(number),))
        for number, name in addresses.items()
    ]
    return function


def definition(text: str, name: str) -> list[str]:
    """The lines of the definition of the function `name` in a module's text."""
    start = definition_start(text, name)
    assert start >= 0, name
    return text[start : text.index("\n}", start) + 2].split("\n")


def _parameters(line: str) -> tuple[Parameter, ...]:
    """The parameters in the first line of a definition."""
    start = line.index("(", line.index("@"))
    listed = line[start + 1 : matching(line, start)]
    return tuple(Parameter(*_PARAMETER.split(item)[:2]) for item in split_list(listed))


def read_instruction(line: str) -> Instruction:
    """One instruction, from its line.

    Raises:
        AssertionError: an instruction that no kernel has.
    """
    line = _COMMENT.sub("", line) if " ; " in line else line
    result, text = None, line
    if line[0] == "%":
        found = _RESULT.match(line)
        assert found is not None, line
        result, text = found[1], found[2]
    opcode, _, rest = text.partition(" ")
    flags: list[str] = []
    if opcode in TAIL_CALLS:
        flags.append(opcode)
        opcode, _, rest = rest.partition(" ")
    while (word := rest.partition(" "))[0] in FLAGS:
        flags.append(word[0])
        rest = word[2]
    assert opcode in FORMS, f"an instruction that kernels do not have: {line}"
    fields: dict[str, Any] = {}
    if flags:
        fields["flags"] = tuple(flags)
    if opcode in _ATOMIC or "atomic" in flags:
        found = _ORDERING.search(rest)
        assert found is not None, line
        fields["ordering"] = found[1]
        rest = (rest[: found.start()] + rest[found.end() :]).removeprefix(", ")
    return _with_fields(opcode, result, _parts(opcode, rest, fields), fields).as_written(line)


def _parts(opcode: str, rest: str, fields: dict[str, Any]) -> list[str]:
    """What is listed behind an opcode; what stands before the list goes to the fields."""
    form = FORMS[opcode]
    if opcode == "call":
        return _call(rest, fields)
    if form.first == "predicate":
        fields["predicate"], _, rest = rest.partition(" ")
    parts = split_list(rest)
    if form.pair:
        parts[1] = f"{first_type(rest)} {parts[1]}"
    elif form.first and form.first != "predicate":
        fields[form.first] = kind = first_type(rest)
        parts[:1] = [parts[0][len(kind) + 1 :]] if len(parts[0]) > len(kind) else []
    elif opcode in CASTS:
        parts[0], _, fields["type"] = parts[0].rpartition(" to ")
    return [] if rest == "void" else parts


def _call(rest: str, fields: dict[str, Any]) -> list[str]:
    found, before = _CALLED.search(rest), _BEFORE_TYPE.match(rest)
    assert found is not None, rest
    assert before is not None
    opening, called = found.end() - 1, found[1]
    closing = matching(rest, opening)
    attributes, *notes = split_list(rest[closing + 1 :]) or [""]
    fields["source_type"] = kind = rest[before.end() : found.start() - 1]
    fields["type"] = first_type(kind)
    fields["callee"] = called[1:].strip('"') if called[0] == "@" else None
    fields |= {"called": called, "convention": before[0].rstrip(), "attributes": attributes}
    return split_list(rest[opening + 1 : closing]) + notes


def _with_fields(
    opcode: str, result: str | None, parts: list[str], fields: dict[str, Any]
) -> Instruction:
    """The instruction of the listed parts, each of which tells what it is."""
    operands: list[Operand] = []
    lists: dict[str, list[Any]] = {}
    for part in parts:
        if part[0] not in _NO_OPERAND:
            operands.append(_argument(part) if opcode == "call" else _operand(part))
        elif part[0] == "!":
            lists.setdefault("metadata", []).append(tuple(part[1:].split(" ", 1)))
        elif part[0] == "[" and opcode == "phi":
            value, label = split_list(part[1:-1])
            operands.append(Operand(fields["type"], value))
            lists.setdefault("sources", []).append(label)
        elif part.startswith("label "):
            label, _, cases = part[6:].partition(" [")
            found = _CASE.findall(cases)
            assert len(found) == cases.count("label "), part
            lists["targets"] = [*lists.get("targets", ()), label, *(case for _, case in found)]
            if cases:
                lists["indices"] = [int(number) for number, _ in found]
        elif part.startswith("align "):
            fields["align"] = int(part[6:])
        elif part.startswith("addrspace("):
            fields["attributes"] = part
        elif part.isdigit():
            lists.setdefault("indices", []).append(int(part))
        else:
            operands.append(_operand(part))
    fields |= {name: tuple(each) for name, each in lists.items()}
    kind = fields.pop("type", None) or FORMS[opcode].kind(operands, fields.get("indices", ()))
    return Instruction(opcode, kind, result, tuple(operands), **fields)


def _operand(text: str) -> Operand:
    """An operand as `type value`."""
    kind = first_type(text)
    return Operand(kind, text[len(kind) + 1 :])


def _argument(text: str) -> Operand:
    """An argument as `type attributes value`."""
    operand = _operand(text)
    found = _ATTRIBUTES.match(operand.text) if " " in operand.text else None
    if not found:
        return operand
    return Operand(operand.type, operand.text[found.end() :], found[0].rstrip())
