"""Reads functions from their text as LLVM prints it.

Asking LLVM instead takes a call from Python for each operand of each instruction, several times as
long for a whole kernel.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Required, TypedDict

from haulage.compiler.definitions import definition_start
from haulage.compiler.simt.ir.model import Block, Function, Instruction, Operand, Parameter
from haulage.compiler.simt.ir.types import (
    BINARY,
    CASTS,
    COMPARISONS,
    FLAGS,
    TERMINATORS,
    UNARY,
    element_type,
    first_type,
    last_type,
    like,
    matching,
    split_list,
)

_NAME = r'[%@](?:"[^"]*"|[-a-zA-Z$._0-9]+)'
_RESULT = re.compile(rf"({_NAME}) = (.*)")
_PARAMETER = re.compile(rf" ({_NAME})$")
_CALLEE = re.compile(rf"({_NAME})\(")
_LABEL = re.compile(r'("[^"]*"|[-a-zA-Z$._0-9]+):')
_COMMENT = re.compile(r"\s+; .*$")
_METADATA = re.compile(r", !([\w.]+) (!\d+)$")
_SPACE = re.compile(r", (addrspace\(\d+\))$")
_ALIGN = re.compile(r", align (\d+)$")
_ORDERING = re.compile(r' ((?:syncscope\("[^"]*"\) )?(?:[a-z]+(?:_[a-z]+)* ?){0,2})$')
_INCOMING = re.compile(rf"\[ ([^\[\],]+), ({_NAME}) \]")
# An address that is a number, as captured arrays have, unless a constant is counted from it.
_NUMBER = re.compile(r"\bptr inttoptr \((i64 -?\d+) to ptr\)")
_COUNTED = re.compile(r"getelementptr [a-z ]*\(")
# What an argument may have between its type and its value.
_ATTRIBUTE = re.compile(
    r'(?:align \d+|"[^"]*"(?:="[^"]*")?|(?!(?:true|false|null|undef|poison|none|zeroinitializer)'
    r"(?:$|[ ,]))[a-z_]+(?P<open>\()?) ?"
)
_EXPRESSIONS = (
    "getelementptr",
    "inttoptr",
    "ptrtoint",
    "addrspacecast",
    "bitcast",
    "trunc",
    "splat",
)
_BEFORE_TYPE = re.compile(
    r"(?:align \d+|cc \d+|[a-z_]*cc|cold|noundef|nonnull|noalias|zeroext|signext|inreg|"
    r"[a-z_]+\([^()]*\)) "
)


def read(text: str, name: str) -> Function:
    """The function `name` of a module's text, whose every value and block is named.

    Addresses that are numbers get names too, so that analyses find what an access is of.
    """
    lines = definition(text, name)
    blocks: dict[str, Block] = {}
    block = Block("")
    addresses: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        return "ptr " + addresses.setdefault(found[1], f"%haulage.address.{len(addresses)}")

    with_names = (
        _NUMBER.sub(named, line) if "inttoptr (" in line and not _COUNTED.search(line) else line
        for line in lines[1:-1]
    )
    for label, instruction in read_lines(with_names):
        if instruction is None:
            assert label is not None
            block = blocks[label] = Block(label)
        elif instruction.is_phi:
            block.phis.append(instruction)
        elif instruction.opcode in TERMINATORS:
            block.terminator = instruction
        else:
            block.body.append(instruction)
    function = Function(_parameters(lines[0]), blocks)
    if addresses:
        blocks[function.entry].body[:0] = [
            Instruction("inttoptr", "ptr", name, (_typed(number),))
            for number, name in addresses.items()
        ]
    return function


def read_lines(lines: Iterable[str]) -> Iterator[tuple[str | None, Instruction | None]]:
    """(label, None) for each line that begins a block, (None, instruction) for others."""
    switch = ""
    for line in lines:
        for each in line.split("\n"):
            if not each or each[0] == ";":
                continue
            # Only switches are printed over several lines.
            if switch or (each[-1] == "[" and each[0] == " "):
                switch += f" {each.strip()}"
                if "]" in each:
                    yield None, read_instruction(switch.strip())
                    switch = ""
                continue
            if each[0] == " ":
                yield None, read_instruction(each.strip())
                continue
            found = _LABEL.match(each)
            assert found is not None, each
            yield "%" + found[1], None


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
    text = _COMMENT.sub("", line) if " ; " in line else line
    result = None
    if text[0] == "%":
        found = _RESULT.match(text)
        assert found is not None, line
        result, text = found[1], found[2]
    metadata: list[tuple[str, str]] = []
    while "!" in text and (note := _METADATA.search(text)):
        metadata.insert(0, (note[1], note[2]))
        text = text[: note.start()]
    opcode, _, rest = text.partition(" ")
    words: list[str] = []
    if opcode in ("tail", "musttail", "notail"):
        words.append(opcode)
        opcode, _, rest = rest.partition(" ")
    while (word := rest.partition(" "))[0] in FLAGS:
        words.append(word[0])
        rest = word[2]
    read_form = _FORMS.get(opcode)
    assert read_form is not None, f"an instruction that kernels do not have: {line}"
    align, space = 0, ""
    if opcode == "alloca" and rest.endswith(")") and (found := _SPACE.search(rest)):
        rest, space = rest[: found.start()], found[1]
    if ", align " in rest and opcode != "call":
        aligned = _ALIGN.search(rest)
        assert aligned is not None, line
        align, rest = int(aligned[1]), rest[: aligned.start()]
    fields = read_form(rest, opcode)
    if space:
        fields["attributes"] = space
    return Instruction(
        opcode, result=result, flags=tuple(words), align=align, metadata=tuple(metadata), **fields
    )


def _typed(text: str) -> Operand:
    """An operand as `type value`."""
    kind = first_type(text)
    return Operand(kind, text[len(kind) + 1 :])


def _argument(text: str) -> Operand:
    """An operand as `type attributes value`."""
    kind = first_type(text)
    rest = text[len(kind) + 1 :]
    if " " not in rest:
        return Operand(kind, rest)
    start = 0
    while found := _ATTRIBUTE.match(rest, start):
        if rest.startswith(_EXPRESSIONS, start) or found.end() >= len(rest):
            break
        start = found.end()
        if found["open"]:
            start = matching(rest, found.end("open") - 1) + 2
    return Operand(kind, rest[start:], rest[: max(0, start - 1)])


class _Fields(TypedDict, total=False):
    """What the text behind an opcode tells of an instruction."""

    type: Required[str]
    operands: tuple[Operand, ...]
    predicate: str
    targets: tuple[str, ...]
    sources: tuple[str, ...]
    source_type: str
    callee: str | None
    called: str
    indices: tuple[int, ...]
    ordering: str
    convention: str
    attributes: str


def _binary(rest: str, opcode: str) -> _Fields:
    kind = first_type(rest)
    left, right = _two(rest[len(kind) + 1 :])
    return {"type": kind, "operands": (Operand(kind, left), Operand(kind, right))}


def _two(text: str) -> list[str]:
    parts = text.split(", ")
    return parts if len(parts) == 2 else split_list(text)


def _unary(rest: str, opcode: str) -> _Fields:
    operand = _typed(rest)
    return {"type": operand.type, "operands": (operand,)}


def _cast(rest: str, opcode: str) -> _Fields:
    source, _, kind = rest.rpartition(" to ")
    return {"type": kind, "operands": (_typed(source),)}


def _comparison(rest: str, opcode: str) -> _Fields:
    predicate, _, rest = rest.partition(" ")
    fields = _binary(rest, opcode)
    return {**fields, "type": like(fields["type"], "i1"), "predicate": predicate}


def _select(rest: str, opcode: str) -> _Fields:
    operands = tuple(map(_typed, split_list(rest)))
    return {"type": operands[1].type, "operands": operands}


def _phi(rest: str, opcode: str) -> _Fields:
    kind = first_type(rest)
    pairs = _INCOMING.findall(rest, len(kind))
    if len(pairs) != rest.count(" ], [ ") + 1:
        listed = [part[1:-1].strip() for part in split_list(rest[len(kind) + 1 :])]
        pairs = [tuple(part.rsplit(", ", 1)) for part in listed]
    return {
        "type": kind,
        "operands": tuple(Operand(kind, value) for value, _ in pairs),
        "sources": tuple(label for _, label in pairs),
    }


def _ordered(rest: str) -> tuple[str, str]:
    """(operands, ordering with its scope) of an atomic operation."""
    found = _ORDERING.search(rest)
    assert found is not None, rest
    return rest[: found.start()], found[1]


def _load(rest: str, opcode: str) -> _Fields:
    kind = first_type(rest)
    address = rest[len(kind) + 2 :]
    ordering = ""
    if not address.startswith("ptr ") or " " in address[4:]:
        address, ordering = _maybe_ordered(address)
    return {"type": kind, "operands": (_typed(address),), "ordering": ordering}


def _maybe_ordered(address: str) -> tuple[str, str]:
    operand = _argument(address)
    if operand.text[0] in "%@" and " " in operand.text and operand.text[1] != '"':
        return _ordered(address)
    found = _ORDERING.search(address)
    return (
        (address[: found.start()], found[1]) if found and found[1] in _ORDERINGS else (address, "")
    )


_ORDERINGS = frozenset(
    scope + word
    for scope in ("", 'syncscope("singlethread") ')
    for word in ("unordered", "monotonic", "acquire", "release", "acq_rel", "seq_cst")
)


def _store(rest: str, opcode: str) -> _Fields:
    value, address = _two(rest)
    ordering = ""
    if " " in address.removeprefix("ptr "):
        address, ordering = _maybe_ordered(address)
    return {"type": "void", "operands": (_typed(value), _typed(address)), "ordering": ordering}


def _fence(rest: str, opcode: str) -> _Fields:
    return {"type": "void", "ordering": rest}


def _atomic_operation(rest: str, opcode: str) -> _Fields:
    predicate, _, rest = rest.partition(" ")
    listed, ordering = _ordered(rest)
    operands = tuple(map(_typed, _two(listed)))
    return {
        "type": operands[1].type,
        "operands": operands,
        "predicate": predicate,
        "ordering": ordering,
    }


def _compare_and_swap(rest: str, opcode: str) -> _Fields:
    listed, ordering = _ordered(rest)
    operands = tuple(map(_typed, split_list(listed)))
    return {
        "type": f"{{ {operands[1].type}, i1 }}",
        "operands": operands,
        "ordering": ordering,
    }


def _element_address(rest: str, opcode: str) -> _Fields:
    kind = first_type(rest)
    operands = tuple(map(_typed, split_list(rest[len(kind) + 2 :])))
    vector = next((operand.type for operand in operands if operand.type[0] == "<"), "i64")
    return {"type": like(vector, "ptr"), "operands": operands, "source_type": kind}


def _allocation(rest: str, opcode: str) -> _Fields:
    kind, *others = split_list(rest)
    return {"type": "ptr", "source_type": kind, "operands": tuple(map(_typed, others))}


def _extract(rest: str, opcode: str) -> _Fields:
    aggregate, *indices = split_list(rest)
    operand, places = _typed(aggregate), tuple(map(int, indices))
    kind = element_type(operand.type, places)
    return {"type": kind, "operands": (operand,), "indices": places}


def _insert(rest: str, opcode: str) -> _Fields:
    aggregate, value, *indices = split_list(rest)
    operands = _typed(aggregate), _typed(value)
    return {"type": operands[0].type, "operands": operands, "indices": tuple(map(int, indices))}


def _vector_operation(rest: str, opcode: str) -> _Fields:
    operands = tuple(map(_typed, split_list(rest)))
    kind = operands[0].type
    if opcode == "extractelement":
        kind = element_type(kind, (0,))
    elif opcode == "shufflevector":
        kind = like(operands[2].type, element_type(kind, (0,)))
    return {"type": kind, "operands": operands}


def _call(rest: str, opcode: str) -> _Fields:
    assembly = rest.find(" asm ") if '"' in rest else -1
    if 0 <= assembly < rest.index('"'):
        start = assembly + 1
        # Two strings, and the arguments.
        opening = rest.index("(", rest.index('"', rest.index('", "', start) + 3) + 1)
    else:
        found = _CALLEE.search(rest)
        assert found is not None, rest
        start, opening = found.start(), found.end() - 1
    before, called = rest[: start - 1], rest[start:opening]
    closing = matching(rest, opening)
    convention = ""
    while (found := _BEFORE_TYPE.match(before)) is not None:
        convention += found[0]
        before = before[found.end() :]
    name = called[1:].strip('"') if called[0] == "@" else None
    return {
        "type": last_type(before),
        "operands": tuple(map(_argument, split_list(rest[opening + 1 : closing]))),
        "source_type": before,
        "callee": name,
        "called": called,
        "convention": convention.strip(),
        "attributes": rest[closing + 2 :],
    }


def _branch(rest: str, opcode: str) -> _Fields:
    parts = rest.split(", ")
    operands = () if len(parts) == 1 else (_typed(parts.pop(0)),)
    return {
        "type": "void",
        "operands": operands,
        "targets": tuple(part.removeprefix("label ") for part in parts),
    }


def _switch(rest: str, opcode: str) -> _Fields:
    value, _, rest = rest.partition(", label ")
    default, _, listed = rest.partition("[")
    operand = _typed(value)
    cases = [
        case.split(", label ")
        for case in listed.rstrip(" ]").split(operand.type + " ")
        if case.strip()
    ]
    return {
        "type": "void",
        "operands": (operand,),
        "targets": (default.strip(), *(label.strip() for _, label in cases)),
        "indices": tuple(int(number) for number, _ in cases),
    }


def _return(rest: str, opcode: str) -> _Fields:
    return {"type": "void", "operands": () if rest == "void" else (_typed(rest),)}


def _unreachable(rest: str, opcode: str) -> _Fields:
    return {"type": "void"}


_FORMS: dict[str, Callable[[str, str], _Fields]] = {
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(UNARY, _unary),
    **dict.fromkeys(CASTS, _cast),
    **dict.fromkeys(COMPARISONS, _comparison),
    "select": _select,
    "phi": _phi,
    "load": _load,
    "store": _store,
    "fence": _fence,
    "atomicrmw": _atomic_operation,
    "cmpxchg": _compare_and_swap,
    "getelementptr": _element_address,
    "alloca": _allocation,
    "extractvalue": _extract,
    "insertvalue": _insert,
    **dict.fromkeys(("extractelement", "insertelement", "shufflevector"), _vector_operation),
    "call": _call,
    "br": _branch,
    "switch": _switch,
    "ret": _return,
    "unreachable": _unreachable,
}
