"""Reads the model of a function from its text as LLVM prints it.

Asking LLVM instead takes a call from Python for each operand of each instruction, several times as
long for a whole kernel.
"""

import re

from haulage.compiler.definitions import definition_start
from haulage.compiler.simt.ir.model import Block, Function, Instruction, Parameter
from haulage.compiler.simt.ir.types import result_type, split_list

_VALUE = r'%(?:"[^"]*"|[-a-zA-Z$._0-9]+)'
_RESULT = re.compile(rf"({_VALUE}) = (.*)")
# Labels, values, and texts in which something may look like one.
_OPERAND = re.compile(rf'label ({_VALUE})|({_VALUE})|"[^"]*"')
_PARAMETER = re.compile(rf" ({_VALUE})$")
_CALLEE = re.compile(r'@(?:"([^"]*)"|([-a-zA-Z$._0-9]+))\(')
_CALLS = ("tail call", "musttail call", "notail call")
_LABEL = re.compile(r'("[^"]*"|[-a-zA-Z$._0-9]+):')
_COMMENT = re.compile(r"\s+; .*$")
# An address that is a number, as captured arrays have, unless a constant is counted from it.
_NUMBER = re.compile(r"\bptr inttoptr \((i64 -?\d+) to ptr\)")
_COUNTED = re.compile(r"getelementptr [a-z ]*\(")
_ENDS = frozenset(("br", "switch", "ret", "unreachable"))


def read(text: str, name: str) -> Function:
    """The model of the function `name` of a module's text, whose every value and block is named.

    Addresses that are numbers get names too, so that analyses find what an access is of.
    """
    lines = definition(text, name)
    blocks: dict[str, Block] = {}
    block = Block("")
    addresses: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        return "ptr " + addresses.setdefault(found[1], f"%haulage.address.{len(addresses)}")

    for line in lines[1:-1]:
        if not line or line[0] == ";":
            continue
        if line[0] != " ":
            found = _LABEL.match(line)
            assert found is not None, line
            block = blocks["%" + found[1]] = Block("%" + found[1])
            continue
        if "inttoptr (" in line and not _COUNTED.search(line):
            line = _NUMBER.sub(named, line)
        instruction = read_instruction(line.strip())
        if instruction.is_phi:
            block.phis.append(instruction)
        elif instruction.opcode in _ENDS:
            block.terminator = instruction
        else:
            block.body.append(instruction)
    function = Function(_parameters(lines[0]), blocks)
    if addresses:
        made = [
            read_instruction(f"{name} = inttoptr {number} to ptr")
            for number, name in addresses.items()
        ]
        blocks[function.entry].body[:0] = made
    return function


def definition(text: str, name: str) -> list[str]:
    """The lines of the definition of the function `name` in a module's text."""
    start = definition_start(text, name)
    assert start >= 0, name
    return text[start : text.index("\n}", start) + 2].split("\n")


def _parameters(line: str) -> tuple[Parameter, ...]:
    """The parameters in the first line of a definition."""
    start = line.index("(", line.index("@"))
    depth, end = 0, start
    for end in range(start, len(line)):
        depth += {"(": 1, ")": -1}.get(line[end], 0)
        if depth == 0:
            break
    return tuple(
        Parameter(*_PARAMETER.split(item)[:2]) for item in split_list(line[start + 1 : end])
    )


def read_instruction(line: str) -> Instruction:
    """One instruction, from its line."""
    # Debug locations and other notes of the text stay; comments do not.
    text = _COMMENT.sub("", line) if " ; " in line else line
    result, rest = None, text
    if text[0] == "%":
        found = _RESULT.match(text)
        assert found is not None, line
        result, rest = found[1], found[2]
    if rest.startswith(_CALLS):
        rest = rest.split(" ", 1)[1]
    opcode, _, rest = rest.partition(" ")
    kind = result_type(opcode, rest)
    if opcode == "phi":
        incoming = _phi_sources(rest)
        operands = tuple(value for value, _ in incoming if value[0] == "%")
        return Instruction(text, opcode, kind, result, operands, None, incoming)
    callee = None
    if opcode == "call":
        called = _CALLEE.search(rest)
        callee = (called[1] or called[2]) if called else None
    named = _OPERAND.findall(rest)
    operands = tuple(value for _, value in named if value)
    targets = tuple(label for label, _ in named if label) if opcode in _ENDS else ()
    return Instruction(text, opcode, kind, result, operands, callee, (), targets)


def _phi_sources(text: str) -> tuple[tuple[str, str], ...]:
    """(value, label) pairs of a phi; a value may itself hold brackets."""
    pairs = []
    start = text.find("[ ")
    while start >= 0:
        depth, end = 0, start
        for end in range(start, len(text)):
            depth += {"[": 1, "]": -1}.get(text[end], 0)
            if depth == 0:
                break
        value, label = text[start + 2 : end].rsplit(",", 1)
        pairs.append((value.strip(), label.strip()))
        start = text.find("[ ", end)
    return tuple(pairs)
