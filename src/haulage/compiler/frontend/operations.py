"""The operation of a program that Numba could not type or lower: its operands, as the program
writes them, and their types."""

import ast
import functools
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from numba.core import errors, ir, typeinfer
from numba.core.utils import BINOPS_TO_OPERATORS, INPLACE_BINOPS_TO_OPERATORS

# The attribute of an exception that has the operation, and the one that has the function.
_NOTED = "haulage_operation"
_FUNCTION = "haulage_function"

_SYMBOLS = {function: symbol for symbol, function in BINOPS_TO_OPERATORS.items()}
_IN_PLACE = {function: symbol for symbol, function in INPLACE_BINOPS_TO_OPERATORS.items()}
_UNARY = {operator.neg: "-", operator.pos: "+", operator.invert: "~", operator.not_: "not "}

# A variable of a function that Numba put in the place of its call.
_INLINED = re.compile(r"\w+_v\d+_(?P<name>\w+)")

# Text of longer expressions would be no help.
_DEEPEST = 8


@dataclass(frozen=True)
class Operand:
    """A value in a program.

    `kind`: its Numba type, None if that is not known. `text`: how the program writes it.
    `origin`: Numba's IR of what it is the value of, None if there are several.
    """

    kind: Any
    text: str
    origin: Any = None
    source: Any = field(default=None, repr=False, compare=False)

    @property
    def parameter(self) -> str | None:
        """The name of the parameter that it is, if it is one."""
        return str(self.origin.name) if isinstance(self.origin, ir.Arg) else None

    @property
    def captured(self) -> str | None:
        """The name of the global or closure variable that it is, if it is one."""
        return self.origin.name if isinstance(self.origin, (ir.Global, ir.FreeVar)) else None

    @property
    def is_name(self) -> bool:
        """Whether the program has a name for it."""
        return self.text.isidentifier()

    def called(self) -> "Operand | None":
        """The function that it is the result of."""
        return self._part("call", "func")

    def parts(self) -> "tuple[Operand, ...]":
        """The operands of the arithmetic, or the items of the tuple, that it is made by."""
        if not isinstance(self.origin, ir.Expr):
            return ()
        if self.origin.op in ("binop", "inplace_binop"):
            return tuple(map(self.source.operand, (self.origin.lhs, self.origin.rhs)))
        if self.origin.op == "build_tuple":
            return tuple(map(self.source.operand, self.origin.items))
        return ()

    def owner(self, attribute: str) -> "Operand | None":
        """What it is the attribute of, if it is one of that name."""
        found = self._part("getattr", "value")
        return found if found is not None and self.origin.attr == attribute else None

    def operator(self) -> Any:
        """The function of the arithmetic that it is made by, None if it is of none."""
        if isinstance(self.origin, ir.Expr) and self.origin.op in ("binop", "inplace_binop"):
            return _function_of(self.origin)
        return None

    def _part(self, op: str, name: str) -> "Operand | None":
        if isinstance(self.origin, ir.Expr) and self.origin.op == op:
            return self.source.operand(getattr(self.origin, name))
        return None


@dataclass(frozen=True)
class Operation:
    """What a program asks for in one place.

    `name` is one of "getitem", "setitem", "getattr", "setattr", "call", "operator", "iterate",
    "unpack" and "whole arrays", which is arithmetic on these. `operands`: for an item the array,
    the index and the value that it is set to; for an attribute the owner and the value; for a call
    the function and its arguments. `detail`: the attribute's name, the operator's function, the
    number of names. `text`: how the program writes it; `symbol` is the operator's.
    """

    name: str
    operands: tuple[Operand, ...]
    detail: Any = None
    keywords: dict[str, Operand] = field(default_factory=dict)
    text: str = ""
    symbol: str = ""


def _noting(note: Callable[..., None]) -> Callable[..., None]:
    """What is wrong with a note must not take the place of what is wrong with the program."""

    @functools.wraps(note)
    def noted(error: BaseException, *args: Any) -> None:
        try:
            note(error, *args)
        except Exception as failed:
            error.add_note(f"What it is about could not be found out: {failed!r}")

    return noted


@_noting
def note_typing(error: BaseException, function: Any) -> None:
    """Note on an error of type inference which operation of `function` it is about."""
    _keep(error, _FUNCTION, function)
    inferer = next((v for v in _locals(error) if isinstance(v, typeinfer.TypeInferer)), None)
    if inferer is None or not isinstance(error, errors.TypingError):
        if inferer is not None:
            _note_constraint(error, error, inferer)
        return
    # Numba collects errors, and raises another in their place, without what led to it.
    for constraint in inferer.constraints.constraints:
        try:
            constraint(inferer)
        except Exception as cause:
            # What follows counts candidates, of which there are more each time.
            if str(cause).strip().partition("\n")[0] in str(error):
                _note_constraint(error, cause, inferer, constraint)
            return


@_noting
def note_lowering(error: BaseException, lower: Any, statement: Any) -> None:
    """Note on an error of lowering which statement it is about."""
    _keep(error, _FUNCTION, lower.func_ir.func_id.func)
    source = Source(lower.func_ir, lower.fndesc.typemap.get)
    _keep(error, _NOTED, source.of_statement(statement))


def operation_of(error: BaseException) -> Operation | None:
    """What was noted on an error, None if nothing was."""
    found = getattr(error, _NOTED, None)
    return found if isinstance(found, Operation) else None


def function_of(error: BaseException) -> Any:
    """The Python function that the compiler was at, None if that is not known."""
    return getattr(error, _FUNCTION, None)


def _keep(error: BaseException, name: str, value: Any) -> None:
    """The innermost function of the user's is what counts, and it comes first."""
    if value is not None and getattr(error, name, None) is None:
        setattr(error, name, value)


def _note_constraint(
    error: BaseException, cause: BaseException, inferer: Any, constraint: Any = None
) -> None:
    inner = operation_of(cause)
    if inner is not None:
        _keep(error, _NOTED, inner)
        # That of the function that was called.
        setattr(error, _FUNCTION, function_of(cause))
        return
    if constraint is None:
        constraint = next((v for v in _locals(cause) if type(v) in _OF_CONSTRAINTS), None)
    describe = _OF_CONSTRAINTS.get(type(constraint))
    if describe is not None:
        source = Source(inferer.func_ir, lambda name: _type_in(inferer, name))
        _keep(error, _NOTED, describe(source, constraint))


def _type_in(inferer: Any, name: str) -> Any:
    variable = inferer.typevars.get(name)
    return variable.type if variable is not None and variable.defined else None


def _locals(error: BaseException) -> Any:
    """What the frames' `self`, `constraint` and `infer` are, from the outermost on."""
    traceback = error.__traceback__
    while traceback is not None:
        for name in ("infer", "self"):
            if name in traceback.tb_frame.f_locals:
                yield traceback.tb_frame.f_locals[name]
        traceback = traceback.tb_next


class Source:
    """A function's variables as operands."""

    def __init__(self, function_ir: Any, type_of: Callable[[str], Any]) -> None:
        self._definitions = function_ir._definitions
        self._type_of = type_of
        self._own = function_ir.func_id.code.co_varnames

    def operand(self, variable: Any) -> Operand:
        """A variable of Numba's IR, or a constant, as the program has it."""
        if not isinstance(variable, ir.Var):
            return Operand(None, repr(variable))
        text = tidy(self._text(variable, 0))
        return Operand(self._type_of(variable.name), text, self._origin(variable), self)

    def of_item(self, array: Any, index: Any, value: Any = None) -> Operation:
        operands = [self.operand(each) for each in (array, index, value) if each is not None]
        text = f"{operands[0].text}[{operands[1].text}]"
        return Operation(
            "getitem" if value is None else "setitem", tuple(operands), text=tidy(text)
        )

    def of_attribute(self, owner: Any, name: str, value: Any = None) -> Operation:
        operands = [self.operand(each) for each in (owner, value) if each is not None]
        text = f"{operands[0].text}.{name}"
        return Operation("getattr" if value is None else "setattr", tuple(operands), name, {}, text)

    def of_call(self, function: Any, args: Any, keywords: Any) -> Operation:
        called = self.operand(function)
        given = tuple(map(self.operand, args))
        named = {name: self.operand(each) for name, each in dict(keywords or {}).items()}
        return Operation("call", (called, *given), None, named, _call(called.text, given, named))

    def of_operator(self, function: Any, args: Any) -> Operation:
        given = tuple(map(self.operand, args))
        symbol = _SYMBOLS.get(function) or _IN_PLACE.get(function) or _UNARY.get(function, "")
        text = ""
        if len(given) == 2 and function in _SYMBOLS:
            text = tidy(f"({given[0].text}) {symbol} ({given[1].text})")
        return Operation("operator", given, function, {}, text, symbol.strip())

    def of_statement(self, statement: Any) -> Operation | None:
        if isinstance(statement, (ir.SetItem, ir.StaticSetItem)):
            index = getattr(statement, "index_var", None) or statement.index
            return self.of_item(statement.target, index, statement.value)
        if isinstance(statement, ir.SetAttr):
            return self.of_attribute(statement.target, statement.attr, statement.value)
        value = getattr(statement, "value", None)
        if not isinstance(value, ir.Expr):
            return None
        if value.op == "getattr":
            return self.of_attribute(value.value, value.attr)
        if value.op == "call":
            return self.of_call(value.func, value.args, value.kws)
        if value.op in ("binop", "inplace_binop"):
            return self.of_operator(value.fn, (value.lhs, value.rhs))
        if value.op == "arrayexpr":
            return Operation("whole arrays", tuple(map(self.operand, value.list_vars())))
        return None

    def _origin(self, variable: Any) -> Any:
        for _ in range(_DEEPEST):
            found = self._definitions.get(variable.name, [])
            if len(found) != 1:
                return None
            variable = found[0]
            if isinstance(variable, ir.Expr) and variable.op == "cast":
                variable = variable.value
            if not isinstance(variable, ir.Var):
                return variable
        return None

    def _text(self, variable: Any, depth: int) -> str:
        if not isinstance(variable, ir.Var):
            return repr(variable)
        if not variable.is_temp:
            return self._name(str(variable.name))
        origin = self._origin(variable)
        if depth > _DEEPEST or origin is None:
            return "..."
        if isinstance(origin, (ir.Global, ir.FreeVar, ir.Arg)):
            return str(origin.name)
        if isinstance(origin, ir.Const):
            return repr(origin.value)
        return self._of_expression(origin, depth + 1) if isinstance(origin, ir.Expr) else "..."

    def _name(self, name: str) -> str:
        """A variable's name, without what Numba makes of it."""
        plain = name.partition(".")[0]
        inlined = _INLINED.fullmatch(plain)
        return inlined["name"] if inlined and plain not in self._own else plain

    def _of_expression(self, value: Any, depth: int) -> str:
        def text(each: Any) -> str:
            return self._text(each, depth)

        if value.op == "getattr":
            return f"({text(value.value)}).{value.attr}"
        if value.op == "call":
            return self._of_call(value, depth)
        if value.op in ("binop", "inplace_binop"):
            symbol = _SYMBOLS.get(_function_of(value), "?")
            return f"({text(value.lhs)}) {symbol} ({text(value.rhs)})"
        if value.op == "unary":
            return f"{_UNARY.get(value.fn, '')}({text(value.value)})"
        if value.op in ("getitem", "static_getitem", "typed_getitem"):
            index = value._kws.get("index_var") or value.index
            return f"({text(value.value)})[{text(index)}]"
        if value.op == "build_tuple":
            items = ", ".join(map(text, value.items))
            return f"({items},)" if len(value.items) == 1 else f"({items})"
        return "..."

    def _of_call(self, value: Any, depth: int) -> str:
        function = self._origin(value.func)
        if isinstance(function, ir.Global) and function.value is slice:
            bounds = [self._text(each, depth) for each in value.args]
            return ":".join("" if bound == "None" else bound for bound in bounds)
        if isinstance(function, ir.Global) and function.value is bool and len(value.args) == 1:
            # Numba adds it to conditions.
            return self._text(value.args[0], depth)
        given = [self._text(each, depth) for each in value.args]
        named = [f"{name}={self._text(each, depth)}" for name, each in dict(value.kws).items()]
        return f"{self._text(value.func, depth)}({', '.join([*given, *named])})"


def _function_of(value: Any) -> Any:
    """The operator of a binary expression; of `x += y` that of `x + y`."""
    return value._kws.get("immutable_fn") or value.fn


def _call(function: str, given: tuple[Operand, ...], named: dict[str, Operand]) -> str:
    arguments = [each.text for each in given]
    arguments += [f"{name}={each.text}" for name, each in named.items()]
    return tidy(f"{function}({', '.join(arguments)})")


def tidy(text: str) -> str:
    """An expression without needless parentheses, as `ast.unparse` writes it."""
    try:
        return ast.unparse(ast.parse(text, mode="eval"))
    except SyntaxError:
        return text


def _of_call_constraint(source: Source, constraint: Any) -> Operation | None:
    function = constraint.func
    if function is operator.getitem:
        return source.of_item(*constraint.args)
    if function == "getiter":
        return Operation("iterate", tuple(map(source.operand, constraint.args)))
    if not isinstance(function, str):
        return source.of_operator(function, constraint.args)
    variable = ir.Var(None, function, constraint.loc)
    return source.of_call(variable, constraint.args, constraint.kws)


_OF_CONSTRAINTS: dict[type, Callable[[Source, Any], Operation | None]] = {
    typeinfer.CallConstraint: _of_call_constraint,
    typeinfer.IntrinsicCallConstraint: _of_call_constraint,
    typeinfer.StaticGetItemConstraint: lambda source, made: source.of_item(
        made.value, made.fallback.args[1] if made.fallback else made.index
    ),
    typeinfer.TypedGetItemConstraint: lambda source, made: source.of_item(made.value, made.index),
    typeinfer.SetItemConstraint: lambda source, made: source.of_item(
        made.target, made.index, made.value
    ),
    typeinfer.StaticSetItemConstraint: lambda source, made: source.of_item(
        made.target, made.index_var, made.value
    ),
    typeinfer.GetAttrConstraint: lambda source, made: source.of_attribute(made.value, made.attr),
    typeinfer.SetAttrConstraint: lambda source, made: source.of_attribute(
        made.target, made.attr, made.value
    ),
    typeinfer.ExhaustIterConstraint: lambda source, made: Operation(
        "unpack", (source.operand(made.iterator),), made.count
    ),
}
