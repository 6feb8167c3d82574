"""Launches of kernels that are checked while they run, and what is made of what they found."""

import struct
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

from haulage import forks
from haulage._core import check
from haulage.backends.base import KernelCrashed, KernelStopped
from haulage.backends.cpu_driver import processor
from haulage.checking.counted_launches import CountedLaunch
from haulage.checking.elements import LaunchedArray, dtype_of, element_of
from haulage.checking.findings import (
    ADDRESS,
    BARRIER,
    BOUNDS,
    RACE,
    UNINITIALIZED,
    Access,
    Finding,
    Findings,
    Index,
    Place,
)
from haulage.checking.lint_launches import Linting, is_single
from haulage.checking.places import place_of, place_of_program
from haulage.compiler.access.model import named
from haulage.compiler.argument_block import Integers, argument_offsets
from haulage.compiler.checks.counters import COVERAGE
from haulage.compiler.checks.sites import Site
from haulage.compiler.checks.unneeded import Dropped
from haulage.compiler.emit import version_without
from haulage.compiler.faults import Fault
from haulage.errors import BarrierError, DeviceError
from haulage.runtime.devices import faults
from haulage.runtime.devices.device import Device
from haulage.runtime.launch.loaded import Configuration, Loaded
from haulage.runtime.memory.block import holding
from haulage.runtime.process import runtime

# Address, bytes, address of what says which were written, log2 of the bytes of a cell, races.
_Range = tuple[int, int, int, int, bool]

# So many are checked in a first launch, which takes less time than to make code for the others.
_FEW_BLOCKS = 4

# What native code notes is of one launch.
_lock = forks.lock()


class CheckedLaunch:
    """Launches of one overload in one configuration, with `checks`.

    Attributes:
        captured: the arrays of the device that are globals or closure variables of the kernel.
    """

    def __init__(
        self,
        findings: Findings,
        checks: frozenset[str],
        overload: Any,
        device: Device,
        configuration: Configuration,
        version: str,
    ) -> None:
        self._findings, self._checks = findings, checks
        self._overload, self._device, self._configuration = overload, device, configuration
        self._body, self._version = overload.checked_body(device, checks), version
        self._instrumented = self._body.instrumented(version)
        self._grid, self._block = configuration.grid, configuration.block
        self._known = self._body.unneeded(self._block, version)
        lowered = self._body.lowered
        self._kernel: str = self._body.name
        self._faults: dict[int, Fault] = lowered.faults
        self._names = [named(lowered.memory.names, array.path) for array in lowered.arrays]
        self._arrays = lowered.arrays
        self._dtypes = [dtype_of(overload.keys, array.path) for array in lowered.arrays]
        self._integers = Integers(lowered.arguments, self._known.parameters)
        self._offsets, _ = argument_offsets(lowered.arguments)
        self.captured = lowered.captured
        self._loaded: dict[str, Loaded] = {}
        self._started: dict[object, tuple[bytes, Callable[[int, bytes], None]]] = {}
        self._dropped: dict[object, Dropped] = {}
        self._linting = self._new_linting()
        self._launched = False

    def _new_linting(self) -> Linting | None:
        """What measures launches, if they are to be measured."""
        linted = self._instrumented.linted
        if linted is None:
            return None
        return Linting(
            linted,
            self._overload,
            self._kernel,
            self._grid,
            self._block,
            self._body.target.warp_size,
            is_single=is_single(self._dtypes),
            keeps=self._body.blocks_wait,
        )

    def start(self, stream: int, packed: bytes) -> None:
        """Run one launch with the bytes of its arguments, and note what it does wrong. What is no
        finding is raised by the next wait, as without checks."""
        # The CPU back end.
        backend: Any = self._device.backend
        checked = self._instrumented
        if stream in self._device.capturing:
            self._run_unchecked(stream, packed)
            return
        arrays = [self._array(number, packed) for number in range(len(self._arrays))]
        marked = self._marked(arrays)
        dropped = self._unneeded(arrays, packed, marked)
        loaded = self._load(version_without(self._version, dropped))
        sampled = self._is_sampled(dropped)
        self._launched = True
        header, start = self._start_of(loaded, sampled)
        self._note_unaligned(arrays)
        try:
            # Callbacks among it may have launches of their own, which want the lock.
            backend._wait_for_turn(stream)
        except DeviceError:
            # A callback that this launch comes after makes it.
            self._run_unchecked(stream, packed)
            return
        # What failed before is none of this launch's.
        failed: list[BaseException] = []
        try:
            backend.stream_synchronize(stream)
        except Exception as earlier:
            failed.append(earlier)
        try:
            with _lock:
                faults.read(backend)
                if self._linting is not None:
                    self._linting.begin(self._of_host(arrays))
                check.begin(
                    self._ranges(arrays, marked),
                    prod(self._grid),
                    prod(self._block),
                    _log2(checked.least_shared),
                    races="race" in self._checks,
                    unwritten="init" in self._checks,
                    keeps=self._body.blocks_wait,
                    parallel=processor.threads() > 1,
                )
                try:
                    if sampled:
                        self._sample(loaded, dropped)
                    start(stream, header + packed)
                    backend.stream_synchronize(stream)
                except KernelStopped as stopped:
                    # It may be the one that runs some blocks by one code, some by another.
                    stopped.function = loaded.function
                    if not self._is_found(stopped):
                        failed.append(stopped)
                finally:
                    accesses, found = check.end()
                    if self._linting is not None:
                        accesses = max(accesses, self._linting.end(self._findings.add))
                    if marked:
                        self._written.launched(marked.values())
                    self._findings.checked(accesses)
                    self._note_indices(arrays)
                    for each in found:
                        self._note(each, arrays)
        finally:
            for error in failed:
                backend._keep_failure(stream, error)

    def _run_unchecked(self, stream: int, packed: bytes) -> None:
        """Let a graph have the launch, or the stream, where nobody waits when it runs: unchecked
        but for what is counted."""
        if self._written is not None:
            each = range(len(self._arrays))
            self._written.not_seen(self._array(number, packed).extent[0] for number in each)
        if COVERAGE in self._checks:
            launch = (self._overload, self._device, self._configuration, self._version)
            CountedLaunch(self._findings, *launch).start(stream, packed)
            return
        loaded = self._overload.load(self._device, self._block)
        header, start = loaded.prepare(self._configuration)
        start(stream, header + packed)

    # ---- what need not be checked -------------------------------------------------------------

    def _unneeded(
        self, arrays: list[LaunchedArray], packed: bytes, marked: dict[int, Any]
    ) -> Dropped:
        """The checks that this launch need not make; not all of the arrays `marked` is written."""
        known = self._known
        values = self._integers.read(packed)
        extents = [array.extent for array in arrays]
        overlapping = frozenset(
            number
            for number, (low, nbytes) in enumerate(extents)
            for other, (start, size) in enumerate(extents)
            if number != other
            and low < start + size
            and start < low + nbytes
            and (number in known.written or other in known.written)
        )
        kept = overlapping | {number for number in marked if number >= 0}
        measured = None if self._linting is None else self._linting.blocks
        key = tuple(values.values()), kept, measured and len(measured)
        if key not in self._dropped:
            self._dropped[key] = self._with_measured(known.of(values, self._grid, kept))
        return self._dropped[key]

    def _of_host(self, arrays: list[LaunchedArray]) -> list[tuple[int, int]]:
        """Of the arrays those that no device has given."""
        return [each.extent for each in arrays if holding(self._device, each.extent[0], 1) is None]

    def _with_measured(self, dropped: Dropped) -> Dropped:
        """With the blocks that are measured among those that are checked."""
        if self._linting is None or dropped.sorts is None:
            return dropped
        if self._linting.blocks is None:
            return dropped._replace(sorts=None)
        x, y, _ = self._grid
        measured = {(n % x, n // x % y, n // (x * y)) for n in self._linting.blocks}
        return dropped._replace(sorts=tuple(sorted(measured.union(dropped.sorts))))

    def _load(self, version: str) -> Loaded:
        if version not in self._loaded:
            self._loaded[version] = self._overload.load_checked(
                self._device, self._block, self._checks, version
            )
        return self._loaded[version]

    def _is_sampled(self, dropped: Dropped) -> bool:
        """Whether only some blocks are checked: not where they wait for one another."""
        if dropped.sorts is None or self._body.blocks_wait:
            return False
        return self._launched or prod(self._grid) > _FEW_BLOCKS

    def _start_of(
        self, loaded: Loaded, sampled: bool
    ) -> tuple[bytes, Callable[[int, bytes], None]]:
        """What launches are started by, if only some blocks are checked, or all."""
        key = loaded, sampled
        if key not in self._started:
            made = loaded.prepare(self._configuration)
            if sampled:
                grid, block, _, shared_bytes = self._configuration
                backend = self._device.backend
                made = backend.prepare_launch(
                    self._device.id, check.ENTRY, grid, block, shared_bytes
                )
            self._started[key] = made
        return self._started[key]

    def _sample(self, loaded: Loaded, dropped: Dropped) -> None:
        """Say which blocks are checked."""
        assert dropped.sorts is not None
        plain = self._load(version_without(self._version, None))
        numbers = [
            (plain.block_number(block, self._grid), loaded.block_number(block, self._grid))
            for block in dropped.sorts
        ]
        check.sample_blocks(sorted(numbers), plain.function, loaded.function)

    # ---- its memory -----------------------------------------------------------------------------

    def _array(self, number: int, packed: bytes) -> LaunchedArray:
        array = self._arrays[number]
        (address,) = self._read(packed, [array.data])
        shape = self._read(packed, array.shape)
        strides = self._read(packed, array.strides)
        name, dtype = self._names[number], self._dtypes[number]
        return LaunchedArray(name, address, shape, strides, array.nbytes, dtype)

    def _read(self, packed: bytes, numbers: Any) -> tuple[int, ...]:
        return tuple(
            struct.unpack_from("=q", packed, self._offsets[number])[0] for number in numbers
        )

    @property
    def _written(self) -> Any:
        """Which memory was written, where that is checked; else None."""
        host_checker = runtime.current.host_checker
        return None if host_checker is None or "init" not in self._checks else host_checker.written

    def _marked(self, arrays: list[LaunchedArray]) -> dict[int, Any]:
        """The memory, not all of which is written, that a launch may access, by the number of its
        array; that of no array has numbers below 0."""
        written = self._written
        if written is None:
            return {}
        if not self._instrumented.is_whole:
            written.not_seen(array.extent[0] for array in arrays)
            return {}
        found = written.of_arrays(arrays)
        if self._known.strays:
            known = {each.memory for each in found.values()}
            others = [each for each in written.all() if each.memory not in known]
            found.update({-1 - number: each for number, each in enumerate(others)})
        return found

    def _ranges(self, arrays: list[LaunchedArray], marked: dict[int, Any]) -> list[_Range]:
        least = self._instrumented.least
        races = "race" in self._checks
        made: list[_Range] = []
        for number, array in enumerate(arrays):
            low, nbytes = array.extent
            marks = 0
            if number in marked:
                marks = marked[number].at(low)
            looked = races and number in least
            made.append((low, nbytes, marks, _log2(least.get(number, 16)), looked))
        for number, each in marked.items():
            if number < 0:
                start, nbytes = each.memory.start, each.written.nbytes
                made.append((start, nbytes, each.at(start), 0, False))
        return _joined(made)

    # ---- what was found ------------------------------------------------------------------------

    def _is_found(self, stopped: KernelStopped) -> bool:
        """Whether it is something that is a finding, and no error of the program besides."""
        if isinstance(stopped, KernelCrashed) and not stopped.stack:
            return self._note_crash(stopped)
        fault = self._faults.get(stopped.code)
        if fault is None:
            return False
        if fault.exception is None and "barrier" in self._checks:
            error = fault.describe(self._kernel)
            assert isinstance(error, BarrierError)
            message = str(error).partition(": ")[2]
            place = Place(fault.filename, fault.line)
            self._findings.add(Finding(BARRIER, message, Access(place, "barrier", self._kernel)))
            return True
        # A kernel that checks indices by itself raises the error, too.
        is_own = self._body.raises_index_errors
        return fault.exception is IndexError and bool(fault.figures) and not is_own

    def _note_crash(self, stopped: KernelCrashed) -> bool:
        """Note an access of what is no memory, if that is asked for; at its line if that is known,
        else at the line of the launch."""
        if not self._checks & {"bounds", "memory"}:
            return False
        access = Access(place_of_program(), "launch", self._kernel)
        where = "an address that nobody knows"
        if stopped.address is not None:
            where = f"address {stopped.address:#x}"
            stray = check.stray(stopped.address)
            if stray is not None:
                access = self._access(*stray)
        message = f"a thread accesses {where}, where the process has no memory that it may use so"
        self._findings.add(Finding(ADDRESS, message, access))
        return True

    def _note_unaligned(self, arrays: list[LaunchedArray]) -> None:
        """Note the arrays with elements that GPUs cannot load at once, at the first line that
        accesses them."""
        if not self._checks & {"bounds", "memory"}:
            return
        for number, array in enumerate(arrays):
            index = array.first_unaligned()
            if index is None:
                continue
            site = self._known.first_access(number)
            if site is not None:
                access = self._access(site & ((1 << check.SITE_BITS) - 1), 0, 0)
                access = replace(access, block=None, thread=None)
            elif self._checks & {"race", "init"}:
                continue  # nobody accesses it
            else:
                access = Access(place_of_program(), "launch", self._kernel)
            assert array.dtype is not None
            size = array.dtype.alignment
            what = _described(array.name, index=index)
            message = (
                f"{what['element']} lies at no multiple of {size} bytes, which {array.dtype} "
                "needs: numba.cuda ends with a misaligned address there"
            )
            allocated = self._allocated(array.extent[0])
            self._findings.add(Finding(ADDRESS, message, access, allocated=allocated, **what))

    def _note_indices(self, arrays: list[LaunchedArray]) -> None:
        """Note the indices out of bounds that threads have told of."""
        for number, told in faults.read(self._device.backend):
            fault = self._faults.get(number)
            if fault is None or fault.exception is not IndexError or len(told) <= 6:
                continue
            message = fault.figures.format(*told[6:]).removeprefix(": ")
            place = Place(fault.filename, fault.line)
            access = Access(place, "access", self._kernel, told[3:6], told[:3])
            what: dict[str, Any] = {"array": fault.array}
            for array in arrays:
                if array.name == fault.array:
                    what["allocated"] = self._allocated(array.extent[0])
                    if len(array.shape) == 1:
                        what |= _described(fault.array, index=told[6:7])
            self._findings.add(Finding(BOUNDS, message, access, **what))

    def _note(self, found: Any, arrays: list[LaunchedArray]) -> None:
        kind, site, other, block, thread, other_block, other_thread, address, count, same = found[
            :10
        ]
        access = self._access(site, block, thread)
        what = self._element(site, address, arrays, *found[10:])
        name = what["array"]
        if kind == check.RACE:
            assert other is not None
            earlier = self._access(other, other_block, other_thread)
            message = _race(access, earlier, name, block == other_block)
            self._findings.add(
                Finding(RACE, message, access, earlier, same_value=same, count=count, **what)
            )
        elif kind == check.UNWRITTEN:
            message = f"{name or 'memory'} is read here, and nobody has written it"
            self._findings.add(Finding(UNINITIALIZED, message, access, count=count, **what))
        elif kind == check.ANOTHER_BARRIER:
            assert other is not None
            message = "threads of a block wait at different barriers at one time"
            first = self._access(other, other_block, other_thread)
            self._findings.add(Finding(BARRIER, message, access, first, count=count))
        elif kind == check.MISSED_BARRIER:
            message = "some threads of the block went round this barrier, and ended"
            if "barrier" in self._checks:
                self._findings.add(Finding(BARRIER, message, access, count=count))
        elif kind == check.ABSENT_LANE:
            message = "a lane takes the value of one that is not there, or that its mask leaves out"
            self._findings.add(Finding(BARRIER, message, access, count=count))
        else:
            message = f"the mask of this {access.what} leaves out the lane that gives it"
            self._findings.add(Finding(BARRIER, message, access, count=count))

    def _access(self, site: int, block: int, thread: int) -> Access:
        at = self._instrumented.sites[site]
        return Access(
            Place(at.file, at.line),
            at.what,
            self._kernel,
            _indices(block, self._grid),
            _indices(thread, self._block),
        )

    def _allocated(self, address: int) -> Place | None:
        """The line that allocated the memory that has a byte."""
        block = holding(self._device, address, 1)
        return None if block is None else place_of(block.call_site)

    def _element(
        self, site: int, address: int, arrays: list[LaunchedArray], number: int, origin: int
    ) -> dict[str, Any]:
        """What a finding says of the memory of an access; `number` and `origin` say which array of
        shared memory begins last in front of it, and where."""
        checked = self._instrumented
        at: Site = checked.sites[site]
        layout = at.layout
        if at.shared:
            layout = next(iter(checked.arrays[number : number + 1]), None)
            address -= origin
        if layout is not None:
            return _described(at.array, layout.name, layout.index_of(address))
        if at.is_own or not address:
            return _described(at.array)
        allocated = self._allocated(address)
        for array in arrays:
            index, field = array.element_at(address)
            if index is not None:
                return {
                    **_described(at.array, array.name, index, field),
                    "allocated": allocated,
                }
        return {**_described(at.array), "allocated": allocated}


def _described(
    at_site: str, of_memory: str = "", index: Index | None = None, field: str = ""
) -> dict[str, Any]:
    """What a finding says of an array by its name at the access, and by that of its memory."""
    element = element_of(of_memory or at_site, index, field)
    return {"array": at_site or of_memory, "index": index, "element": element}


def _joined(ranges: list[_Range]) -> list[_Range]:
    """The ranges, of which those that overlap are one: that of all their memory."""
    made = list(ranges)
    group: list[int] = []
    for number in sorted(range(len(ranges)), key=lambda number: ranges[number][:2]):
        low, nbytes, written, shift, races = made[number]
        if not nbytes:
            continue
        if group:
            first, so_many, _, least, looked = made[group[0]]
            if low < first + so_many:
                end = max(first + so_many, low + nbytes)
                group.append(number)
                for each in group:
                    joined = (first, end - first, written, min(shift, least), races or looked)
                    made[each] = joined
                continue
        group = [number]
    return made


def _race(access: Access, earlier: Access, name: str, same_block: bool) -> str:
    who = "threads of one block" if same_block else "threads of two blocks"
    first, second = sorted((earlier.what, access.what))
    both = f"a {first} and a {second}" if first != second else f"two {first}s"
    both = both.replace("a atomic", "an atomic")
    return f"{both} of {name or 'one location'} by {who}, and nothing orders them"


def _indices(number: int, sizes: tuple[int, int, int]) -> Index:
    x, y, _ = sizes
    return number % x, number // x % y, number // (x * y)


def _log2(nbytes: int) -> int:
    """The logarithm of the greatest power of two that divides a number of bytes."""
    return ((nbytes & -nbytes) or 1).bit_length() - 1
