"""From a Python function and argument types to one LLVM module for a target."""

import contextlib
import functools
import inspect
import re
import threading
import types as python_types
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.compiler import run_frontend
from numba.core.errors import TypingError
from numba.core.ir import Const, Expr, Return
from numba.core.ir_utils import get_definition, guard
from numba.core.typeinfer import register_dispatcher

from haulage import forks
from haulage.compiler.access.model import Whole
from haulage.compiler.arguments import ArrayArgument
from haulage.compiler.faults import TABLE, Fault
from haulage.compiler.frontend.bytecode import KERNEL
from haulage.compiler.frontend.captured import CAPTURED
from haulage.compiler.frontend.declared import LINKED
from haulage.compiler.frontend.device_function import (
    afresh,
    as_device_function,
    plain_device_function,
)
from haulage.compiler.frontend.known_arguments import KnownArgument, known_arguments
from haulage.compiler.frontend.memory_arguments import MemoryArguments, memory_arguments
from haulage.compiler.frontend.pipeline import WHOLES
from haulage.compiler.frontend.reasons import compile_error
from haulage.compiler.frontend.target import device_class
from haulage.compiler.limits import LocalArray, check_local
from haulage.compiler.linked import Linked
from haulage.compiler.options import Options
from haulage.compiler.prints import TABLE as PRINTS
from haulage.compiler.prints import Items
from haulage.errors import CompileError
from haulage.forks import cached_property
from haulage.lang.cg import GRID_GROUP
from haulage.lang.memory import DYNAMIC_SHARED, LOCAL_ARRAYS
from haulage.targets.base import Target

_INTERPRETER = re.compile(r"(?m)^declare [^\n]*@\"?((?:_?Py|NRT_|numba_gil_)\w+)")

# Numba compiles one function at a time; its own lock covers only its own dispatchers.
_LOCK = threading.RLock()
forks.held(lambda: _LOCK)


@dataclass(frozen=True)
class Lowered:
    """What the front end made of a kernel.

    `llvm`: text of the module with the kernel and all it calls, not optimised. `entry`: the
    kernel's name there. `arguments`: LLVM types of the user's arguments, flattened. `faults`: how
    its threads can stop, by number. `annotation`: what Numba tells of the types it inferred, and
    `types` its report; `typemap`: they themselves, by the variable's name. `prints`: what it
    prints, by number. `cooperative`: whether it names its grid as a group, whose blocks then all
    have to be there at one time.
    `dynamic_shared`: whether it names its launch's dynamic shared memory. `captured`: the arrays of
    the device that are globals or closure variables of it; the code has their addresses.
    `known`: where the arrays and integers that it is given are among `arguments`. `memory`: its
    parameters, and where addresses are among `arguments`. `wholes`: which launches write all of an
    array, if none of their threads stops before. `local_arrays`: its own and those of functions
    that it calls.
    """

    llvm: str
    entry: str
    arguments: tuple[str, ...]
    signature: str
    faults: dict[int, Fault]
    annotation: Any
    prints: dict[int, Items]
    cooperative: bool
    dynamic_shared: bool
    captured: tuple[Any, ...]
    linked: tuple[Linked, ...]
    known: tuple[KnownArgument, ...]
    memory: MemoryArguments
    wholes: tuple[Whole, ...]
    local_arrays: tuple[LocalArray, ...]

    @cached_property
    def types(self) -> str:
        with _LOCK:
            return str(self.annotation)

    @property
    def arrays(self) -> tuple[ArrayArgument, ...]:
        return tuple(each for each in self.known if isinstance(each, ArrayArgument))

    @property
    def typemap(self) -> dict[str, Any]:
        return dict(self.annotation.typemap)


def lower(
    function: Any,
    argument_types: tuple[Any, ...],
    target: Target,
    options: Options,
    *,
    anew: bool = False,
) -> Lowered:
    """Type and lower `function` for Numba `argument_types`.

    With `anew`, functions that it calls are compiled again, with what their globals are now.

    Raises:
        CompileError: Numba could not type or lower it, it returns a value, or its local arrays are
            too large.
    """
    name = getattr(function, "__qualname__", repr(function))
    function_class = device_class(target)
    with _LOCK, afresh(function_class) if anew else contextlib.nullcontext():
        device_function = function_class(_twin(function), options)
        with register_dispatcher(function_class(function, options)):
            result = _compiled(device_function, argument_types, None, f"kernel {name}")
        returned = result.signature.return_type
        if returned not in (types.none, types.void):
            reason = (
                f"kernel {name} returns a value ({returned}), and a CUDA kernel must have void "
                "return type; it gives its results through its array arguments, and only functions "
                "made with device=True return values"
            )
            error = TypingError(reason, _return_of_a_value(function))
            raise compile_error(error, f"kernel {name}", argument_types)
        modules = result.library.modules()
        faults: set[int] = set()
        prints: set[int] = set()
        for module in modules:
            faults |= getattr(module, "haulage_faults", set())
            prints |= getattr(module, "haulage_prints", set())
        dynamic_shared = _uses_dynamic_shared(modules, name)
        local_arrays = _checked_local_arrays(modules, f"kernel {name}", target)
        text = _linked(modules, target)
        _check_no_interpreter(text, f"{_place(function)}: kernel {name}")
        return Lowered(
            llvm=text,
            entry=result.fndesc.llvm_func_name,
            arguments=_argument_kinds(result.target_context, argument_types),
            signature=f"({_listed(argument_types)})",
            faults=TABLE.select(faults),
            annotation=result.type_annotation,
            prints=PRINTS.select(prints),
            cooperative=any(hasattr(module, GRID_GROUP) for module in modules),
            dynamic_shared=dynamic_shared,
            captured=tuple(array for module in modules for array in getattr(module, CAPTURED, ())),
            linked=_linked_with(modules),
            known=known_arguments(result.target_context, argument_types),
            memory=memory_arguments(
                result.target_context, tuple(inspect.signature(function).parameters), argument_types
            ),
            wholes=result.metadata[WHOLES],
            local_arrays=local_arrays,
        )


@dataclass(frozen=True)
class LoweredFunction:
    """What the front end made of a function that kernels call.

    `llvm`, `entry` and `arguments` are as for `Lowered`; `result` is the Numba type that it
    returns, `returned` its LLVM type in memory, None if it returns nothing.
    `linked` is the code that functions which it calls are in.
    """

    llvm: str
    entry: str
    arguments: tuple[str, ...]
    result: Any
    returned: str | None
    linked: tuple[Linked, ...]


def lower_function(
    function: Any,
    argument_types: tuple[Any, ...],
    return_type: Any,
    target: Target,
    options: Options,
) -> LoweredFunction:
    """Type and lower a Python function that others call, with `options`, or a device function, with
    its own; the result is converted to `return_type`, a Numba type, unless that is None.

    Raises:
        CompileError: Numba could not type or lower it.
    """
    name = function.__qualname__
    with _LOCK:
        device_function = as_device_function(device_class(target), function)
        if device_function is None:
            device_function = device_class(target)(function, options)
        with register_dispatcher(device_function):
            result = _compiled(device_function, argument_types, return_type, f"function {name}")
        modules = result.library.modules()
        _checked_local_arrays(modules, f"function {name}", target)
        text = _linked(modules, target)
        _check_no_interpreter(text, f"{_place(device_function.py_func)}: function {name}")
        context = result.target_context
        returned = types.unliteral(result.signature.return_type)
        kind = context.call_conv.get_return_type(returned).pointee
        return LoweredFunction(
            llvm=text,
            entry=result.fndesc.llvm_func_name,
            arguments=_argument_kinds(context, argument_types),
            result=types.void if returned == types.none else returned,
            returned=None if returned == types.none else str(kind),
            linked=_linked_with(result.library.modules()),
        )


def _checked_local_arrays(modules: list[Any], what: str, target: Target) -> tuple[LocalArray, ...]:
    """The local arrays of a kernel or function, and of those that it calls, each once.

    Raises:
        CompileError: they are more than a thread can have.
    """
    arrays = tuple(each for module in modules for each in getattr(module, LOCAL_ARRAYS, ()))
    check_local(what, sum(nbytes for *_, nbytes in arrays), arrays, target)
    return arrays


def _linked_with(modules: list[Any]) -> tuple[Linked, ...]:
    """The code that modules have to be linked with, each piece once."""
    return tuple(dict.fromkeys(each for module in modules for each in getattr(module, LINKED, ())))


def _argument_kinds(context: Any, argument_types: tuple[Any, ...]) -> tuple[str, ...]:
    packer = context.get_arg_packer(argument_types)
    return tuple(
        "ptr" if isinstance(kind, ir.PointerType) else str(kind) for kind in packer.argument_types
    )


def _twin(function: Any) -> Any:
    """A function with the same code; so one that calls itself is apart from the kernel's entry."""
    twin = python_types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    setattr(twin, KERNEL, True)
    return functools.wraps(function)(twin)


def _uses_dynamic_shared(modules: list[Any], name: str) -> bool:
    """Whether the kernel `name` names its launch's dynamic shared memory.

    Raises:
        CompileError: it does so in both forms.
    """
    forms: dict[str, tuple[str, int]] = {}
    for module in modules:
        forms |= getattr(module, DYNAMIC_SHARED, {})
    if len(forms) > 1:
        where = ", ".join(f"{form} in {file}:{line}" for form, (file, line) in forms.items())
        raise CompileError(
            f"kernel {name} has both {where}; the first is all dynamic shared memory from its "
            "start, so the others would overlap it: slice that, or give every array its sizes"
        )
    return bool(forms)


def _check_no_interpreter(text: str, what: str) -> None:
    """Raise a CompileError if a module's text calls Python's interpreter."""
    needed = sorted(set(_INTERPRETER.findall(text)))
    if needed:
        raise CompileError(
            f"{what} uses a function of Numba that needs Python's interpreter, as np.dot and other "
            f"linear algebra do ({', '.join(needed)}); write it as a loop"
        )


def result_type(function: Any, argument_types: tuple[Any, ...], target: Target, name: str) -> Any:
    """The Numba type that a function returns to a kernel which calls it with arguments of these
    types, all by position; `name` is for messages.

    Raises:
        CompileError: Numba could not type or lower it, or it cannot be called so.
    """
    with _LOCK:
        known = _known(function, target)
        try:
            _, kinds = known.fold_argument_types(argument_types, {})
        except TypingError as error:
            raise compile_error(error, name, argument_types) from error
        result = _compiled(known, kinds, None, name)
        return types.unliteral(result.signature.return_type)


def compile_function(
    function: Any, argument_types: tuple[Any, ...], return_type: Any, target: Target
) -> Any:
    """Numba's compile result of a device function or a kernel that is called as one.

    Raises:
        CompileError: Numba could not type or lower it.
    """
    with _LOCK:
        what = f"function {function.__qualname__}"
        known = _known(function, target)
        # One that is compiled while it is decorated has no value under its name yet.
        with register_dispatcher(known):
            return _compiled(known, argument_types, return_type, what)


def function_text(result: Any) -> str:
    """LLVM IR of a compile result with all that it calls.

    Raises:
        CompileError: their local arrays are too large.
    """
    with _LOCK:
        target = result.target_context.haulage_target
        modules = result.library.modules()
        _checked_local_arrays(modules, f"function {result.fndesc.qualname}", target)
        return _linked(modules, target)


def _known(function: Any, target: Target) -> Any:
    known = device_class(target)
    return as_device_function(known, function) or plain_device_function(known, function)


def _compiled(
    device_function: Any, argument_types: tuple[Any, ...], return_type: Any, what: str
) -> Any:
    try:
        return device_function.compile_for(argument_types, return_type)
    except Exception as error:
        # Numba's passes raise whatever they like where they meet what they do not know.
        raise compile_error(error, what, argument_types) from error


def _place(function: Any) -> str:
    return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"


def _return_of_a_value(function: Any) -> Any:
    """Where a function, which returns something else than None, first does so."""
    function_ir = run_frontend(function)
    for _, block in sorted(function_ir.blocks.items()):
        for statement in block.find_insts(Return):
            value = guard(get_definition, function_ir, statement.value)
            while isinstance(value, Expr) and value.op == "cast":
                value = guard(get_definition, function_ir, value.value)
            if not (isinstance(value, Const) and value.value is None):
                return statement.loc
    return function_ir.loc


def _listed(argument_types: tuple[Any, ...]) -> str:
    return ", ".join(str(kind) for kind in argument_types)


def _linked(modules: list[Any], target: Target) -> str:
    import llvmlite.binding as llvm

    linked = llvm.parse_assembly(target.module_text(modules[0]))
    for module in modules[1:]:
        linked.link_in(llvm.parse_assembly(target.module_text(module)))
    return str(linked)
