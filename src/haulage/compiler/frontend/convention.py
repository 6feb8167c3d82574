"""How compiled functions call each other: status code, return pointer, hidden arguments, arguments.

This is Numba's minimal calling convention with the target's hidden arguments put in front of the
user's; each function passes its own on to what it calls. A kernel's status also tells at which end
its thread came out.
"""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.callconv import RETCODE_OK, MinimalCallConv, errcode_t
from numba.core.errors import UnsupportedError

from haulage.compiler.ends import code_of
from haulage.compiler.faults import TABLE, Fault
from haulage.lang.tools import source_place

_RETURN_POINTER = 1


class CallConvention(MinimalCallConv):
    """`i32 function(return pointer, hidden..., arguments...)`; the status 0 means done."""

    @property
    def _hidden(self) -> tuple[tuple[str, Any], ...]:
        hidden: tuple[tuple[str, Any], ...] = self.context.haulage_target.hidden_arguments
        return hidden

    def _first_argument(self) -> int:
        return _RETURN_POINTER + len(self._hidden)

    def get_function_type(self, restype: Any, argtypes: Any) -> Any:
        plain = super().get_function_type(restype, argtypes)
        return ir.FunctionType(
            plain.return_type,
            [plain.args[0], *(kind for _, kind in self._hidden), *plain.args[_RETURN_POINTER:]],
        )

    def get_arguments(self, func: Any) -> Any:
        return func.args[self._first_argument() :]

    def decorate_function(
        self, fn: Any, args: Any, fe_argtypes: Any, noalias: bool = False
    ) -> None:
        super().decorate_function(fn, args, fe_argtypes, noalias)
        hidden = fn.args[_RETURN_POINTER : self._first_argument()]
        for argument, (name, _) in zip(hidden, self._hidden, strict=True):
            argument.name = name
        fn.attributes.add("alwaysinline")

    def call_function(
        self, builder: Any, callee: Any, resty: Any, argtys: Any, args: Any
    ) -> tuple[Any, Any]:
        result_type = callee.args[0].type.pointee
        result = cgutils.alloca_once(builder, result_type)
        builder.store(cgutils.get_null_value(result_type), result)
        hidden = builder.function.args[_RETURN_POINTER : self._first_argument()]
        plain = self._get_arg_packer(argtys).as_arguments(builder, args)
        code = builder.call(callee, [result, *hidden, *plain])
        value = self.context.get_returned_value(builder, resty, builder.load(result))
        return self._get_return_status(builder, code), value

    def return_dynamic_user_exc(
        self, builder: Any, exc: Any, exc_args: Any, nb_types: Any, loc: Any, func_name: Any
    ) -> None:
        raise UnsupportedError(
            f"raise {exc.__name__}(...): in a kernel the arguments must be constants", loc=loc
        )

    def stop_thread(self, builder: Any, fault: int, figures: Sequence[Any] = ()) -> None:
        """End the function, and with it the thread, with a fault's number. With `figures`, values
        64 bits wide, it tells them and where it stands."""
        if figures:
            number = ir.Constant(errcode_t, fault)
            self._tell_place(builder, number, figures)
            super()._return_errcode_raw(builder, number)
        else:
            self._return_errcode_raw(builder, fault)

    def _return_errcode_raw(self, builder: Any, code: Any) -> None:
        # Of a debug function's own faults and of those that its callees give back.
        if code is not RETCODE_OK and getattr(builder, "tells_place", False):
            number = ir.Constant(errcode_t, code) if isinstance(code, int) else code
            self._tell_place(builder, number)
        if code is RETCODE_OK:
            code = code_of(getattr(builder, "end", 0))
        super()._return_errcode_raw(builder, code)

    def _tell_place(self, builder: Any, fault: Any, figures: Sequence[Any] = ()) -> None:
        """Send the thread's indices, and figures, as a message whose number is minus the
        fault's."""
        target = self.context.haulage_target
        names = [f"{group}.{axis}" for group in ("threadIdx", "blockIdx") for axis in "xyz"]
        cells = [builder.zext(target.register(builder, name), ir.IntType(64)) for name in names]
        target.message(builder, builder.neg(fault), [*cells, *figures])

    def set_try_status(self, builder: Any) -> None:
        raise UnsupportedError("try and except mean nothing in a kernel; test what may go wrong")

    def _make_call_helper(self, builder: Any) -> "_FaultNumbers":
        return _FaultNumbers(builder)


class _FaultNumbers:
    """Gives a `raise` its number; called by Numba's lowering, once per statement."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def _add_exception(self, exc: Any, exc_args: Any, locinfo: Any) -> int:
        # What Numba itself raises, such as at a division by zero, comes without a place.
        name, filename, line = locinfo or ("", *source_place(self._builder))
        fault = Fault(exc or RuntimeError, tuple(exc_args or ()), filename, line, function=name)
        return TABLE.number(self._builder.module, fault)
