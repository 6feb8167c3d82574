"""A kernel for one signature: its body, its code where that is loaded, and what can be asked."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from haulage import config
from haulage.kernel.vocabulary import Vocabulary
from haulage.runtime import device
from haulage.runtime.launching.arguments import Key, Packer
from haulage.runtime.launching.launch import Loaded

if TYPE_CHECKING:
    from haulage.compiler.cache.kept import KeptBody
    from haulage.compiler.code import Code
    from haulage.compiler.emit import Body


class Overload:
    """A kernel for one signature on one kind of device; what `kernel.overloads` holds.

    Figures are those of the code that was loaded last, or of a block of the vocabulary's usual size
    where none was; on the CPU device they are the same for all sizes.
    """

    def __init__(
        self, body: "Body | KeptBody", keys: tuple[Key, ...], vocabulary: Vocabulary
    ) -> None:
        self.body = body
        self.packer = Packer(keys)
        self.loaded: dict[tuple[device.Device, tuple[int, int, int], str], Loaded] = {}
        self._keys = keys
        self._vocabulary = vocabulary

    @cached_property
    def argument_types(self) -> tuple[Any, ...]:
        """The Numba types of the arguments."""
        from haulage import numba_bridge

        return tuple(numba_bridge.numba_type(key) for key in self._keys)

    @property
    def code(self) -> "Code":
        """The code that was loaded last; compiled now for a block of the usual size if none was."""
        if self.loaded:
            return list(self.loaded.values())[-1].code
        return self.body.code((self._vocabulary.usual_block, 1, 1), config.thread_way())

    @property
    def shared_mem_per_block(self) -> int:
        """Bytes of the shared arrays with constant shapes."""
        return int(self.code.metadata["shared_bytes"])

    @property
    def local_mem_per_thread(self) -> int:
        """Bytes of the arrays that a thread has for itself."""
        return int(self.code.metadata["local_bytes"])

    @property
    def regs_per_thread(self) -> int:
        """Registers that belong to a thread: 0 on the CPU, where threads share those of a core."""
        return 0

    @property
    def const_mem_size(self) -> int:
        """Bytes of constant memory: 0 on the CPU, where constants are a part of the code."""
        return 0

    @property
    def max_threads_per_block(self) -> int:
        """Threads that a block of this kernel can have on the current device."""
        return int(device.current_device().properties.max_threads_per_block)

    def inspect_llvm(self) -> str:
        """The LLVM IR that the front end made."""
        return self.body.lowered.llvm

    def inspect_asm(self) -> str:
        """Assembly of `code`."""
        return self.code.asm

    def inspect_types(self, file: Any = None) -> None:
        """Print the source with the types that were inferred, to `file` or `sys.stdout`."""
        print(f"{self.body.name} {self.argument_types}", file=file)
        print("-" * 80, file=file)
        print(self.body.lowered.types, file=file)
        print("=" * 80, file=file)

    def __repr__(self) -> str:
        return f"<overload {self.body.name}{self.body.lowered.signature}>"
