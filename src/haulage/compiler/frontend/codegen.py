"""Numba's code libraries without code: they gather the LLVM IR of a function and its callees."""

from typing import Any, NoReturn
from weakref import WeakValueDictionary

from llvmlite import ir
from numba.core import cgutils
from numba.core.codegen import Codegen, CodeLibrary


class IRLibrary(CodeLibrary):
    """The IR modules of one compiled function and, by reference, of all that it calls."""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self._own: list[Any] = []
        self._linked: list[IRLibrary] = []

    def add_ir_module(self, module: Any) -> None:
        self._own.append(module)
        for function in module.functions:
            if not function.is_declaration:
                self.codegen.owners[function.name] = self

    def add_linking_library(self, library: Any) -> None:
        self._linked.append(library)

    def modules(self) -> list[Any]:
        """Each module once, this function's own first."""
        found: list[Any] = []
        libraries: list[IRLibrary] = [self]
        seen: set[int] = set()
        while libraries:
            library = libraries.pop(0)
            if id(library) in seen:
                continue
            seen.add(id(library))
            found += library._own
            libraries += library._linked
            for module in library._own:
                names = sorted(getattr(module, "haulage_unresolved", ()))
                libraries += [self.codegen.owners[name] for name in names]
        return found

    def finalize(self) -> None:
        self._finalized = True

    def get_function(self, name: str) -> Any:
        for module in self.modules():
            if name in module.globals:
                return module.globals[name]
        raise KeyError(name)

    def get_llvm_str(self) -> str:
        return "\n".join(str(module) for module in self.modules())

    def _reduce_states(self) -> NoReturn:
        """Refused: what is pickled, by Numba's `reduce`, is the library of code that is made."""
        raise RuntimeError(
            f"Cannot pickle unfinalized library {self.name!r}: it gathers LLVM IR; pickle the "
            "kernel or the function"
        )

    def get_asm_str(self) -> str:
        raise NotImplementedError("an IR library has no machine code")


class IRCodegen(Codegen):
    """Makes empty modules for a target."""

    _library_class = IRLibrary

    def __init__(self, target: Any) -> None:
        self._target = target
        self.owners: WeakValueDictionary[str, IRLibrary] = WeakValueDictionary()

    def _create_empty_module(self, name: str) -> Any:
        module = ir.Module(name)
        module.triple = self._target.triple
        module.data_layout = self._target.data_layout
        module.haulage_target = self._target
        return module

    def insert_unresolved_ref(self, builder: Any, fnty: Any, name: str) -> Any:
        """A function that is called before its library is known, as in a recursion."""
        if not hasattr(builder.module, "haulage_unresolved"):
            builder.module.haulage_unresolved = set()
        builder.module.haulage_unresolved.add(name)
        return cgutils.get_or_insert_function(builder.module, fnty, name)

    def _add_module(self, module: Any) -> None:
        """Nothing to keep: libraries hold their modules."""
