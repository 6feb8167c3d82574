"""PTX in this process: translated, compiled and linked; and `run`, for a single launch."""

import ctypes
import hashlib
import struct
import threading

from doubles.ptx import runtime
from doubles.ptx.translate import ADDRESS, RUN, TOGETHER, Entry, Translated, translate
from haulage.backends.cpu_driver.loader import Loader
from haulage.compiler import llvm
from haulage.errors import DeviceError
from haulage.targets import cpu

# grid, block, dynamic shared bytes, nothing; the arguments follow.
HEADER = struct.Struct("=8I")
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

_compiled: dict[str, tuple[Translated, bytes]] = {}
_lock = threading.RLock()


def compiled(text: str) -> tuple[Translated, bytes]:
    """What is known of a text, and object code for this processor; made once for each text.

    Raises:
        PTXError: with the line of what is not known or not allowed.
    """
    key = hashlib.sha256(text.encode()).hexdigest()
    with _lock:
        if key not in _compiled:
            runtime.library()
            translated = translate(text)
            target = cpu.host(32)
            with llvm.LOCK:
                module = llvm.parse(translated.llvm)
                llvm.optimise(module, target, 1, widen=False)
                _compiled[key] = translated, llvm.object_code(module, target)
        return _compiled[key]


class Loaded:
    """A module in this process, as long as this lives."""

    def __init__(self, text: str) -> None:
        self.translated, code = compiled(text)
        self._loader = Loader()
        self._handle = self._loader.load(code)

    def entry(self, name: str) -> Entry:
        """What is known of an entry.

        Raises:
            DeviceError: there is none of that name.
        """
        entry = self.translated.entries.get(name)
        if entry is None:
            names = ", ".join(sorted(self.translated.entries)) or "none"
            raise DeviceError(f"the module has no entry {name!r}; it has {names}")
        return entry

    def address(self, name: str, *, together: bool = False) -> int:
        """The address of the function that runs blocks of an entry, as `CPUBackend.function` has
        it; of all blocks of a grid at once, if `together`."""
        return self._loader.function(self._handle, (TOGETHER if together else RUN) + name)

    def symbol(self, name: str) -> tuple[int, int]:
        """(address, bytes) of a variable.

        Raises:
            DeviceError: there is none of that name.
        """
        if name not in self.translated.variables:
            raise DeviceError(f"the module has no variable {name!r}")
        get = ctypes.CFUNCTYPE(ctypes.c_void_p)(self._loader.function(self._handle, ADDRESS + name))
        return get() or 0, self.translated.variables[name]

    def close(self) -> None:
        """Take it out again; nothing of it runs any more."""
        self._loader.unload(self._handle)

    def launch(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: bytes,
        *,
        together: bool = False,
    ) -> None:
        """Run a grid to its end in this thread.

        Raises:
            DeviceError: a thread did what is not allowed, or nobody can go on.
        """
        check(self.entry(name), block, arguments)
        launch = HEADER.pack(*grid, *block, shared_bytes, 0) + arguments
        self._run(self.address(name, together=together), launch, grid[0] * grid[1] * grid[2])

    def run_together(self, name: str, launch: bytes, blocks: int) -> None:
        """Run a grid of so many blocks that wait for one another; `launch` is as the CPU device
        has it, header and arguments.

        Raises:
            DeviceError: as for `launch`.
        """
        self._run(self.address(name, together=True), launch, blocks)

    @staticmethod
    def _run(address: int, launch: bytes, blocks: int) -> None:
        if _ENTRY(address)(launch, 0, blocks):
            runtime.raise_error()


def check(entry: Entry, block: tuple[int, int, int], arguments: bytes | None = None) -> None:
    """See that an entry can be launched so.

    Raises:
        DeviceError: it cannot.
    """
    threads = block[0] * block[1] * block[2]
    most = entry.most_threads or 1024
    if not 0 < threads <= most:
        raise DeviceError(f"{entry.name} of {threads} threads a block; it can have up to {most}")
    if entry.block is not None and block != (*entry.block, 1, 1)[:3]:
        raise DeviceError(f"{entry.name} with blocks of {block}; they have to be of {entry.block}")
    if arguments is not None and len(arguments) < entry.parameter_bytes:
        raise DeviceError(
            f"{entry.name} takes {entry.parameter_bytes} bytes of parameters, not {len(arguments)}"
        )


def run(
    ptx_text: str,
    entry: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
    argument_bytes: bytes,
    *,
    together: bool = False,
) -> None:
    """Run one grid of an entry of a PTX text to its end, in this thread.

    Args:
        ptx_text: the module.
        entry: the entry's name in it.
        grid, block: sizes (x, y, z).
        shared_bytes: dynamic shared memory of each block.
        argument_bytes: the parameters, packed as a C structure; addresses are those of the process.
        together: whether all blocks are there at one time, as in a cooperative launch.

    Raises:
        PTXError: the text has something that is not known here.
        DeviceError: a thread did what is not allowed, or nobody can go on.
    """
    module = Loaded(ptx_text)
    try:
        module.launch(entry, grid, block, shared_bytes, argument_bytes, together=together)
    finally:
        module.close()
