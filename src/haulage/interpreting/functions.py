"""Functions of a kernel as Python can run them: the same code objects, so that pdb shows the user's
lines, with other constants and other globals.

Constants get the types that compiled code gives them, and names what they mean in kernels: words,
functions that kernels call, numbers, arrays, modules.
"""

import builtins
import cmath
import enum
import inspect
import math
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType, NoneType
from typing import Any

import numpy as np

from haulage.interpreting import compiled
from haulage.interpreting.arrays import KernelArray, over
from haulage.interpreting.meanings import MEANINGS, NUMBERS, REGISTERS, refuse
from haulage.interpreting.numbers import Int, Int32, Int64, class_of, number, plain_of
from haulage.interpreting.threads import current
from haulage.lang import debug
from haulage.lang.word import Namespace, Register, Register3, Word

_PACKAGES = ("haulage", "numba", "numpy", "math", "cmath")


class Said:
    """A word that a kernel can call."""

    def __init__(self, word: Word) -> None:
        self.word = word
        self.__name__ = word.__name__
        self.__doc__ = word.__doc__
        self._meaning = MEANINGS.get(word)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        thread = current(f"{self.word.__qualname__}()")
        if kwargs:
            bound = inspect.signature(self.word).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        if self._meaning is not None:
            return self._meaning(thread, *args)
        if not compiled.is_of_numbers(self.word):
            raise refuse(self.word.__qualname__)
        return compiled.call(thread, self.word, args)

    def __repr__(self) -> str:
        return repr(self.word)


class Registers:
    """`threadIdx` and its like."""

    def __init__(self, name: str) -> None:
        self._name, self._read = name, REGISTERS[name]

    def _axis(self, axis: int) -> Any:
        return Int32(self._read(current(self._name))[axis])

    @property
    def x(self) -> Any:
        """Along the first axis."""
        return self._axis(0)

    @property
    def y(self) -> Any:
        """Along the second axis."""
        return self._axis(1)

    @property
    def z(self) -> Any:
        """Along the third axis."""
        return self._axis(2)

    def __repr__(self) -> str:
        x, y, z = self._read(current(self._name))
        return f"({x}, {y}, {z})"


class Lazy:
    """A number that each thread has its own of, such as `laneid`."""

    def __init__(self, name: str) -> None:
        self.name, self._read = name, NUMBERS[name]

    @property
    def value(self) -> Any:
        """That of the thread that asks, int32."""
        return Int32(self._read(current(self.name)))


def _lazily(name: str) -> Callable[..., Any]:
    def method(self: Lazy, *args: Any) -> Any:
        return getattr(self.value, name)(*args)

    return method


for _name in (
    *("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "and", "or", "xor"),
    *("lshift", "rshift"),
):
    setattr(Lazy, f"__{_name}__", _lazily(f"__{_name}__"))
    setattr(Lazy, f"__r{_name}__", _lazily(f"__r{_name}__"))
for _name in (
    *("lt", "le", "eq", "ne", "gt", "ge", "hash", "index", "int", "float", "bool"),
    *("neg", "pos", "abs", "invert", "repr", "str"),
):
    setattr(Lazy, f"__{_name}__", _lazily(f"__{_name}__"))


class Space:
    """A module, a namespace or a class of constants, with what its members mean in kernels."""

    def __init__(self, functions: "Functions", of: Any) -> None:
        self.__dict__["haulage_space"] = functions, of

    def __getattr__(self, name: str) -> Any:
        functions, of = self.__dict__["haulage_space"]
        value = functions.converted(getattr(of, name))
        return value.value if isinstance(value, Lazy) else value

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["haulage_space"][1])

    def __repr__(self) -> str:
        return repr(self.__dict__["haulage_space"][1])


class Functions:
    """Converts what a kernel names, each object once."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, Any]] = {}

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of Python that can be run as a part of a kernel."""
        known = self._made.get(id(function))
        if known is not None:
            made: Callable[..., Any] = known[1]
            return made
        assert isinstance(function, FunctionType)
        # A function takes them when it is made.
        space = {**function.__globals__, "__builtins__": _BUILTINS}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        twin = FunctionType(
            _with_types(function.__code__), space, function.__name__, None, cells or None
        )
        twin.__qualname__ = function.__qualname__
        twin.__module__ = function.__module__
        # Before what it names, which may be itself.
        self._made[id(function)] = function, twin
        twin.__defaults__ = self._each(function.__defaults__)
        if function.__kwdefaults__:
            twin.__kwdefaults__ = {
                name: self.converted(value) for name, value in function.__kwdefaults__.items()
            }
        for cell, own in zip(cells, function.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self.converted(own.cell_contents)
            except ValueError:  # it has nothing yet
                continue
        used = set(debug.names_of(function.__code__))
        for name, value in function.__globals__.items():
            # What the kernel does not name, the user may at the prompt.
            if name in used or isinstance(value, ModuleType | Word | Namespace | Register3):
                space[name] = self.converted(value)
        space["__builtins__"] = _BUILTINS
        return twin

    def _each(self, values: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        return None if values is None else tuple(map(self.converted, values))

    def converted(self, value: Any) -> Any:
        """What stands for a value that a kernel names."""
        known = self._made.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        made = self._converted(value)
        if made is not value and not isinstance(value, int | float):
            self._made[id(value)] = value, made
        return made

    def _converted(self, value: Any) -> Any:
        if isinstance(value, (bool, str, bytes, NoneType, enum.Enum, KernelArray, *Int)):
            return value
        if debug.is_stop(value):
            return _STOP
        if isinstance(value, Word):
            return Said(value)
        if isinstance(value, Register3):
            return Registers(value.__name__)
        if isinstance(value, Register):
            return Lazy(value.name)
        if isinstance(value, Namespace | ModuleType):
            return Space(self, value)
        if isinstance(value, int | float | complex | np.generic):
            return number(value)
        if type(value) is tuple:
            return tuple(map(self.converted, value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self.converted, value))
        if hasattr(type(value), "haulage_function"):
            return self.function(value.py_func)
        if hasattr(type(value), "_haulage_record_"):
            return _of_device(value)
        if isinstance(value, np.ndarray):
            copy = value.copy().view(KernelArray)
            copy.flags.writeable = False
            return copy
        return self._function_or_class(value)

    def _function_or_class(self, value: Any) -> Any:
        if isinstance(value, type):
            if value in _CLASSES:
                return _CLASSES[value]
            if issubclass(value, np.generic):
                return class_of(value)
            own = issubclass(value, enum.Enum) or value.__module__ in ("builtins", "numpy")
            return value if own or issubclass(value, tuple) else Space(self, value)
        try:
            if value in _FUNCTIONS:
                return _FUNCTIONS[value]
        except TypeError:  # it cannot be looked up
            return value
        if isinstance(value, np.ufunc) or getattr(value, "__module__", "") == "numpy":
            return _of_numpy(value) if callable(value) else value
        inner = getattr(value, "py_func", None)
        if isinstance(inner, FunctionType):
            return self.function(inner)
        if isinstance(value, FunctionType):
            package = (value.__module__ or "").partition(".")[0]
            return _of_numpy(value) if package in _PACKAGES else self.function(value)
        return _type_of_numba(value)


def _type_of_numba(value: Any) -> Any:
    if (type(value).__module__ or "").partition(".")[0] != "numba":
        return value
    from haulage import numba_bridge

    try:
        key = numba_bridge.key_of(value)
    except (TypeError, NotImplementedError):
        return value
    return class_of(key[1].type) if key[0] == "scalar" else value


def _of_device(array: Any) -> Any:
    """A device array or record that is a global."""
    if array._haulage_record_:
        return over(array.device_pointer, (1,), (0,), array.dtype, array.readonly)[0]
    return over(array.device_pointer, array.shape, array.strides, array.dtype, array.readonly)


def _with_types(code: CodeType) -> CodeType:
    """Code whose constants have the types that they have in kernels."""
    return code.replace(co_consts=tuple(map(_constant, code.co_consts)))


def _constant(value: Any) -> Any:
    if isinstance(value, CodeType):
        return _with_types(value)
    if type(value) is tuple:
        return tuple(map(_constant, value))
    return number(value) if type(value) in (int, float, complex) else value


# ---- Python's and NumPy's functions -----------------------------------------------------------


def _of_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*map(plain_of, args), **kwargs)
        if isinstance(result, tuple):
            return tuple(map(number, result))
        return result.view(KernelArray) if type(result) is np.ndarray else number(result)

    call.__name__ = getattr(function, "__name__", "call")
    return call


class Range:
    """`range` with 64-bit ints."""

    def __init__(self, *bounds: Any) -> None:
        self._range = range(*map(int, bounds))

    def __iter__(self) -> Iterator[Any]:
        return map(Int64, self._range)

    def __reversed__(self) -> Iterator[Any]:
        return map(Int64, reversed(self._range))

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, index: Any) -> Any:
        return Int64(self._range[index])

    def __repr__(self) -> str:
        return repr(self._range)


def _int(value: Any = 0) -> Any:
    if isinstance(value, Int):
        return value
    if isinstance(value, float | np.floating):
        return number(np.float64(value).astype(np.int64))
    return number(int(value))


def _float(value: Any = 0.0) -> Any:
    return value if isinstance(value, np.floating) else np.float64(plain_of(value))


def _complex(*parts: Any) -> Any:
    if any(isinstance(part, np.complexfloating) for part in parts) and len(parts) == 1:
        return parts[0]
    narrow = all(isinstance(part, np.float32) for part in parts) and parts
    return (np.complex64 if narrow else np.complex128)(complex(*map(plain_of, parts)))


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        values = args if len(args) > 1 else tuple(args[0])
        chosen = choose(values)
        kinds = {type(value) for value in values}
        if len(kinds) == 1:
            return chosen
        kind = np.result_type(*(np.asarray(plain_of(value)).dtype for value in values))
        return number(kind.type(plain_of(chosen)))

    return call


def _round(value: Any, digits: Any = None) -> Any:
    if digits is None:
        return value if isinstance(value, Int) else number(round(float(value)))
    return type(value)(round(float(value), int(digits)))


def _enumerate(values: Any, start: Any = 0) -> Iterator[Any]:
    return zip(map(Int64, _counting(int(start))), values, strict=False)


def _counting(start: int) -> Iterator[int]:
    while True:
        yield start
        start += 1


def _sum(values: Any, start: Any = None) -> Any:
    total = Int64(0) if start is None else start
    for value in values:
        total = total + value
    return total


def _shown(value: Any) -> Any:
    """A value as `print` shows it in kernels."""
    if isinstance(value, tuple):
        parts = [_shown(each) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, enum.IntEnum):
        return int(value)
    if isinstance(value, Lazy):
        return value.value
    return value


def _print(*values: Any) -> None:
    print(*map(_shown, values))


# Functions of `math`: those that NumPy has, which have no exceptions.
_BY_NUMPY = {
    **{name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "expm1")},
    **{name: name for name in ("log", "log2", "log10", "log1p", "sqrt", "fabs", "copysign")},
    **{name: name for name in ("hypot", "degrees", "radians", "fmod", "ldexp", "nextafter")},
    **{name: name for name in ("cbrt", "exp2")},
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "atan2": "arctan2",
    "pow": "power",
}
_TRUTHS = ("isnan", "isinf", "isfinite")


def _float_type(values: tuple[Any, ...]) -> Any:
    narrow = (np.float16, np.float32)
    return np.float32 if all(type(value) in narrow for value in values) else np.float64


def _real(name: str) -> Callable[..., Any]:
    """A function of real numbers, worked out in float64 and rounded to the type that it has."""
    by = getattr(np, _BY_NUMPY[name]) if name in _BY_NUMPY else getattr(math, name)

    def call(*args: Any) -> Any:
        values = [plain_of(number(value)) for value in args]
        kind = _float_type(tuple(values))
        wide = [np.float64(value) if name != "ldexp" else value for value in values]
        try:
            result = by(*wide)
        except ValueError:
            result = math.nan
        except OverflowError:
            result = math.inf
        return tuple(map(kind, result)) if isinstance(result, tuple) else kind(result)

    call.__name__ = name
    return call


def _truth(name: str) -> Callable[..., Any]:
    by = getattr(np, name)
    return lambda value: bool(by(plain_of(number(value))))


def _whole(name: str) -> Callable[..., Any]:
    by = getattr(np, name)

    def call(value: Any) -> Any:
        if isinstance(value, np.floating):
            return by(value)
        return number(int(value))

    return call


def _frexp(value: Any) -> Any:
    fraction, exponent = math.frexp(float(value))
    return _float_type((value,))(fraction), Int32(exponent)


def _gcd(a: Any, b: Any) -> Any:
    return Int64(math.gcd(int(a), int(b)))


_REAL = (
    *_BY_NUMPY,
    *("erf", "erfc", "gamma", "lgamma", "modf", "remainder", "fma"),
)
_FUNCTIONS: dict[Any, Any] = {
    **{getattr(math, name): _real(name) for name in _REAL if hasattr(math, name)},
    **{getattr(math, name): _truth(name) for name in _TRUTHS},
    **{getattr(math, name): _whole(name) for name in ("ceil", "floor", "trunc")},
    math.frexp: _frexp,
    math.gcd: _gcd,
    **{
        each: _of_numpy(each)
        for each in vars(cmath).values()
        if isinstance(each, BuiltinFunctionType)
    },
    len: lambda values: Int64(len(values)),
    max: _extreme(max),
    min: _extreme(min),
    round: _round,
    sum: _sum,
    print: _print,
}
_CLASSES: dict[type, Any] = {
    int: _int,
    float: _float,
    complex: _complex,
    range: Range,
    enumerate: _enumerate,
}
_STOP = Said(debug.set_trace)

_BUILTINS: dict[str, Any] = {
    **vars(builtins),
    **{name: _FUNCTIONS[getattr(builtins, name)] for name in ("len", "max", "min", "round", "sum")},
    **{each.__name__: twin for each, twin in _CLASSES.items()},
    "print": _print,
    "breakpoint": _STOP,
}
