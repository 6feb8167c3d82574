"""A digest of everything that a kernel's code is made from: functions, and values they reach.

Two processes in which the digest is the same compile the same code. Functions count by their
bytecode, constants, source lines, defaults, and the values of the globals and closure variables
that they read; functions among these are followed. Numbers, strings, tuples, enums, dtypes and
arrays count by their value, what belongs to Python, NumPy, Numba or Haulage by its name (their
versions are a part of every key). Anything else has no value that can be compared.

Files do not count by their names, so that a program can be moved: only the order in which they are
reached does, and `files` has their names now.
"""

import enum
import hashlib
import struct
import sys
from collections.abc import Iterable
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, cast

import numpy as np

from haulage.compiler.cache.names import Chain, names_of
from haulage.lang.word import Namespace, Register, Register3, Word

# What stands in these packages is known by its name and the package's version.
_FOREIGN = frozenset(("builtins", "math", "cmath", "operator", "_operator", "numpy", "numba"))
_KNOWN = _FOREIGN | {"haulage"}


class NotByValue(Exception):
    """Something that a kernel reaches cannot be compared with what it was in another process."""


class Digest:
    """Takes values in, one after another.

    `files`: the source files of the functions, in the order in which they were reached.
    `exceptions`: the exception classes, by module and qualified name.
    """

    def __init__(self) -> None:
        self.files: list[str] = []
        self.exceptions: dict[tuple[str, str], type[BaseException]] = {}
        self._hash = hashlib.sha256()
        self._seen: dict[int, int] = {}
        # Numbers of objects are unique only among those that live.
        self._alive: list[Any] = []

    def hexdigest(self) -> str:
        """The digest of everything so far."""
        return self._hash.hexdigest()

    # ---- values ---------------------------------------------------------------------------

    def add(self, value: Any, what: str) -> None:
        """Take a value in, and all that is reached through it; `what` names it in errors.

        Raises:
            NotByValue: something has no value that can be compared.
        """
        kind = type(value)
        if value is None or value is Ellipsis or kind is bool:
            self._put("constant", repr(value))
        elif kind is int or kind is str or kind is bytes:
            self._put(kind.__name__, f"{value:x}" if kind is int else value)
        elif kind is float:
            self._put("float", struct.pack("<d", value))
        elif kind is complex:
            self._put("complex", struct.pack("<dd", value.real, value.imag))
        elif kind is tuple:
            self._put("tuple", len(value))
            for number, item in enumerate(value):
                self.add(item, f"{what}[{number}]")
        elif kind is frozenset:
            self._add_set(value, what)
        elif kind in (slice, range):
            self._put(kind.__name__)
            for part in (value.start, value.stop, value.step):
                self.add(part, what)
        elif isinstance(value, CodeType):
            self._add_code(value, what)
        elif isinstance(value, np.dtype):
            self._add_dtype(value)
        elif kind is np.ndarray:
            self._add_array(value, what)
        elif isinstance(value, np.generic):
            self._add_dtype(value.dtype)
            self._put("scalar", _plain_bytes(value, value.dtype, what))
        elif isinstance(value, enum.Enum):
            self.add(kind, what)
            # By its value: flags that no member has are without a name.
            self.add(value.value, what)
        elif isinstance(value, tuple) and hasattr(kind, "_fields"):
            self.add(kind, what)
            self.add(tuple(value), what)
        elif not self._add_once(value, what):
            raise NotByValue(f"{what} is {_shown(value)}")

    def _put(self, tag: str, content: Any = "") -> None:
        data = (
            content if isinstance(content, bytes) else str(content).encode("utf-8", "surrogatepass")
        )
        self._hash.update(f"{tag} {len(data)}\n".encode())
        self._hash.update(data)

    def _add_set(self, items: Iterable[Any], what: str) -> None:
        # Sets have no order: each item's own digest gives one.
        parts = []
        for item in items:
            part = Digest()
            part.add(item, what)
            parts.append(part.hexdigest())
        self._put("frozenset", " ".join(sorted(parts)))

    def _add_dtype(self, dtype: np.dtype[Any]) -> None:
        self._put(
            "dtype", f"{dtype.str} {dtype.itemsize} {dtype.alignment} {dtype.isalignedstruct}"
        )
        if dtype.subdtype is not None:
            self._put("shape", dtype.subdtype[1])
            self._add_dtype(dtype.subdtype[0])
        for name in dtype.names or ():
            field = dtype.fields[name]  # type: ignore[index]
            self._put("field", f"{field[1]} {name}")
            self._add_dtype(field[0])

    def _add_array(self, array: np.ndarray[Any, Any], what: str) -> None:
        self._add_dtype(array.dtype)
        flags = array.flags
        self._put("array", (array.shape, flags.c_contiguous, flags.f_contiguous, flags.aligned))
        self._put("writeable", flags.writeable)
        self._put("bytes", _plain_bytes(array, array.dtype, what))

    # ---- what has an identity -------------------------------------------------------------

    def _add_once(self, value: Any, what: str) -> bool:
        """Take in a function, a class or another object that is one of its kind; False if it is
        none that can be compared. Met again, as in a recursion, it counts by its number."""
        number = self._seen.get(id(value))
        if number is not None:
            self._put("again", number)
            return True
        self._seen[id(value)] = len(self._seen)
        self._alive.append(value)
        if _is_word(value):
            self._put("word", _word_name(value))
        elif hasattr(value, "haulage_function"):
            self._add_own(value, what)
        elif isinstance(value, FunctionType) and _root(value.__module__ or "") not in _FOREIGN:
            self._add_function(value, what)
        elif isinstance(value, type) and issubclass(value, BaseException):
            self.exceptions[value.__module__, value.__qualname__] = value
            self._put("exception", f"{value.__module__} {value.__qualname__}")
        elif isinstance(value, enum.EnumMeta):
            self._put("enum", f"{value.__qualname__} {value.__bases__}")
            for member in value.__members__.values():  # type: ignore[var-annotated]
                self._put("name", member.name)
                self.add(member.value, f"{what}.{member.name}")
        elif isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
            self._put("namedtuple", f"{value.__name__} {value._fields}")
            self.add(tuple(value._field_defaults.items()), what)  # type: ignore[attr-defined]
        elif (name := _known_name(value)) is not None:
            self._put("known", name)
        else:
            return self._add_of_numba(value, what)
        return True

    def _add_own(self, value: Any, what: str) -> None:
        """A kernel or device function of ours."""
        self._put("jit", f"{type(value).__name__} {options_text(value.haulage_options)}")
        for signature in getattr(value, "haulage_signatures", ()):
            self._put("signature", signature)
        self.add(value.py_func, what)

    def _add_of_numba(self, value: Any, what: str) -> bool:
        if "numba" not in sys.modules:
            return False
        from haulage import numba_bridge

        if (text := numba_bridge.type_text(value)) is not None:
            self._put("type", text)
            return True
        if (py_func := numba_bridge.python_function(value)) is not None:
            self._put("njit", _options_text(value.targetoptions))
            self.add(py_func, what)
            return True
        return False

    # ---- functions ------------------------------------------------------------------------

    def _add_function(self, function: FunctionType, what: str) -> None:
        names = names_of(function.__code__)
        if "numba" in sys.modules:
            from haulage import numba_bridge

            extended = numba_bridge.extension(names.attributes)
            if extended is not None:
                raise NotByValue(
                    f"what {extended} means to Numba is defined by an extension of this program"
                )
        self._put("function")
        self.add(function.__code__, function.__qualname__)
        self.add(function.__defaults__, f"a default of {function.__qualname__}")
        for name, default in sorted((function.__kwdefaults__ or {}).items()):
            self._put("keyword", name)
            self.add(default, f"a default of {function.__qualname__}")
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for name, cell in cells.items():
            self._put("cell", name)
            self._add_read(_content(cell), names.cells.get(name, {()}), name)
        for name in sorted(names.globals):
            self._put("global", name)
            value = function.__globals__.get(name, _MISSING)
            if value is _MISSING:
                value = _builtin(function, name)
            self._add_read(value, names.globals[name], name)

    def _add_code(self, code: CodeType, what: str) -> None:
        if code.co_filename not in self.files:
            self.files.append(code.co_filename)
        self._put("code", f"{code.co_qualname} {self.files.index(code.co_filename)}")
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        variables = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self._put("shape", (counts, variables, code.co_firstlineno))
        for part in (code.co_code, code.co_exceptiontable, code.co_linetable):
            self._put("bytes", part)
        self.add(code.co_consts, what)

    def _add_read(self, value: Any, chains: set[Chain], what: str) -> None:
        """What a function reads: a value, or attributes of a module."""
        if value is _MISSING:
            self._put("missing")
        elif not isinstance(value, ModuleType):
            self.add(value, what)
        else:
            self._add_of_module(value, chains, what)

    def _add_of_module(self, module: ModuleType, chains: set[Chain], what: str) -> None:
        self._put("module", module.__name__)
        root = _root(module.__name__)
        if root == "haulage":
            return
        following: dict[str, set[Chain]] = {}
        for chain in chains:
            if chain:
                following.setdefault(chain[0], set()).add(chain[1:])
            elif root not in _KNOWN:
                # From there it can go to another function, or to a variable of the same name.
                raise NotByValue(
                    f"the module {what} is put into a variable or given on, so that what is read "
                    "of it is not known"
                )
        for name in sorted(following):
            self._put("attribute", name)
            value = getattr(module, name, _MISSING)
            self._add_read(value, following[name], f"{what}.{name}")


_MISSING: Any = object()


def options_text(options: Any) -> str:
    """Options of a compilation as a text that is the same in each process."""
    return _options_text(vars(options))


def _options_text(options: dict[str, Any]) -> str:
    shown = {
        name: sorted(value) if isinstance(value, (set, frozenset)) else value
        for name, value in options.items()
    }
    return str(sorted(shown.items()))


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _builtin(function: FunctionType, name: str) -> Any:
    return cast(Any, function).__builtins__.get(name, _MISSING)


def _plain_bytes(value: Any, dtype: np.dtype[Any], what: str) -> bytes:
    if dtype.hasobject:
        raise NotByValue(f"{what} holds Python objects")
    data: bytes = value.tobytes()
    return data


def _is_word(value: Any) -> bool:
    return isinstance(value, (Word, Namespace, Register, Register3))


def _word_name(value: Any) -> str:
    if isinstance(value, Word):
        return f"{value.__qualname__} {value.build.__module__} {value.build.__qualname__}"
    if isinstance(value, Register):
        return f"{value.name} {value.read.__module__} {value.read.__qualname__}"
    if isinstance(value, Register3):
        return value.__name__
    return f"{value.__name__} {sorted(vars(value))}"


def _root(module: str) -> str:
    return module.partition(".")[0]


def _known_name(value: Any) -> str | None:
    """The name by which an object of one of the `_KNOWN` packages can be found."""
    if isinstance(value, np.ufunc):
        ufunc = str(value.__name__)
        return f"numpy.{ufunc}" if getattr(np, ufunc, None) is value else None
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or _root(module) not in _KNOWN:
        return None
    if isinstance(value, BuiltinFunctionType) and not isinstance(
        value.__self__, (ModuleType, type(None))
    ):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}.{name}" if found is value else None


def _shown(value: Any) -> str:
    kind = type(value)
    return f"a value of {kind.__module__}.{kind.__qualname__}, which cannot be compared"
