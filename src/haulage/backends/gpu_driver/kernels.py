"""Kernels of the back ends' own: copies between any strides, and fills.

    haulage_copy_N(u64 target, u64 source, u32 total, u32 axes,
                   u32 sizes[8], s64 target_steps[8], s64 source_steps[8])
    haulage_fill_N(u64 target, u32 total, u32 units, u8 value[16])

N is the bytes of an element: 1, 2, 4, 8 or 16; all addresses and steps are multiples of it. Threads
go through the elements, fewer than 2**31, with a stride of all of them. A copy divides an element's
number into places along the axes, of which the last is given first; steps are in bytes. A fill
writes `units` elements from each of `total` places on: the value, which has as many bytes.

The code of them is each maker's; what they are given is the same.
"""

import threading
from collections.abc import Callable
from math import gcd, prod
from struct import Struct

from haulage.backends.gpu_driver.contexts import Contexts
from haulage.backends.gpu_driver.launches import Launch, Launches
from haulage.backends.gpu_driver.regions import Region

AXES = 8
SIZES = (1, 2, 4, 8, 16)
# What is passed to them; the axes of a copy as three tables.
COPY = Struct(f"=QQII{AXES}I{AXES}q{AXES}q")
FILL = Struct("=QII16s")
# Of a block.
THREADS = 256

# A kernel numbers fewer elements than this.
_MOST = 1 << 31
_WIDEST = 16
# Blocks for each multiprocessor.
_ENOUGH = 16


class Kernels:
    """Launches them on the calling thread's device. Safe to use from any thread.

    `load` loads the kernels' module for a device, `function` gives a function of it by its name,
    `units` how many multiprocessors a device has.
    """

    def __init__(
        self,
        contexts: Contexts,
        launches: Launches,
        load: Callable[[int], int],
        function: Callable[[int, str], int],
        units: Callable[[int], int],
    ) -> None:
        self._contexts = contexts
        self._launches = launches
        self._load = load
        self._function = function
        self._units = units
        self._lock = threading.Lock()
        self._modules: dict[int, int] = {}
        self._functions: dict[tuple[int, str], int] = {}

    def copy(self, what: Region, stream: int) -> None:
        """Copy a region, both of whose sides kernels reach."""
        unit, axes = what.in_units()
        total = prod(size for size, _, _ in axes)
        if len(axes) > AXES:
            for part in what.parts():
                self.copy(part, stream)
            return
        if total >= _MOST:
            for piece in Region(what.target, what.source, axes, unit).pieces((_MOST - 1) * unit):
                self.copy(piece, stream)
            return
        none = AXES - len(axes)
        sizes, to, of = zip(*reversed(axes), *[(1, 0, 0)] * none, strict=True)
        args = COPY.pack(what.target, what.source, total, len(axes), *sizes, *to, *of)
        self._launch(f"haulage_copy_{unit}", total, args, stream)

    def fill(self, target: int, value: bytes, count: int, stream: int) -> None:
        """Write a value of 1 to 16 bytes again and again."""
        size = len(value)
        unit = gcd(_WIDEST, size, target)
        for first in range(0, count, _MOST - 1):
            total = min(count - first, _MOST - 1)
            args = FILL.pack(target + first * size, total, size // unit, value)
            self._launch(f"haulage_fill_{unit}", total, args, stream)

    def _launch(self, name: str, total: int, args: bytes, stream: int) -> None:
        device = self._contexts.device()
        function = self._functions.get((device, name))
        if function is None:
            with self._lock:
                module = self._modules.get(device)
                if module is None:
                    module = self._modules[device] = self._load(device)
            function = self._functions[device, name] = self._function(module, name)
        blocks = min((total + THREADS - 1) // THREADS, _ENOUGH * self._units(device))
        launch = Launch(function, (blocks, 1, 1), (THREADS, 1, 1), 0, args)
        self._launches.start(device, launch, stream)
