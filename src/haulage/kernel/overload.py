"""A kernel for one signature: its body, its code where that is loaded, and what can be asked."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from haulage import config, forks
from haulage.compiler.versions import GENERAL, LEAST_BITS, NOTHING, suits, version
from haulage.forks import cached_property
from haulage.kernel.configuration import in_blocks
from haulage.kernel.vocabulary import Vocabulary
from haulage.platforms import platform_for
from haulage.runtime.arrays.keys import ARRAY, SCALAR, Key
from haulage.runtime.devices import registry
from haulage.runtime.devices.device import Device
from haulage.runtime.launch.loaded import ANY_BLOCK, Dims, Loaded, check_limits
from haulage.runtime.launch.packing import flat
from haulage.runtime.process import observing

if TYPE_CHECKING:
    from haulage.compiler.access.model import Accesses
    from haulage.compiler.body import Body
    from haulage.compiler.cache.kept import KeptBody
    from haulage.compiler.code import Code


_THREADS = "threads"
# So many threads of NVIDIA's GPUs have registers enough, whatever the code: 65536 for 255 each.
_SURELY_FIT = 256
# Versions that are made for launches, besides the general one.
MOST_VERSIONS = 8


class TypeAnnotation(NamedTuple):
    """`typemap`: Numba's types of a kernel's variables, by name. `text`: its source with them."""

    typemap: dict[str, Any]
    text: str

    def __str__(self) -> str:
        return self.text


class Library:
    """The texts of an overload's code, as Numba's code libraries give them."""

    # Nothing of others is linked with a kernel.
    _linking_files: frozenset[str] = frozenset()

    def __init__(self, overload: "Overload") -> None:
        self._overload = overload

    def get_llvm_str(self) -> str:
        """The LLVM IR that the front end made."""
        return self._overload.inspect_llvm()

    def get_asm_str(self, cc: Any = None) -> str:
        """Assembly of the overload's code; with `cc`, PTX for GPUs of that compute capability."""
        return self._overload.inspect_asm(cc)


class Overload:
    """A kernel for one signature on one kind of device; what `kernel.overloads` holds.

    Texts and figures are those of the code that was loaded last, or of a block of the vocabulary's
    usual size where none was. On the CPU device the figures are the same for all sizes; what a
    GPU's driver says is of the code that is not made for large blocks.
    """

    def __init__(
        self,
        body_for: "Callable[..., Body | KeptBody]",
        code_for: tuple[str, str],
        keys: tuple[Key, ...],
        vocabulary: Vocabulary,
        carveout: int | None = None,
    ) -> None:
        self.body = body_for(code_for)
        self._body_for = body_for
        self._carveout = carveout
        self.loaded: dict[tuple[Device, tuple[int, int, int], str, str], Loaded] = {}
        self._checked: dict[object, Loaded] = {}
        self._checked_bodies: dict[frozenset[str], Body | KeptBody] = {}
        self._local_bytes: dict[str, int] = {}
        self._versions: set[str] = {GENERAL}
        self._lock = forks.lock()
        self.keys = keys
        self._vocabulary = vocabulary

    def load(self, place: Device, block: Dims, traits: Sequence[str] = ()) -> Loaded:
        """The code for blocks of one size, loaded on a device; made now if it is not there yet.

        `traits` has for each argument, the entries of tuples instead of these, what the launch
        found in it, see `compiler.versions`; without that, and on GPUs, it is the general code.

        Where code is the same for all sizes, there is another one for blocks of more threads than
        it leaves registers for.
        """
        if place.properties.code_per_block:
            made = self.version_for(traits) if place.properties.code_in_versions else GENERAL
            return self._loaded(place, block, config.thread_way(), made)
        loaded = self._loaded(place, ANY_BLOCK, _THREADS)
        threads = block[0] * block[1] * block[2]
        if threads > _SURELY_FIT and loaded.code.is_ptx and threads > loaded.most_threads:
            # For sizes that are powers of two, that there be few codes.
            bounded = 1 << (threads - 1).bit_length()
            loaded = self._loaded(place, (bounded, 1, 1), _THREADS)
        return loaded

    def load_checked(
        self, place: Device, block: Dims, checks: frozenset[str], version: str
    ) -> Loaded:
        """Code of the CPU device that checks what its threads do; `version` is one of
        `emit.version_without`."""
        way = config.thread_way()
        key = place, block, way, checks, version
        with self._lock:
            if key not in self._checked:
                code = self._checked_body(place, checks).code(block, way, version)
                self._checked[key] = Loaded(place, code)
            return self._checked[key]

    def checked_body(self, place: Device, checks: frozenset[str]) -> Any:
        """The kernel as it is compiled with checks: a `CPUBody`."""
        with self._lock:
            return self._checked_body(place, checks)

    def _checked_body(self, place: Device, checks: frozenset[str]) -> Any:
        if checks not in self._checked_bodies:
            self._checked_bodies[checks] = self._body_for(place.code_for, checks)
        return self._checked_bodies[checks]

    def local_bytes_on(self, architecture: str) -> int:
        """The bytes of local memory that a thread takes in code for a GPU, which need not be there,
        as `sm_80`.

        Raises:
            CompileError: the kernel cannot be compiled for it.
        """
        with self._lock:
            if architecture not in self._local_bytes:
                code = self._code_for(architecture)
                self._local_bytes[architecture] = int(code.metadata["local_bytes"])
            return self._local_bytes[architecture]

    def _code_for(self, architecture: str) -> Any:
        body = self._body_for((platform_for(architecture).name, architecture))
        return body.code(ANY_BLOCK, _THREADS)

    def version_for(self, traits: Sequence[str]) -> str:
        """The version of the code for what a launch found in its arguments.

        Of the versions that are made already the best one that suits, once there are many.
        """
        wanted = version([traits[number] for number in self._open] if traits else [])
        with self._lock:
            if wanted not in self._versions and len(self._versions) > MOST_VERSIONS:
                fitting = [made for made in self._versions if suits(made, wanted)]
                return max(fitting, key=lambda made: (len(made) - made.count(NOTHING), made))
            self._versions.add(wanted)
            return wanted

    @cached_property
    def _open(self) -> list[int]:
        """The numbers of the arguments whose types leave open what versions are for."""
        return [
            number
            for number, key in enumerate(flat(self.keys))
            if (key[0] == ARRAY and key[3] == "A")
            or (key[0] == SCALAR and key[1].kind == "i" and 8 * key[1].itemsize >= LEAST_BITS)
        ]

    def _loaded(self, place: Device, block: Dims, way: str, version: str = GENERAL) -> Loaded:
        key = place, block, way, version
        loaded = self.loaded.get(key)
        if loaded is None:
            with self._lock:
                loaded = self.loaded.get(key)
                if loaded is None:
                    loaded = observing.compiling(self.body.name, self._load, *key)
                    self.loaded[key] = loaded
        return loaded

    def _load(self, place: Device, block: Dims, way: str, version: str) -> Loaded:
        return Loaded(place, self.body.code(block, way, version), self._carveout)

    @cached_property
    def argument_types(self) -> tuple[Any, ...]:
        """The Numba types of the arguments."""
        from haulage import numba_bridge

        return tuple(numba_bridge.numba_type(key) for key in self.keys)

    @cached_property
    def access(self) -> "Accesses":
        """What it does with its arguments; found out when this is asked for first.

        Raises:
            CompileError: it cannot be compiled for any block.
        """
        return self.body.access

    @property
    def signature(self) -> Any:
        """Numba's signature: the arguments' types, and none as the result."""
        from haulage import numba_bridge

        return numba_bridge.kernel_signature(self.argument_types)

    @property
    def type_annotation(self) -> TypeAnnotation:
        """The types that were inferred."""
        lowered = self.body.lowered
        return TypeAnnotation(lowered.typemap, lowered.types)

    @property
    def library(self) -> Library:
        """The texts of the code."""
        return Library(self)

    # As Numba's kernels call them.
    _type_annotation = type_annotation
    _codelibrary = library

    @property
    def entry_name(self) -> str:
        """The name of the kernel's function in `inspect_llvm()`."""
        return self.body.lowered.entry

    @property
    def code(self) -> "Code":
        """The code that was loaded last; compiled now for a block of the usual size if none was."""
        if self.loaded:
            return list(self.loaded.values())[-1].code
        if not registry.current_device().properties.code_per_block:
            return self.body.code(ANY_BLOCK, _THREADS)
        return self.body.code((self._vocabulary.usual_block, 1, 1), config.thread_way())

    @property
    def shared_mem_per_block(self) -> int:
        """Bytes of the shared arrays with constant shapes."""
        return int(self.code.metadata["shared_bytes"])

    @property
    def local_mem_per_thread(self) -> int:
        """Bytes of the arrays that a thread has for itself; on GPUs of all its local memory, as the
        driver says."""
        told = self._told()
        return int(self.code.metadata["local_bytes"] if told is None else told["local_bytes"])

    @property
    def regs_per_thread(self) -> int:
        """Registers that the code of a thread uses; on the CPU those of a core that it names, which
        its threads share."""
        told = self._told()
        return self.code.resources["registers"] if told is None else told["registers"]

    @property
    def const_mem_size(self) -> int:
        """Bytes of the arrays of constants, which are a part of the code on the CPU."""
        return int(self.code.metadata["constant_bytes"])

    @property
    def max_threads_per_block(self) -> int:
        """Threads that a block of this kernel can have on the current device."""
        told = self._told()
        if told is not None:
            return told["max_threads"]
        return int(registry.current_device().properties.max_threads_per_block)

    def _told(self) -> dict[str, int] | None:
        """What the current device's driver says of the code, which is loaded for that; None where
        code is made for one size of block, and says it itself."""
        place = registry.current_device()
        if place.properties.code_per_block:
            return None
        loaded = self.load(place, ANY_BLOCK)
        place.activate()
        return place.backend.function_info(loaded.function)

    @property
    def cooperative(self) -> bool:
        """Whether it names its grid as a group, so that all blocks are there at one time."""
        return bool(self.code.metadata["cooperative"])

    def max_cooperative_grid_blocks(self, blockdim: Any, dynsmemsize: int = 0) -> int:
        """How many blocks the grid of a cooperative kernel can have on the current device.

        Args:
            blockdim: threads of a block, an int or up to three.
            dynsmemsize: bytes of dynamic shared memory for each block.

        Raises:
            LaunchError: no kernel can be launched with such blocks.
        """
        configuration = in_blocks(1, blockdim, 0, dynsmemsize)
        place = registry.current_device()
        check_limits(configuration, place.properties, self.body.name)
        loaded = self.load(place, configuration.block)
        return loaded.max_cooperative_blocks(configuration.block, configuration.shared_bytes)

    def inspect_llvm(self) -> str:
        """The LLVM IR that the front end made."""
        return self.body.lowered.llvm

    def inspect_asm(self, cc: Any = None) -> str:
        """Assembly of `code`; with `cc`, a compute capability such as (9, 0), PTX for NVIDIA's GPUs
        of that one, without any.

        Raises:
            ValueError: no code can be made for the compute capability.
        """
        if cc is None:
            return self.code.asm
        from haulage.targets.nvidia_architectures import for_capability

        return self._code_for(for_capability(cc)).asm

    def inspect_sass(self) -> str:
        """SASS, the assembly of NVIDIA's GPUs, by their disassembler.

        Raises:
            Unsupported: the code is for another processor, or NVIDIA's tools are not there.
        """
        return self.code.sass()

    def inspect_sass_cfg(self) -> str:
        """The graph of the blocks of SASS, for Graphviz.

        Raises:
            As `inspect_sass`.
        """
        return self.code.sass(control_flow=True)

    def inspect_types(self, file: Any = None) -> None:
        """Print the source with the types that were inferred, to `file` or `sys.stdout`."""
        if file is not None and not callable(getattr(file, "write", None)):
            raise TypeError(f"inspect_types({file!r}): expected a file to write text to, or None")
        print(f"{self.body.name} {self.argument_types}", file=file)
        print("-" * 80, file=file)
        print(self.body.lowered.types, file=file)
        print("=" * 80, file=file)

    def __repr__(self) -> str:
        return f"<overload {self.body.name}{self.body.lowered.signature}>"
