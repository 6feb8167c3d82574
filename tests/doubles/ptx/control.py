"""Where control goes, and calls. Source: NVIDIA, PTX ISA, 9.7.12 and 7.1."""

from doubles.ptx.code import Code
from doubles.ptx.elementwise import OPERATIONS, operation
from doubles.ptx.syntax import Instruction, Integer, List, Operand, Register, Symbol


def label_of(name: str) -> str:
    """The label in LLVM's language of one in PTX."""
    return f"at.{name}"


def write(code: Code, item: Instruction) -> None:
    """Write one instruction, with its guard."""
    code.instruction = item
    function = OPERATIONS.get(item.parts[0])
    if function is None:
        raise code.error("this instruction is not known here")
    if item.guard is None:
        _call(function, code, item)
    else:
        with code.only_if(code.get(item.guard, 1)):
            _call(function, code, item)


def _call(function: object, code: Code, item: Instruction) -> None:
    assert callable(function)
    try:
        function(code, item)
    except (ValueError, KeyError, StopIteration) as error:
        raise code.error(f"this form is not known here ({error!r})") from error


def _never_on(code: Code) -> None:
    """Begin a block that nobody comes to, behind one that has ended."""
    code.label(code.fresh("nobody"))


@operation("bra")
def branch(code: Code, item: Instruction) -> None:
    (target,) = item.operands
    assert isinstance(target, Symbol)
    code.go(label_of(target.name))
    _never_on(code)


@operation("brx")
def branch_by_table(code: Code, item: Instruction) -> None:
    index, table = item.operands
    assert isinstance(table, Symbol)
    nowhere = code.fresh("nowhere")
    code.do(f'switch i32 {code.get(index, 32)}, label %"{nowhere}" [')
    for number, name in enumerate(code.function.tables[table.name]):
        code.do(f'  i32 {number}, label %"{label_of(name)}"')
    code.do("]")
    code.label(nowhere)
    _stop(code)


def _stop(code: Code) -> None:
    code.call("ptx_trap", "void", "ptr %thread", f"i32 {code.line}")
    code.do("unreachable")
    _never_on(code)


@operation("trap", "brkpt")
def trap(code: Code, item: Instruction) -> None:
    _stop(code)


@operation("ret")
def leave(code: Code, item: Instruction) -> None:
    code.do("ret void")
    _never_on(code)


@operation("exit")
def end_thread(code: Code, item: Instruction) -> None:
    code.call("ptx_exit", "void", "ptr %thread")
    code.do("unreachable")
    _never_on(code)


@operation("call")
def call(code: Code, item: Instruction) -> None:
    """Results and parameters go by pointers to the caller's variables of the space `param`."""
    operands = list(item.operands)
    results: tuple[Operand, ...] = ()
    if isinstance(operands[0], List):
        first = operands.pop(0)
        assert isinstance(first, List)
        results = first.parts
    target = operands.pop(0)
    given: tuple[Operand, ...] = ()
    if operands and isinstance(operands[0], List):
        given = operands[0].parts
    pointers = [code.pointers[_variable(code, each)] for each in (*results, *given)]
    if isinstance(target, Symbol):
        name = code.names.function(target.name)
        if name is None:
            raise code.error(f"there is no function {target.name}")
    elif isinstance(target, Register | Integer):
        name = code.new(f"inttoptr i64 {code.get(target, 64)} to ptr")
    else:
        raise code.error(f"{target} cannot be called")
    arguments = ", ".join(f"ptr {each}" for each in ("%thread", *pointers))
    code.do(f"call void {name}({arguments})")


def _variable(code: Code, operand: Operand) -> str:
    if not isinstance(operand, Symbol) or operand.name not in code.pointers:
        raise code.error(f"{operand} is no variable of the space param")
    return operand.name


@operation("pmevent", "griddepcontrol")
def nothing(code: Code, item: Instruction) -> None:
    """Nothing is seen of it."""
