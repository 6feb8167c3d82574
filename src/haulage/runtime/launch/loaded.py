"""Compiled code on a device, and starting it there."""

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from haulage.backends.base import Backend, KernelCrashed, KernelStopped, Properties
from haulage.errors import (
    CacheWarning,
    DeviceError,
    LaunchError,
    LaunchTypeError,
    LimitError,
    OutOfMemory,
    warn,
)
from haulage.forks import cached_property
from haulage.runtime.devices import faults, printing
from haulage.runtime.devices.device import Device
from haulage.runtime.launch.placement import check_captured
from haulage.runtime.process import observing, runtime

if TYPE_CHECKING:
    from haulage.compiler.code import Code

Dims = tuple[int, int, int]

# Of code that is the same for all blocks.
ANY_BLOCK: Dims = (0, 0, 0)


class Configuration(NamedTuple):
    """Where and how wide a kernel runs: blocks, threads a block, stream, dynamic shared bytes.

    `stream` is a Stream, or 0 for the default stream of whatever device the arguments are on.
    """

    grid: Dims
    block: Dims
    stream: Any
    shared_bytes: int


def _as_ints(size: Any) -> str:
    """What to write for a size that is a float, as `n / 256` gives one."""
    if not isinstance(size, (float, np.floating)):
        return ""
    return "; / gives a float: write n // 256, or (n + 255) // 256 to round up"


def normalise_dims(value: Any, what: str) -> Dims:
    """`value` (an int or 1 to 3 of them) as (x, y, z).

    Raises:
        LaunchTypeError: it is something else.
        LaunchError: there are too many sizes, or one is not positive.
    """
    sizes = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(sizes) <= 3:
        raise LaunchError(
            f"{what} must be a sequence of 1, 2 or 3 integers, got {list(sizes)} "
            f"with {len(sizes)} sizes"
        )
    dims = []
    for size in sizes:
        if isinstance(size, (bool, np.bool_)) or not isinstance(size, (int, np.integer)):
            raise LaunchTypeError(
                f"{what} must be a sequence of integers, got {list(sizes)} "
                f"with a {type(size).__name__}{_as_ints(size)}"
            )
        if size < 1:
            raise LaunchError(f"{what}: every size must be at least 1, got {list(sizes)}")
        dims.append(int(size))
    x, y, z = (*dims, 1, 1)[:3]
    return x, y, z


def _swapped(grid: Dims, block: Dims, properties: Properties) -> str:
    """A hint where the grid would do as the block, and the block as the grid."""
    blocks = grid[0] * grid[1] * grid[2]
    fits = blocks <= properties.max_threads_per_block and all(
        size <= limit for size, limit in zip(block, properties.max_grid, strict=True)
    )
    return "; the order is kernel[blocks, threads of a block]" if fits else ""


def check_limits(configuration: Configuration, properties: Properties, name: str) -> None:
    """Compare a configuration with what the device takes.

    Raises:
        LimitError: it is beyond a limit; the message has both figures.
    """
    grid, block, _, shared_bytes = configuration
    threads = block[0] * block[1] * block[2]
    if threads <= properties.max_threads_per_block and shared_bytes == 0 and block[2] == 1:
        # What nearly all launches are, without the general comparisons below. No device takes
        # fewer threads along x or y than in the whole block.
        widest, highest, deepest = properties.max_grid
        longest = properties.max_axis_threads
        if (
            grid[0] <= widest
            and grid[1] <= highest
            and grid[2] <= deepest
            and grid[0] * block[0] <= longest
            and grid[1] * block[1] <= longest
        ):
            return
    if threads > properties.max_threads_per_block:
        raise LimitError(
            f"kernel {name}: a block of {block} has {threads} threads; "
            f"{properties.name} takes at most {properties.max_threads_per_block}"
            f"{_swapped(grid, block, properties)}",
            about="block",
        )
    for what, sizes, most in (
        ("block", block, properties.max_block),
        ("grid", grid, properties.max_grid),
    ):
        if any(size > limit for size, limit in zip(sizes, most, strict=True)):
            raise LimitError(
                f"kernel {name}: {what} {sizes} is beyond what {properties.name} takes: {most}",
                about=what if what == "block" else "",
            )
    longest = max(blocks * of_each for blocks, of_each in zip(grid, block, strict=True))
    if longest > properties.max_axis_threads:
        raise LimitError(
            f"kernel {name}: grid {grid} of blocks {block} has {longest} threads along an axis; "
            f"{properties.name} takes {properties.max_axis_threads}; let each thread do more, or "
            "use another axis too"
        )
    if shared_bytes > properties.max_dynamic_shared:
        raise LimitError(
            f"kernel {name}: {shared_bytes} bytes of dynamic shared memory; "
            f"{properties.name} has {properties.max_dynamic_shared} for a block"
        )


class Loaded:
    """Code of one kernel, loaded on one device; stays loaded as long as the process runs.

    `carveout` is what the kernel prefers of shared memory, see `Backend.prefer_shared`.
    """

    def __init__(self, device: Device, code: "Code", carveout: int | None = None) -> None:
        properties = device.properties
        name = code.metadata["name"]
        if code.metadata["shared_bytes"] > properties.max_static_shared:
            raise LimitError(
                f"kernel {name} has {code.metadata['shared_bytes']} bytes of shared arrays; "
                f"{properties.name} has {properties.max_static_shared} for a block; use dynamic "
                "shared memory for more"
            )
        # Where code is for blocks of any size, the driver sees to it.
        local_bytes, block = code.metadata["local_bytes"], code.metadata["block"]
        if block is not None and local_bytes * prod(block) > properties.total_memory:
            raise LimitError(
                f"kernel {name} has {local_bytes} bytes of local arrays for each thread, for a "
                f"block of {prod(block)} threads more than all the {properties.total_memory} bytes "
                f"of {properties.name}; take smaller arrays or blocks"
            )
        if code.metadata["argument_bytes"] > properties.max_argument_bytes:
            raise LimitError(
                f"kernel {name} takes {code.metadata['argument_bytes']} bytes of arguments; "
                f"{properties.name} takes {properties.max_argument_bytes}; give it arrays"
            )
        self.device = device
        self.code = code
        self.captured = code.captured
        check_captured(device, self.captured, name)
        device.activate()
        backend = device.backend
        if code.metadata.get("recursive"):
            backend.deepen_stacks()
        self.module = _load(backend, code)
        self.function = backend.function(self.module, code.metadata["entry"])
        backend.note_name(self.function, name)
        if carveout is not None:
            backend.prefer_shared(self.function, carveout)
        self.cooperative: bool = code.metadata["cooperative"]
        # Whether there is something to check of a launch without dynamic shared memory.
        self._has_needs = self.cooperative or code.metadata["uses_dynamic_shared"]
        names_threads = code.metadata["names_threads"]

        def describe(stopped: KernelStopped) -> Exception:
            if isinstance(stopped, KernelCrashed):
                return faults.crashed(stopped, name, code.metadata["order"])
            number = stopped.code
            fault = code.faults[number]
            figures, thread = "", ""
            if names_threads or fault.figures:
                figures, thread = faults.told(device.backend, number, fault.figures, code.faults)
            return fault.describe(name, figures, thread if names_threads else "")

        runtime.current.describe[self.function] = describe
        printing.expect(device.backend, code.prints)

    @cached_property
    def most_threads(self) -> int:
        """Threads of the largest block that the registers suffice for, as the driver says."""
        self.device.activate()
        return self.device.backend.function_info(self.function)["max_threads"]

    def block_number(self, index: Dims, grid: Dims) -> int:
        """The number of a block in the order in which code of the CPU device runs a grid."""
        number = 0
        for axis in self.code.metadata["order"]:
            place = "xyz".index(axis)
            number = number * grid[place] + index[place]
        return number

    def prepare(self, configuration: Configuration) -> tuple[bytes, Callable[[int, bytes], None]]:
        """What launches of `configuration` are started by.

        Returns:
            A header, of a multiple of 16 bytes, and a function of the handle of a stream and of the
            header with the argument block behind it: see `Backend.prepare_launch`.

        Raises:
            LaunchError: the kernel needs more, or other, shared memory, or its blocks wait for one
                another and are too many for that.
        """
        if configuration.shared_bytes or self._has_needs:
            self._check_shared(configuration.shared_bytes)
        if self.cooperative:
            header, start = b"", self._cooperative_start(configuration)
        else:
            header, start = self.device.backend.prepare_launch(
                self.device.id,
                self.function,
                configuration.grid,
                configuration.block,
                configuration.shared_bytes,
            )
        return header, start if runtime.current.observer is None else self._observed(start)

    def _cooperative_start(self, configuration: Configuration) -> Callable[[int, bytes], None]:
        grid, block, _, shared_bytes = configuration
        self._check_grid(configuration)

        def start(stream: int, arguments: bytes) -> None:
            self.device.activate()
            self.device.backend.launch_cooperative(
                self.function, grid, block, shared_bytes, stream, arguments
            )

        return start

    def _observed(self, start: Callable[[int, bytes], None]) -> Callable[[int, bytes], None]:
        """`start`, told to whoever observes."""
        device, name = self.device, self.code.metadata["name"]

        def observed(stream: int, packed: bytes) -> None:
            watching = runtime.current.observer
            if watching is None:
                start(stream, packed)
            else:
                kind = observing.KERNEL
                watching.around(device, stream, kind, name, 0, start, stream, packed)

        return observed

    def _check_shared(self, dynamic: int) -> None:
        name, static = self.code.metadata["name"], self.code.metadata["shared_bytes"]
        most = self.device.properties.max_dynamic_shared
        if static + dynamic > most:
            raise LimitError(
                f"kernel {name}: {static} bytes of shared arrays and {dynamic} bytes of dynamic "
                f"shared memory; {self.device.properties.name} has {most} for a block"
            )
        if not dynamic and self.code.metadata["uses_dynamic_shared"]:
            raise LaunchError(
                f"kernel {name} uses dynamic shared memory, and its launch gives none; write "
                f"{name}[blocks, threads, stream, bytes](...)"
            )

    def _check_grid(self, configuration: Configuration) -> None:
        blocks = prod(configuration.grid)
        most = self.max_cooperative_blocks(configuration.block, configuration.shared_bytes)
        if blocks > most:
            raise LimitError(
                f"kernel {self.code.metadata['name']} waits for its whole grid: a grid of "
                f"{configuration.grid} has {blocks} blocks; {self.device.properties.name} can have "
                f"{most} of {configuration.block} threads at one time"
            )

    def max_cooperative_blocks(self, block: Dims, shared_bytes: int) -> int:
        """How many blocks can be there at one time."""
        self.device.activate()
        block_bytes = self.code.metadata["block_bytes"]
        return self.device.backend.max_cooperative_blocks(
            self.function, prod(block), shared_bytes, block_bytes
        )


def _load(backend: Backend, code: "Code") -> int:
    """The module of a code: of its machine code, if it has some and the driver takes that. What a
    newer assembler made it may not take; it then assembles the code itself, and that is told."""
    if code.linked:
        pieces = [(each.kind, each.name, each.data) for each in code.linked]
        own = ("ptx", str(code.metadata["name"]), code.code)
        return backend.load(backend.link([own, *pieces]))
    if code.machine_code is not None:
        try:
            return backend.load(code.machine_code)
        except OutOfMemory:
            raise
        except DeviceError as refused:
            _tell_refused(str(code.metadata["name"]), refused)
    return backend.load(code.code)


# Failures of drivers that have been told of.
_told_refused: set[int | None] = set()


def _tell_refused(name: str, error: DeviceError) -> None:
    if error.code in _told_refused:
        return
    _told_refused.add(error.code)
    warn(
        f"kernel {name}: the driver does not take the machine code that the cache has beside the "
        f"PTX, and assembles the PTX in each process, which takes longer: {error}. Update the "
        "driver, or use a ptxas of its version. Of other kernels this is not told",
        CacheWarning,
    )
