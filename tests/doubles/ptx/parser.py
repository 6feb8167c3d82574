"""Reads PTX text. Source of the grammar: NVIDIA, PTX ISA, chapters 4, 5, 7, 10 and 11."""

import re
import struct

from doubles.ptx.syntax import (
    TYPES,
    Address,
    Float,
    Function,
    Instruction,
    Integer,
    Label,
    List,
    Module,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Type,
    Variable,
    Vector,
)
from doubles.ptx.tokens import Tokens

_SPACES = ("global", "const", "shared", "local", "param")
_LINKAGE = (".visible", ".extern", ".weak", ".common")
_LIMITS = (
    *("maxntid", "reqntid", "minnctapersm", "maxnreg", "maxnctapersm"),
    "maxclusterrank",
)
SPECIAL = re.compile(
    r"%(?:(?:n?tid|n?ctaid|nctaid)\.[xyz]|laneid|n?warpid|n?smid|gridid|envreg[12]|lanemask_(?:eq|le|lt|ge|gt)"
    r"|clock(?:64|_hi)?|globaltimer(?:_lo|_hi)?|dynamic_smem_size|total_smem_size)$|WARP_SZ$"
)


class Parser(Tokens):
    """One text on its way to a `Module`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._module = Module()
        self._function: Function | None = None
        # Scopes of names in a function: register or variable -> its unique name.
        self._scopes: list[dict[str, str]] = []

    # ---- the module ------------------------------------------------------------------------------

    def module(self) -> Module:
        """All of the text."""
        while self.kind != "end":
            if self.takes(".version"):
                self._module.version = self.take()
            elif self.takes(".target"):
                self._module.target = self.take()
                while self.takes(","):
                    self.take()
            elif self.takes(".address_size"):
                if self.take() != "64":
                    raise self.error("addresses that are not of 64 bits")
            elif self.takes(".section"):
                self.take()
                self.skip("{", "}")
            elif self.takes(".pragma"):
                self.skip_statement()
            else:
                self._declaration()
        return self._module

    def _declaration(self) -> None:
        extern = False
        while self.word in _LINKAGE:
            extern |= self.take() == ".extern"
        if self.takes(".entry"):
            self._function_definition(is_entry=True)
        elif self.takes(".func"):
            self._function_definition(is_entry=False)
        elif self.word[1:] in _SPACES:
            for variable in self._variables(self.take()[1:], extern):
                known = self._module.variables.get(variable.name)
                if known is None or known.extern:
                    self._module.variables[variable.name] = variable
            self.take(";")
        else:
            raise self.error(f"{self.word!r} is no directive that is known here")

    def _function_definition(self, *, is_entry: bool) -> None:
        returns: tuple[Variable, ...] = ()
        if self.word == "(":
            returns = self._parameters()
        name = self.take()
        parameters = self._parameters() if self.word == "(" else ()
        function = Function(name, is_entry, returns, parameters)
        while self.word.startswith("."):
            self._function_directive(function)
        if self.takes(";"):
            self._module.functions.setdefault(name, function)
            return
        self._module.functions[name] = function
        self._function = function
        self._scopes = [{each.name: each.name for each in (*returns, *parameters)}]
        function.body = []
        self.take("{")
        self._statements(function)
        self._function = None

    def _function_directive(self, function: Function) -> None:
        name = self.take()[1:]
        if name in _LIMITS:
            sizes = [int(self.take())]
            while self.takes(","):
                sizes.append(int(self.take()))
            function.limits[name] = tuple(sizes)
        elif name == "pragma":
            self.skip_statement()
        elif name != "noreturn":
            raise self.error(f".{name} of a function is not known here")

    def _parameters(self) -> tuple[Variable, ...]:
        found: list[Variable] = []
        self.take("(")
        while not self.takes(")"):
            space = self.take()[1:]
            if space == "reg":
                raise self.error("a parameter in a register")
            found += self._variables("param", False)
            self.takes(",")
        return tuple(found)

    # ---- variables -------------------------------------------------------------------------------

    def _variables(self, space: str, extern: bool) -> list[Variable]:
        """Variables of one declaration, behind its space."""
        align, vector = 0, 1
        kind: Type | None = None
        while self.kind == "part":
            word = self.take()[1:]
            if word == "align":
                align = int(self.take())
            elif word in ("v2", "v4"):
                vector = int(word[1])
            elif word == "ptr":
                while self.word in (".global", ".shared", ".const", ".local", ".align"):
                    if self.take() == ".align":
                        self.take()
            elif word == "attribute":
                self.skip("(", ")")
            elif word in TYPES:
                kind = Type(word)
            else:
                raise self.error(f".{word} of a variable is not known here")
        if kind is None:
            raise self.error("a variable without a type")
        size = max(1, kind.bits // 8) * vector
        found = []
        while True:
            name = self.take()
            if space != "param" or self._function:
                name = self._named(name)
            nbytes = size
            while self.takes("["):
                count = 0 if self.word == "]" else int(self.take(), 0)
                nbytes *= count
                self.take("]")
            values = tuple(self._initialiser()) if self.takes("=") else None
            if values is not None and not nbytes:
                nbytes = size * len(values)
            found.append(
                Variable(name, space, kind, max(align, size), nbytes, values, extern or not nbytes)
            )
            if space == "param" and not self._function:
                return found
            if not self.takes(","):
                return found

    def _named(self, name: str) -> str:
        """A unique name for one that a function's scope begins to have."""
        if self._function is None:
            return name
        unique = name
        taken = {*self._function.registers, *self._function.locals}
        number = 1
        while unique in taken or any(unique in scope.values() for scope in self._scopes):
            number += 1
            unique = f"{name}#{number}"
        self._scopes[-1][name] = unique
        return unique

    def _initialiser(self) -> list[Operand]:
        if self.takes("{"):
            values: list[Operand] = []
            while not self.takes("}"):
                values += self._initialiser()
                self.takes(",")
            return values
        if self.kind == "word" and self.word == "generic":
            self.take()
            self.take("(")
            (value,) = self._initialiser()
            self.take(")")
            if self.takes("+"):
                assert isinstance(value, Symbol)
                value = Symbol(value.name, value.offset + int(self.take(), 0))
            return [value]
        return [self._operand()]

    # ---- bodies ----------------------------------------------------------------------------------

    def _statements(self, function: Function) -> None:
        """Everything up to the brace that closes this scope."""
        while not self.takes("}"):
            if self.takes("{"):
                self._scopes.append({})
                self._statements(function)
                self._scopes.pop()
            elif self.kind == "part":
                self._directive(function)
            elif self.kind == "word" and self.after[1] == ":":
                self._label(function)
            else:
                function.body.append(self._instruction())  # type: ignore[union-attr]

    def _directive(self, function: Function) -> None:
        name = self.take()[1:]
        if name == "reg":
            self._registers(function)
        elif name in ("local", "param"):
            for variable in self._variables(name, False):
                function.locals[variable.name] = variable
        elif name in ("shared", "global", "const"):
            for variable in self._variables(name, False):
                outer = f"{function.name}::{variable.name}"
                # Everything that lasts is the module's.
                for known, unique in self._scopes[-1].items():
                    if unique == variable.name:
                        self._scopes[-1][known] = outer
                        break
                self._module.variables[outer] = Variable(
                    outer,
                    variable.space,
                    variable.type,
                    variable.align,
                    variable.nbytes,
                    variable.values,
                    variable.extern,
                )
        elif name == "pragma":
            self.skip_statement()
            return
        else:
            raise self.error(f".{name} is no directive that is known here")
        self.take(";")

    def _registers(self, function: Function) -> None:
        word = self.take()[1:]
        if word not in TYPES:
            raise self.error(f".reg .{word} is not known here")
        kind = Type(word)
        while True:
            name = self.take()
            if self.takes("<"):
                count = int(self.take())
                self.take(">")
                if len(self._scopes) == 1:
                    # The usual case, without the search for a name that is not taken.
                    names = [f"{name}{number}" for number in range(count)]
                    function.registers.update(dict.fromkeys(names, kind))
                    self._scopes[0].update(zip(names, names, strict=True))
                else:
                    for number in range(count):
                        function.registers[self._named(f"{name}{number}")] = kind
            else:
                function.registers[self._named(name)] = kind
            if not self.takes(","):
                return

    def _label(self, function: Function) -> None:
        name = self.take()
        self.take(":")
        if self.takes(".branchtargets"):
            labels = [self.take()]
            while self.takes(","):
                labels.append(self.take())
            self.take(";")
            function.tables[name] = tuple(labels)
        elif self.takes(".callprototype"):
            self.skip_statement()
            self._scopes[0][name] = name
        else:
            function.body.append(Label(name))  # type: ignore[union-attr]

    def _instruction(self) -> Instruction:
        line = self.line
        guard = None
        if self.takes("@"):
            negated = self.takes("!")
            operand = self._operand()
            if not isinstance(operand, Register):
                raise self.error(f"{operand} guards an instruction")
            guard = Register(operand.name, negated)
        if self.kind != "word":
            raise self.error(f"{self.word!r}, where an instruction has to be")
        parts = [self.take()]
        while self.kind == "part":
            parts.append(self.take()[1:])
        operands: list[Operand] = []
        while self.word != ";":
            operands.append(self._operand())
            if self.word not in (",", ";"):
                raise self.error(f"{self.word!r} behind an operand of {'.'.join(parts)}")
            self.takes(",")
        self.take(";")
        return Instruction(tuple(parts), tuple(operands), guard, line)

    # ---- operands --------------------------------------------------------------------------------

    def _operand(self) -> Operand:
        first = self._single()
        if self.takes("|"):
            return Pair(first, self._single())
        return first

    def _several(self, closing: str) -> tuple[Operand, ...]:
        found: list[Operand] = []
        while not self.takes(closing):
            found.append(self._operand())
            self.takes(",")
        return tuple(found)

    def _single(self) -> Operand:
        if self.takes("["):
            base = self._single()
            offset = 0
            while self.word in ("+", "-"):
                sign = -1 if self.take() == "-" else 1
                offset += sign * self._number()
            if isinstance(base, Symbol) and base.offset:
                base, offset = Symbol(base.name), offset + base.offset
            self.take("]")
            return Address(base, offset)
        if self.takes("{"):
            return Vector(self._several("}"))
        if self.takes("("):
            return List(self._several(")"))
        if self.takes("!"):
            operand = self._single()
            if not isinstance(operand, Register):
                raise self.error(f"the opposite of {operand}")
            return Register(operand.name, not operand.negated)
        if self.takes("-"):
            if self.kind == "float":
                constant = self._float()
                return Float(constant.bits ^ 1 << (constant.width - 1), constant.width)
            return Integer(-self._number())
        if self.kind == "float":
            return self._float()
        if self.kind == "integer":
            return Integer(self._number())
        if self.kind == "word":
            return self._name()
        raise self.error(f"{self.word!r}, where an operand has to be")

    def _number(self) -> int:
        sign = -1 if self.takes("-") else 1
        word = self.take().rstrip("U")
        if len(word) > 1 and word[0] == "0" and word.isdigit():
            return sign * int(word, 8)
        return sign * int(word, 0)

    def _float(self) -> Float:
        word = self.take()
        if word[1] in "fF":
            return Float(int(word[2:], 16), 32)
        if word[1] in "dD":
            return Float(int(word[2:], 16), 64)
        return Float(int.from_bytes(struct.pack("<d", float(word)), "little"), 64)

    def _name(self) -> Operand:
        word = self.take()
        if word == "_":
            return Sink()
        for scope in reversed(self._scopes if self._function else []):
            if word in scope:
                unique = scope[word]
                if self._function and unique in self._function.registers:
                    return Register(unique)
                return self._symbol(unique)
        if word.startswith("%") and self.kind == "part":
            word += self.take()
        if SPECIAL.match(word):
            return Special(word)
        if word.startswith("%"):
            raise self.error(f"{word} is no register that is known here")
        return self._symbol(word)

    def _symbol(self, name: str) -> Symbol:
        offset = 0
        while self.word in ("+", "-") and self.after[0] == "integer":
            offset += (-1 if self.take() == "-" else 1) * self._number()
        return Symbol(name, offset)


def parse(text: str) -> Module:
    """The module of a text.

    Raises:
        PTXError: with the line of what is not known.
    """
    return Parser(text.rstrip("\0")).module()
