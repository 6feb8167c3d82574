"""Modules that only give names of other modules: a table describes them, and none has a file.

The table of a package such as `haulage.cuda` is a `Table` in its module `_modules`. The path of
that module stands in the package's `__path__`, behind the folder, as an archive would: by it Python
finds the modules of the table wherever it finds those of files, in `import`, `importlib` and
`pkgutil`.
"""

import functools
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from opcode import opmap
from operator import attrgetter
from types import CodeType, FrameType, MappingProxyType, ModuleType
from typing import Any, NoReturn

from haulage.spelling import did_you_mean

_NOT_OFFERED = {"Any", "TYPE_CHECKING", "annotations"}
_NONE: Mapping[str, str] = MappingProxyType({})


class Module:
    """A module of a table.

    Attributes:
        doc: its docstring.
        names: what it has: the module that a name is from -> the names, with spaces between them.
            `name=attribute` is called otherwise there, and `*` is all that `from ... import *`
            gives. Of a package, names from itself are its submodules.
        missing: why it has no other names, and what to do, for the end of a sentence.
        others: the full name of the function that answers for other names, as a `__getattr__`.
        kind: the full name of its class; '' is the class of all modules.
    """

    __slots__ = ("doc", "kind", "missing", "names", "others")

    def __init__(
        self,
        doc: str,
        names: Mapping[str, str] = _NONE,
        *,
        missing: str = "",
        others: str = "",
        kind: str = "",
    ) -> None:
        self.doc, self.names = doc, names
        self.missing, self.others, self.kind = missing, others, kind


class Table:
    """What a package has without a file, and what it has not.

    Attributes:
        package: the package's `__name__`.
        file: where the table is written.
        modules: the modules that are in no file, by their names behind that of the package.
        names: names of the package itself that are imported when they are asked for, as in
            `Module.names`.
        offered: such names and submodules that completion offers, besides `__all__`.
        missing: why names and modules of Numba's are not there, and what to do, for the end of a
            sentence -> these names. What is below such a module is not there for the same reason.
    """

    def __init__(
        self,
        package: str,
        file: str,
        modules: Mapping[str, Module],
        names: Mapping[str, str],
        offered: str,
        missing: Mapping[str, str],
    ) -> None:
        self.package, self.file, self.modules = package, file, modules
        self.names, self.offered, self.missing = names, offered, missing


_tables: dict[str, Table] = {}


def serve(table: Table, offered: Iterable[str]) -> tuple[Callable[[str], Any], Callable[[], list]]:
    """Let the modules of a table be imported; a package calls it while it is imported.

    Args:
        table: its table.
        offered: the names that `dir()` gives besides those that the table offers.

    Returns:
        The package's `__getattr__` and `__dir__`.
    """
    if _path_hook not in sys.path_hooks:
        sys.path_hooks.append(_path_hook)
    _tables[table.file] = table
    path = sys.modules[table.package].__path__
    if table.file not in path:
        path.append(table.file)
    return _package(table.package, table.names, offered=[*offered, *table.offered.split()])


def origins(names: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Name -> (module, attribute there), of names as in `Module.names`; imports for `*` only."""
    found = {}
    for source, words in names.items():
        for word in words.split():
            if word == "*":
                found.update({name: (source, name) for name in _public(source)})
            else:
                name, _, attribute = word.partition("=")
                found[name] = (source, attribute or name)
    return found


def _public(source: str) -> list[str]:
    module = importlib.import_module(source)
    names: list[str] | None = getattr(module, "__all__", None)
    # Those that pytest puts in where it rewrites assertions are no identifiers.
    return names or [name for name in vars(module) if name[0] != "_" and name.isidentifier()]


def _value(source: str, attribute: str) -> Any:
    return attrgetter(attribute)(importlib.import_module(source))


def _named(full_name: str) -> Any:
    home, _, attribute = full_name.rpartition(".")
    return _value(home, attribute)


# ---- how Python finds them --------------------------------------------------------------------


def _path_hook(entry: str) -> "_Finder":
    """The finder of an entry of a package's `__path__`: a table's file, or a package below it."""
    for table in _tables.values():
        if entry == table.file or entry.startswith(table.file + "/"):
            return _Finder(table, entry[len(table.file) + 1 :].replace("/", "."))
    raise ImportError(f"{entry!r} is no table of modules", path=entry)


class _Finder:
    """Finds the modules of a table that are directly below one of its packages; '' is the top."""

    def __init__(self, table: Table, inside: str) -> None:
        self._table = table
        self._inside = inside

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        name = fullname.removeprefix(self._table.package + ".")
        if name not in self._table.modules or name.rpartition(".")[0] != self._inside:
            return None
        is_package = self._is_package(name)
        loader: Any = _Loader(self._table.modules[name], is_package)
        spec = ModuleSpec(fullname, loader, origin=self._table.file, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = ["/".join([self._table.file, *name.split(".")])]
        return spec

    def iter_modules(self, prefix: str = "") -> Iterator[tuple[str, bool]]:
        """What `pkgutil` lists: (name, whether it is a package)."""
        for name in self._table.modules:
            inside, _, last = name.rpartition(".")
            if inside == self._inside:
                yield prefix + last, self._is_package(name)

    def _is_package(self, name: str) -> bool:
        return any(other.startswith(name + ".") for other in self._table.modules)


class _Loader:
    """Makes a module of a table by putting its names in."""

    def __init__(self, described: Module, is_package: bool) -> None:
        self._described = described
        self._is_package = is_package

    def get_code(self, fullname: str) -> CodeType:
        """What `python -m` runs in its place."""
        return compile(f"from {fullname} import *", "<table of modules>", "exec")

    def get_source(self, fullname: str) -> None:
        """It has none."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Python makes the module."""

    def exec_module(self, module: ModuleType) -> None:
        described, fields = self._described, vars(module)
        fields["__doc__"] = described.doc
        names = origins(described.names)
        if names:
            fields["__all__"] = [name for name in names if name[0] != "_"]
        if self._is_package:
            made = _package(module.__name__, missing=described.missing)
            fields["__getattr__"], fields["__dir__"] = made
        elif described.others:
            fields["__getattr__"] = _named(described.others)
        elif described.missing:
            fields["__getattr__"] = _missing_names(module.__name__, described.missing)
        for name, (source, attribute) in names.items():
            if source != module.__name__:
                fields[name] = _value(source, attribute)
        if described.kind:
            module.__class__ = _named(described.kind)


# ---- names that are imported when they are asked for, and names that are missing --------------


def _package(
    package: str,
    names: Mapping[str, str] = _NONE,
    missing: str = "",
    offered: Iterable[str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and the `__dir__` of a package that imports what is asked for only then.

    Args:
        package: its `__name__`.
        names: names of what is in other modules, as in `Module.names`.
        missing: why it has nothing else, for what no table has a reason.
        offered: the names that `dir()` gives, for completion; without it all that are not of the
            import machinery or of `typing`. What is not offered is there all the same.
    """
    elsewhere = origins(names)

    def __getattr__(name: str) -> Any:
        if name in elsewhere:
            return _value(*elsewhere[name])
        own = f"{package}.{name}"
        if not name.startswith("__"):
            if importlib.util.find_spec(own) is not None:
                return importlib.import_module(own)
            reason = why_missing(own) or missing
            if reason:
                refuse(package, name, reason, sys._getframe(1))
        raise AttributeError(
            f"module {package!r} has no attribute {name!r}{meant(name)}", name=name
        )

    # Numba asks each module that a kernel names for attributes of other objects, many times.
    @functools.lru_cache(maxsize=256)
    def meant(name: str) -> str:
        return "" if name.startswith("_") else did_you_mean(name, known())

    def known() -> set[str]:
        here = sys.modules[package]
        own = {each.name for each in pkgutil.iter_modules(here.__path__)}
        return {*vars(here), *own, *elsewhere} - _NOT_OFFERED

    def __dir__() -> list[str]:
        here = sys.modules[package]
        if offered is not None:
            return sorted({*offered, *(name for name in vars(here) if name.startswith("__"))})
        return sorted(known())

    return __getattr__, __dir__


def why_missing(path: str) -> str:
    """Why something of Numba's is not there, and what to do, for the end of a sentence.

    Args:
        path: its full name, with `haulage` for `numba`, such as `haulage.cuda.bf16`.

    Returns:
        The reason; '' where no table has one.
    """
    for table in _tables.values():
        name = path.removeprefix(table.package + ".")
        while name and name != path:
            for reason, names in table.missing.items():
                if name in names.split():
                    return reason
            name = name.rpartition(".")[0]
    return ""


def _missing_names(module: str, why: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module, for the names that it has not.

    Args:
        module: the module's `__name__`.
        why: the reason, and what to do, for the end of a sentence.

    Returns:
        A function that raises as `refuse` does.
    """

    def __getattr__(name: str) -> NoReturn:
        refuse(module, name, why, sys._getframe(1))

    return __getattr__


def refuse(module: str, name: str, why: str, asking: FrameType) -> NoReturn:
    """Tell that a module has not a name, and why.

    Args:
        module: the module's `__name__`.
        name: what is asked of it.
        why: the reason, and what to do, for the end of a sentence.
        asking: the frame that asks: the caller of the module's `__getattr__`.

    Raises:
        ImportError: from within `from module import name`, because Python would replace an
            AttributeError there, and its reason with it.
        AttributeError: from everywhere else, and for names such as `__path__`.
    """
    shown = module.replace("haulage", "numba", 1)
    if name.startswith("__"):
        raise AttributeError(f"module {shown!r} has no attribute {name!r}", name=name)
    message = f"Haulage's {shown} has no {name!r}: {why}"
    if asking.f_code.co_code[asking.f_lasti] == opmap["IMPORT_FROM"]:
        raise ImportError(message, name=module)
    raise AttributeError(message, name=name)
