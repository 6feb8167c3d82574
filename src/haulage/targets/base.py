"""What every code target gives: its LLVM names and how each kernel word ends up in its code.

A target is data plus hooks. The hooks are the rows that `lang/` asks for when a word comes down to
something only the hardware knows: a special register, a barrier, the room of a shared array. They
get an `llvmlite.ir` builder and give back a value of it; nothing here imports Numba or a driver.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

# What the index words read, in the order in which targets that pass them as arguments do so.
INDEX_REGISTERS = tuple(
    f"{group}.{axis}"
    for group in ("threadIdx", "blockIdx", "blockDim", "gridDim")
    for axis in "xyz"
)

# [low, high) of each register, as CUDA's limits give them; they hold on every target.
REGISTER_RANGES: dict[str, tuple[int, int]] = {
    **{f"threadIdx.{axis}": (0, 1024) for axis in "xyz"},
    **{f"blockDim.{axis}": (1, 1025) for axis in "xyz"},
    "blockIdx.x": (0, 2**31 - 1),
    "blockIdx.y": (0, 65535),
    "blockIdx.z": (0, 65535),
    "gridDim.x": (1, 2**31 - 1),
    "gridDim.y": (1, 65536),
    "gridDim.z": (1, 65536),
}


@dataclass(frozen=True)
class Target(ABC):
    """One kind of processor that kernels are compiled for.

    `kind` is the device kind (`cpu`, `nvidia`, `amd`), `architecture` the name users write
    (`host`, `sm_90`, `gfx942`), the rest is LLVM's.
    """

    kind: str
    architecture: str
    triple: str
    cpu: str
    features: str
    data_layout: str

    @property
    @abstractmethod
    def hidden_arguments(self) -> tuple[tuple[str, Any], ...]:
        """(name, `llvmlite.ir` type) of the arguments that every kernel and device function has
        in front of its own; empty where the hardware has registers for them."""

    @abstractmethod
    def register(self, builder: Any, name: str) -> Any:
        """The 32-bit value of an index register, one of `INDEX_REGISTERS`."""

    @abstractmethod
    def barrier(self, builder: Any, place: int) -> None:
        """A barrier of the whole block; `place` is the fault number that names its source line."""

    @abstractmethod
    def wave_barrier(self, builder: Any, place: int) -> None:
        """A barrier of the threads of one wavefront; `place` as for `barrier`."""

    @abstractmethod
    def shared_array(self, builder: Any, nbytes: int, align: int) -> Any:
        """A pointer to `nbytes` of memory that the threads of a block share; one per call site."""

    @abstractmethod
    def dynamic_shared(self, builder: Any) -> tuple[Any, Any]:
        """(pointer, 64-bit size in bytes) of the launch's dynamic shared memory."""

    @abstractmethod
    def local_array(self, builder: Any, nbytes: int, align: int) -> Any:
        """A pointer to `nbytes` that belong to one thread."""

    @abstractmethod
    def fence(self, builder: Any, scope: str) -> None:
        """Make a thread's writes seen, in order, by its `block`, its `device` or the `system`."""
