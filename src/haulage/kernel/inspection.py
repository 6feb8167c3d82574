"""What can be asked of a kernel that is compiled for some signatures."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from haulage.errors import LaunchError, Unsupported
from haulage.kernel.overload import Overload
from haulage.platforms import PLATFORMS
from haulage.runtime.devices import registry
from haulage.tracebacks import brief_errors


class Inspection(ABC):
    """The questions. Each takes a signature: a tuple of types, a Numba signature or a string.

    Without one, each answers with a dictionary by signature; the figures (`get_...`) of a
    specialised kernel are then plain numbers.

    All of them raise LaunchError if the kernel is not compiled for the signature.
    """

    __qualname__: str

    @property
    @abstractmethod
    def overloads(self) -> dict[tuple[Any, ...], Overload]:
        """Tuple of Numba types -> `Overload`, for the kind of the current device."""

    @property
    @abstractmethod
    def specialized(self) -> bool:
        """Whether the kernel takes one signature and no other."""

    @property
    def signatures(self) -> list[tuple[Any, ...]]:
        """The signatures that the kernel was compiled for, each a tuple of Numba types."""
        return list(self.overloads)

    def inspect_llvm(self, signature: Any = None) -> Any:
        """The LLVM IR that the front end made."""
        return self._of(signature, Overload.inspect_llvm)

    def inspect_asm(self, signature: Any = None, cc: Any = None) -> Any:
        """Assembly of the code that was loaded last, or of that for a block of usual size; with
        `cc`, a compute capability such as (9, 0), PTX for NVIDIA's GPUs of that one."""
        return self._of(signature, lambda overload: overload.inspect_asm(cc))

    def inspect_types(self, file: Any = None) -> None:
        """Print the source with the types that were inferred, to `file` or `sys.stdout`."""
        for overload in self.overloads.values():
            overload.inspect_types(file)

    def inspect_sass(self, signature: Any = None) -> Any:
        """SASS, the assembly of NVIDIA's GPUs, by their disassembler.

        Raises:
            Unsupported: the current device is no such GPU, or NVIDIA's tools are not there.
        """
        return self._sass(signature, Overload.inspect_sass)

    def inspect_sass_cfg(self, signature: Any = None) -> Any:
        """The graph of the blocks of SASS, for Graphviz.

        Raises:
            As `inspect_sass`.
        """
        return self._sass(signature, Overload.inspect_sass_cfg)

    def _sass(self, signature: Any, question: Callable[[Overload], str]) -> Any:
        here = registry.current_device()
        if not PLATFORMS[here.kind].has_sass:
            raise Unsupported(
                f"kernel {self.__qualname__}: SASS is the code of NVIDIA's GPUs, and the current "
                f"device is {here}; inspect_asm gives its code, and haulage.compile(kernel, "
                "signature, 'sm_90').sass() that of such a GPU"
            )
        return self._of(signature, question)

    def get_metadata(self, signature: Any = None) -> Any:
        """What is known of the code: entry, target, block, bytes of memory; see `Code.metadata`."""
        return self._of(signature, lambda overload: overload.code.metadata)

    def get_shared_mem_per_block(self, signature: Any = None) -> Any:
        """Bytes of the shared arrays with constant shapes."""
        return self._figure(signature, "shared_mem_per_block")

    def get_local_mem_per_thread(self, signature: Any = None) -> Any:
        """Bytes of the arrays that a thread has for itself."""
        return self._figure(signature, "local_mem_per_thread")

    def get_max_threads_per_block(self, signature: Any = None) -> Any:
        """Threads that a block can have on the current device."""
        return self._figure(signature, "max_threads_per_block")

    def get_regs_per_thread(self, signature: Any = None) -> Any:
        """Registers that the code of a thread uses; on the CPU those of a core that it names."""
        return self._figure(signature, "regs_per_thread")

    def get_const_mem_size(self, signature: Any = None) -> Any:
        """Bytes of the arrays of constants, which are a part of the code on the CPU."""
        return self._figure(signature, "const_mem_size")

    def _figure(self, signature: Any, name: str) -> Any:
        answers = self._of(signature, lambda overload: getattr(overload, name))
        return next(iter(answers.values())) if signature is None and self.specialized else answers

    @brief_errors
    def _of(self, signature: Any, question: Callable[[Overload], Any]) -> Any:
        if signature is None:
            return {kinds: question(overload) for kinds, overload in self.overloads.items()}
        from haulage.compiler.frontend import parse_signature

        overloads = self.overloads
        overload = overloads.get(parse_signature(signature))
        if overload is None:
            raise LaunchError(
                f"kernel {self.__qualname__} is not compiled for {signature}; it is for "
                f"{', '.join(map(str, overloads)) or 'nothing yet'}"
            )
        return question(overload)
