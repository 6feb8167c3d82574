"""What a function's bytecode reads by name."""

import dis
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType

_GLOBAL = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"))
_CELL = frozenset(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"))
_ATTRIBUTE = frozenset(("LOAD_ATTR", "LOAD_METHOD"))

# The attributes read one after another from a name: ("shared", "array").
Chain = tuple[str, ...]


@dataclass
class Names:
    """`globals` and `cells`: each name that is read, with the chains of attributes that follow it.

    An empty chain says that the value is used as it is, or put into a variable. `attributes` is
    every attribute's name that occurs.
    """

    globals: dict[str, set[Chain]] = field(default_factory=dict)
    cells: dict[str, set[Chain]] = field(default_factory=dict)
    attributes: set[str] = field(default_factory=set)


def names_of(code: CodeType) -> Names:
    """The names that a function's code and that of the functions in it read."""
    names = Names()
    for each in codes_of(code):
        names.attributes.update(each.co_names)
        # Before a name with a large number stands another instruction.
        instructions = [at for at in dis.get_instructions(each) if at.opname != "EXTENDED_ARG"]
        for at, instruction in enumerate(instructions):
            if instruction.opname in _GLOBAL:
                found = names.globals
            elif instruction.opname in _CELL:
                found = names.cells
            else:
                continue
            chain: list[str] = []
            for following in instructions[at + 1 :]:
                if following.opname not in _ATTRIBUTE:
                    break
                chain.append(following.argval)
            found.setdefault(instruction.argval, set()).add(tuple(chain))
    return names


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """A code object and those among its constants, the outer ones first."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)
