"""Our targets as Numba sees them: one SIMT class, one small class per target below it."""

import operator
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from numba.core import datamodel, types, typing
from numba.core.base import BaseContext
from numba.core.callconv import PythonErrorModel
from numba.core.compiler import Flags
from numba.core.descriptors import TargetDescriptor
from numba.core.errors import TypingError
from numba.core.options import TargetOptions
from numba.core.target_extension import CUDA, dispatcher_registry, jit_registry, target_registry

from haulage import forks
from haulage.compiler import prints
from haulage.compiler.faults import TABLE
from haulage.compiler.frontend import (
    assignment,
    captured,
    declared,
    divisions,
    enums,
    extending,
    half,
    operators,
    printing,
    ranges,
    records,
    timedeltas,
    words,
)
from haulage.compiler.frontend.binding import check_method
from haulage.compiler.frontend.codegen import IRCodegen
from haulage.compiler.frontend.convention import CallConvention
from haulage.compiler.frontend.device_function import (
    DeviceFunction,
    as_device_function,
    plain_device_function,
)
from haulage.compiler.frontend.located import LocationBuilder
from haulage.compiler.frontend.pipeline import SubroutinePipeline
from haulage.compiler.frontend.visible import LoweringLoader, TypingLoader
from haulage.forks import cached_property
from haulage.lang.word import Register
from haulage.targets.base import Target


class SIMT(CUDA):
    """Everything that runs a kernel as blocks of threads; words and overloads are for this.

    Below Numba's CUDA, so that users' overloads and intrinsics for `target="cuda"` count too.
    """


target_registry[words.SIMT] = SIMT


class SIMTTypingContext(typing.BaseContext):
    """Types kernels: the words of `lang/`, device functions, and what Numba itself knows."""

    def __init__(self, function_class: Any) -> None:
        self._function_class = function_class
        super().__init__()

    def load_additional_registries(self) -> None:
        from numba.core.typing import cmathdecl, enumdecl, mathdecl, npydecl

        # Numba asks in this order, and its own functions would take a float16 for a float32.
        self.install_registry(half.typing_registry)
        self.install_registry(timedeltas.typing_registry)
        for module in (cmathdecl, enumdecl, mathdecl, npydecl):
            self.install_registry(module.registry)
        self.install_registry(extending.typing_registry)

    def install_registry(self, registry: Any) -> None:
        if registry not in self._registries:
            self._registries[registry] = TypingLoader(registry)
        super().install_registry(registry)

    def resolve_getattr(self, typ: Any, attr: str) -> Any:
        found = super().resolve_getattr(typ, attr)
        check_method(attr, found)
        return records.field_type(typ, attr, found)

    def resolve_static_getitem(self, value: Any, index: Any) -> Any:
        sig = super().resolve_static_getitem(value, index)
        if sig is None:
            return None
        return sig.replace(return_type=records.field_type(value, index, sig.return_type))

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        if func is operator.getitem:
            args = (args[0], *map(words.as_number, args[1:]))
        args = enums.as_numbers(func, half.widened(func, args))
        return super().resolve_function_type(func, args, kws)

    def resolve_setitem(self, target: Any, index: Any, value: Any) -> Any:
        # Numba 0.66 takes no members of an IntEnum as indices.
        return super().resolve_setitem(target, words.as_number(index), value)

    def resolve_value_type(self, val: Any) -> Any:
        kind = words.value_type(val) or enums.value_type(val)
        if kind is not None:
            return kind
        function = as_device_function(self._function_class, val)
        if function is not None:
            return super().resolve_value_type(function)
        if declared.is_declared(val):
            if not self._function_class.targetdescr.target.links:
                raise ValueError(val.refusal)
            return declared.function_type(val)
        if (why := captured.refusal(val)) is not None:
            # Numba adds the name and the line.
            raise ValueError(why)
        if captured.is_for_host(val):
            # Of a ValueError, Numba says of a module's attribute that it is unknown.
            raise TypingError(
                f"{val.__name__} is a function of the host, which kernels do not have"
            )
        if (device_type := captured.device_type(val)) is not None:
            return device_type
        if captured.is_tuple_with_device_arrays(val):
            return types.BaseTuple.from_types([self.resolve_value_type(each) for each in val])
        try:
            return super().resolve_value_type(val)
        except ValueError:
            function = plain_device_function(self._function_class, val)
            if function is not None:
                return super().resolve_value_type(function)
            if type(val) is tuple:
                return captured.tuple_of_functions([self.resolve_value_type(each) for each in val])
            if captured.is_namespace(val):
                return types.Module(val)
            raise


class _FastErrorModel(PythonErrorModel):
    """Of a debug kernel with all of fastmath, which says that no float is infinite: a division of
    floats by zero is no error in it."""

    def fp_zero_division(self, builder: Any, exc_args: Any = None, loc: Any = None) -> Any:
        # Numba says this of floats; of ints it says otherwise.
        if exc_args == ("division by zero",):
            return False
        return super().fp_zero_division(builder, exc_args, loc)


class SIMTContext(BaseContext):
    """Lowers kernels for one target."""

    # Whether indices are checked, by `lang.tools.check_index`. Numba's own checks know no array's
    # name, and are never made.
    checks_indices = False
    haulage_faults = TABLE
    DIBuilder = LocationBuilder
    haulage_prints = prints.TABLE

    def __init__(self, typing_context: Any, target: Target, numba_name: str) -> None:
        self.haulage_target = target
        super().__init__(typing_context, numba_name)

    def init(self) -> None:
        self.data_model_manager = extending.data_models.chain(datamodel.default_manager)
        self._codegen = IRCodegen(self.haulage_target)
        self._subroutines: dict[Any, dict[Any, Any]] = {}

    def load_additional_registries(self) -> None:
        # Importing these fills Numba's registry of builtins.
        from numba.cpython import (  # noqa: F401
            cmathimpl,
            enumimpl,
            iterators,
            mathimpl,
            numbers,
            rangeobj,
            slicing,
            tupleobj,
        )
        from numba.misc import literal  # noqa: F401
        from numba.np import arrayobj, npdatetime, npyimpl  # noqa: F401

        self.install_registry(cmathimpl.registry)
        self.install_registry(mathimpl.registry)
        self.install_registry(npyimpl.registry)
        self.install_registry(enums.registry)
        self.install_registry(assignment.registry)
        self.install_registry(operators.registry)
        self.install_registry(timedeltas.registry)
        self.install_registry(half.registry)
        self.install_registry(printing.registry)
        self.install_registry(words.registry)
        self.install_registry(extending.lowering_registry)

    def install_registry(self, registry: Any) -> None:
        if registry not in self._registries:
            self._registries[registry] = LoweringLoader(registry)
        super().install_registry(registry)

    def refresh(self) -> None:
        super().refresh()
        # Numba's builtins come last of all, and what comes last holds.
        self.install_registry(ranges.registry)
        if self.haulage_target.divides_without_branches:
            self.install_registry(divisions.registry)

    def subtarget(self, **options: Any) -> Any:
        if options.pop("enable_boundscheck", False):
            options["checks_indices"] = True
        made = super().subtarget(**options)
        if (
            made.fastmath
            and "fast" in made.fastmath.flags
            and isinstance(made.error_model, PythonErrorModel)
        ):
            made.error_model = _FastErrorModel(made.call_conv)
        # Numba would give a kernel the functions that it made for one with other flags.
        flags = frozenset(made.fastmath.flags) if made.fastmath else frozenset()
        made.cached_internal_func = self._subroutines.setdefault(
            (flags, made.enable_debuginfo, made.checks_indices), {}
        )
        return made

    def create_module(self, name: str) -> Any:
        return self._codegen._create_empty_module(name)

    def codegen(self) -> Any:
        return self._codegen

    @cached_property
    def target_data(self) -> Any:
        import llvmlite.binding as llvm

        return llvm.create_target_data(self.haulage_target.data_layout)

    @cached_property
    def call_conv(self) -> Any:
        return CallConvention(self)

    def make_constant_array(self, builder: Any, typ: Any, ary: Any) -> Any:
        # Numba keeps the strides of an array with gaps, but not its gaps; nor has it a buffer of
        # dates.
        plain = ary.copy(order="F" if typ.layout == "F" else "C")
        if plain.dtype.kind in "mM":
            plain = plain.view("i8")
        return super().make_constant_array(builder, typ, plain)

    def get_constant_generic(self, builder: Any, ty: Any, val: Any) -> Any:
        if isinstance(val, Register):
            return val.read(builder, self.haulage_target)
        if captured.is_on_device(val):
            return captured.device_constant(self, builder, ty, val)
        # A device function or an argument left out has no value at run time.
        if isinstance(ty, (types.Dispatcher, types.Omitted)):
            return self.get_dummy_value()
        return super().get_constant_generic(builder, ty, val)

    def _compile_subroutine_no_cache(
        self, builder: Any, impl: Any, sig: Any, locals: Any = None, flags: Any = None
    ) -> Any:
        # Numba's has its own pipeline, which lets a view be returned only with reference counts.
        flags = flags or Flags()
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        library = self.codegen().create_library(impl.__name__)
        result = SubroutinePipeline(
            self.typing_context, self, library, sig.args, sig.return_type, flags, locals or {}
        ).compile_extra(impl)
        self.active_code_library.add_linking_library(result.library)
        return result

    def get_ufunc_info(self, ufunc_key: Any) -> Any:
        from numba.np import ufunc_db

        loops = dict(ufunc_db.get_ufunc_info(ufunc_key))
        for ours in (operators.UFUNCS, timedeltas.UFUNCS):
            loops.update(ours.get(ufunc_key, {}))
        return loops

    def compile_subroutine(
        self,
        builder: Any,
        impl: Any,
        sig: Any,
        locals: Any = None,
        flags: Any = None,
        caching: bool = True,
    ) -> Any:
        # What Numba's functions are made of divides as the kernel does; Numba's own flags raise.
        if flags is None:
            flags = Flags()
            flags.error_model = (
                "python" if isinstance(self.error_model, PythonErrorModel) else "numpy"
            )
        return super().compile_subroutine(builder, impl, sig, locals, flags, caching)

    def post_lowering(self, mod: Any, library: Any) -> None:
        if self.fastmath:
            from numba.core import fastmathpass

            fastmathpass.rewrite_module(mod, self.fastmath)
            half.without_fusion(mod)


class _Descriptor(TargetDescriptor):
    """Ties one target's typing and lowering contexts together."""

    options = TargetOptions

    def __init__(self, target: Target, numba_name: str, function_class: Any) -> None:
        super().__init__(numba_name)
        self.target = target
        self._function_class = function_class

    @cached_property
    def typing_context(self) -> Any:
        return SIMTTypingContext(self._function_class)

    @cached_property
    def target_context(self) -> Any:
        return SIMTContext(self.typing_context, self.target, self._target_name)


def descriptor(target: Target) -> Any:
    """The typing and the lowering context of a target, together."""
    return device_class(target).targetdescr


# Numba's registries take a class once only, also when two threads ask at one time.
_CLASSES_LOCK = forks.lock()


def device_class(target: Target) -> Any:
    """The `DeviceFunction` class of one target; made when it is first asked for."""
    with _CLASSES_LOCK:
        return _device_class(target)


@cache
def _device_class(target: Target) -> Any:
    kind = f"{target.kind}_{target.architecture}_{target.cpu}"
    numba_name = f"{words.SIMT}_{kind}_{target.warp_size}"
    numba_class = type(numba_name, (SIMT,), {})
    target_registry[numba_name] = numba_class
    function_class: Any = type(
        # Numba's messages name it, and programs know it by this name.
        f"CUDADispatcher_{target.architecture}",
        (DeviceFunction,),
        {"numba_name": numba_name, "known": WeakKeyDictionary(), "outlive": []},
    )
    function_class.targetdescr = _Descriptor(target, numba_name, function_class)
    dispatcher_registry[numba_class] = function_class
    jit_registry[numba_class] = lambda *args, **kwargs: function_class
    return function_class
