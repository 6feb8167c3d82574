"""What every code target gives: its LLVM names and how each kernel word ends up in its code.

A target is data plus hooks. The hooks are the rows that `lang/` asks for when a word comes down to
something only the hardware knows: a special register, a barrier, the room of a shared array. They
get an `llvmlite.ir` builder and give back a value of it; nothing here imports Numba or a driver.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from haulage.targets import atomics

# Which lane a shuffle reads; see `Target.shuffle`.
SHUFFLES = ("lane", "up", "down", "xor")

# What lanes vote on; see `Target.vote`.
VOTES = ("all", "any", "equal", "ballot")

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

# Bytes of which the address of a launch's dynamic shared memory is a multiple.
DYNAMIC_SHARED_ALIGN = 64


# Gives the offset of a room in dynamic shared memory; see `compiler/dynamic_rooms.py`.
TAKE = "haulage.take"
_room_numbers = itertools.count(1)


@dataclass(frozen=True)
class Target(ABC):
    """One kind of processor that kernels are compiled for.

    `kind` is the device kind (`cpu`, `nvidia`, `amd`), `architecture` the name users write
    (`host`, `sm_90`, `gfx942`), `warp_size` the lanes of a warp, as the kernel's vocabulary has it;
    the rest is LLVM's.
    """

    kind: str
    architecture: str
    triple: str
    cpu: str
    features: str
    data_layout: str
    warp_size: int

    @property
    @abstractmethod
    def has_fused(self) -> bool:
        """Whether the processor rounds a product and a sum once; it then is fast to do so."""

    @property
    @abstractmethod
    def most_local(self) -> int:
        """Bytes of local arrays that a thread can have."""

    @property
    @abstractmethod
    def math_names(self) -> Mapping[str, str]:
        """What lowered code calls functions of mathematics by (`sqrtf`, and Numba's own names) ->
        the names that this target has them by; others stay as they are."""

    @property
    def has_halves(self) -> bool:
        """Whether the processor has instructions for halves, and float32 is much faster than
        float64."""
        return False

    @property
    def called(self) -> str:
        """What messages call it."""
        return self.architecture

    # Whether its code can check accesses to memory (`haulage check`); whether kernels can be linked
    # with code of others (`jit(link=...)`); whether the code has
    # tables of source lines, for the system's debuggers and profilers; whether `breakpoint()` stops
    # there; whether a branch costs more there than a division whose result is not used.
    checks_accesses = False
    links = False
    has_line_tables = True
    has_breakpoints = False
    divides_without_branches = False

    @property
    def is_made_apart(self) -> bool:
        """Whether LLVM's code generator for it has to run in processes of its own, one for each
        module."""
        return False

    @property
    def llvm_options(self) -> tuple[str, ...]:
        """What LLVM is told on its command line in such a process."""
        return ()

    @property
    def has_libdevice(self) -> bool:
        """Whether code for it can call the functions of CUDA's libdevice, `__nv_sinf` and so on."""
        return False

    @property
    @abstractmethod
    def hidden_arguments(self) -> tuple[tuple[str, Any], ...]:
        """(name, `llvmlite.ir` type) of the arguments that every kernel and device function has
        in front of its own; empty where the hardware has registers for them."""

    def module_text(self, module: Any) -> str:
        """The text of one of the front end's modules as LLVM takes it for this target."""
        return str(module)

    @abstractmethod
    def register(self, builder: Any, name: str) -> Any:
        """The 32-bit value of an index register, one of `INDEX_REGISTERS`."""

    @abstractmethod
    def barrier(self, builder: Any, place: int) -> None:
        """A barrier of the whole block; `place` is the fault number that names its source line."""

    @abstractmethod
    def barrier_reduce(self, builder: Any, operation: str, flag: Any, place: int) -> Any:
        """A barrier of the whole block that also gives each thread what an operation (`add`, `and`,
        `or`) makes of the flags, 1-bit values, of them all: a 32-bit value. `place` as for
        `barrier`."""

    @abstractmethod
    def wave_barrier(self, builder: Any, place: int) -> None:
        """A barrier of the threads of one wavefront; `place` as for `barrier`."""

    @abstractmethod
    def grid_barrier(self, builder: Any, place: int) -> None:
        """A barrier of all threads of the grid; `place` as for `barrier`."""

    # Masks of lanes are ints of `warp_size` bits. Lanes that ended are not waited for. `place` is
    # as for `barrier`.

    def check_lanes(self, word: str) -> None:
        """Raise a CompileError unless threads in warps of `warp_size` can do what a word does."""

    @abstractmethod
    def lane(self, builder: Any) -> Any:
        """The 32-bit number of the thread in its warp."""

    def lanes_below(self, builder: Any) -> Any:
        """The mask of all lanes with lower numbers."""
        from llvmlite import ir

        lanes = ir.IntType(self.warp_size)
        lane = self.lane(builder)
        lane = lane if lane.type == lanes else builder.zext(lane, lanes)
        return builder.sub(builder.shl(lanes(1), lane), lanes(1))

    @abstractmethod
    def lanes_here(self, builder: Any, place: int) -> Any:
        """The mask of the lanes that are at this place now."""

    @abstractmethod
    def warp_barrier(self, builder: Any, mask: Any, place: int) -> None:
        """A barrier of the lanes in `mask`."""

    @abstractmethod
    def shuffle(
        self, builder: Any, mask: Any, value: Any, kind: str, number: Any, place: int
    ) -> Any:
        """What another lane has as `value`, 32 or 64 bits wide; anything if that is not there.

        `kind` is one of `SHUFFLES`: the lane `number`, the one that is `number` `up` (below this
        one) or `down` (above), or the one whose number is this one's `xor` it. Of `number`, 32 bits
        wide, those count that number the lanes of a warp. A lane for which there is none in the
        warp gets its own."""

    @abstractmethod
    def vote(self, builder: Any, mask: Any, kind: str, truth: Any, place: int) -> Any:
        """What the lanes of `mask` that are there make of a 1-bit value of each; one of `VOTES`:
        whether it is true in `all` or `any` of them or `equal` in all, 1 bit, or the mask of those
        where it is (`ballot`)."""

    @abstractmethod
    def match_any(self, builder: Any, mask: Any, value: Any, place: int) -> Any:
        """The lanes of `mask` with this lane's `value`, which is 32 or 64 bits wide."""

    @abstractmethod
    def match_all(self, builder: Any, mask: Any, value: Any, place: int) -> tuple[Any, Any]:
        """(lanes of `mask` that are there, 1-bit true) if all of them have one `value`, 32 or 64
        bits wide, else zeros."""

    @abstractmethod
    def givers(self, builder: Any, lane: Any, place: int) -> tuple[Any, Any]:
        """(lanes that are here whose `lane`, 32 bits wide and below `warp_size`, is this lane's
        number, the lanes that are here)."""

    @abstractmethod
    def shared_array(self, builder: Any, nbytes: int, align: int) -> Any:
        """A pointer to `nbytes` of memory that the threads of a block share; one per call site."""

    @abstractmethod
    def dynamic_shared(self, builder: Any) -> tuple[Any, Any]:
        """(pointer, 64-bit size in bytes) of the launch's dynamic shared memory."""

    def dynamic_shared_room(self, builder: Any, nbytes: Any, align: int) -> Any:
        """Where an array of `nbytes`, a 64-bit value, begins in the launch's dynamic shared memory:
        behind those that the thread came to before, at a multiple of `align`. One per call site; a
        64-bit offset, which may be beyond the end. `compiler/dynamic_rooms.py` works it out."""
        from llvmlite import ir

        i32, i64 = ir.IntType(32), ir.IntType(64)
        function = builder.module.globals.get(TAKE)
        if function is None:
            kind = ir.FunctionType(i64, [i64, i64, i32])
            function = ir.Function(builder.module, kind, TAKE)
            function.attributes.add("nounwind")
        return builder.call(function, [nbytes, i64(align), i32(next(_room_numbers))])

    @abstractmethod
    def local_array(self, builder: Any, nbytes: int, align: int) -> Any:
        """A pointer to `nbytes` that belong to one thread."""

    def atomic(self, builder: Any, operation: str, pointer: Any, operand: Any) -> Any:
        """Change what is at `pointer` in one step and give what it was; `operation` is one of
        LLVM's, or `less` or `greater`: write the operand, a float, where the old value is so
        compared with it."""
        comparison = atomics.COMPARISONS.get(operation)
        if comparison is None:
            return builder.atomic_rmw(operation, pointer, operand, "monotonic")
        return atomics.write_where(
            builder, comparison, pointer, operand, "monotonic", self.compare_and_swap
        )

    def compare_and_swap(self, builder: Any, pointer: Any, old: Any, new: Any) -> tuple[Any, Any]:
        """Write `new`, an int, where `old` is found; gives what was found and, as 1 bit, whether
        that was it."""
        return atomics.swap(builder, pointer, old, new, "monotonic")

    def constant_array(self, builder: Any, pointer: Any) -> Any:
        """The address by which constants are read that begin at `pointer`, the same for all
        threads. Without memory for such: that itself."""
        return pointer

    @abstractmethod
    def message(self, builder: Any, number: Any, cells: list[Any]) -> None:
        """Tell the host a 32-bit number and some 64-bit values, all of them of `builder`."""

    @abstractmethod
    def fence(self, builder: Any, scope: str) -> None:
        """Make a thread's writes seen, in order, by its `block`, its `device` or the `system`."""

    def cached_load(
        self, builder: Any, hint: str, pointer: Any, kind: Any, nbytes: int, align: int
    ) -> Any:
        """Load an int or a float of an LLVM type and `nbytes` from a multiple of `align`; `hint`
        names a word of `lang/cached.py`. Without hardware for hints: a plain load, where it must be
        made anew (`ldcv`) one that LLVM leaves where it is."""
        if hint == "ldcv" and align >= nbytes:
            return builder.load_atomic(pointer, "monotonic", align, typ=kind)
        return builder.load(pointer, align=align, typ=kind)

    def cached_store(
        self, builder: Any, hint: str, value: Any, pointer: Any, nbytes: int, align: int
    ) -> None:
        """Store an int or a float of `nbytes` at a multiple of `align`; `hint` as for
        `cached_load`."""
        builder.store(value, pointer, align=align)

    def high_product(self, builder: Any, x: Any, y: Any, *, signed: bool) -> Any:
        """The upper 64 bits of the product of two 64-bit values."""
        from llvmlite import ir

        wide = ir.IntType(128)
        extend = builder.sext if signed else builder.zext
        product = builder.mul(extend(x, wide), extend(y, wide))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    @abstractmethod
    def counter(self, builder: Any, which: str) -> Any:
        """The 64-bit value, read here and now, of a counter that never goes back in a thread:
        `ticks` of the processor, or `nanoseconds` of a clock that all processors have."""

    @abstractmethod
    def pause(self, builder: Any, nanoseconds: Any) -> None:
        """Let others work for about so long (a 32-bit value), or for less."""
