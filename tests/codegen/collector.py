"""Compiles for GPUs whatever is compiled for the CPU meanwhile, and checks it: PTX is assembled,
code objects for AMD's GPUs are read.

The tests know nothing of it: `body_for`, by which kernels come from the front end, is wrapped. A
kernel that was tried before is not tried again. What checks the code runs beside the tests.
"""

import dataclasses
import hashlib
import itertools
import queue
import re
import threading
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from doubles import amd_objects, ptxas
from doubles.amd_described import Launch
from haulage.compiler.gpu.amd import device_library
from haulage.errors import CompileError
from haulage.kernel import caching, compilation, kernel
from haulage.platforms import PLATFORMS
from haulage.runtime.arrays import keys as argument_keys
from haulage.runtime.launch import packing
from haulage.targets import amd, nvidia

# By the kinds of the devices that they are of.
ARCHITECTURES = {"nvidia": ptxas.ARCHITECTURES, "amd": amd_objects.ARCHITECTURES}
_ROWS = dict(PLATFORMS)
_TARGETS: dict[str, Callable[[str, int], Any]] = {"nvidia": nvidia.target, "amd": amd.target}

# What code with 32 lanes a warp cannot do by design; see docs/design.md, warp size. And arrays that
# no GPU has room for.
_REFUSED = re.compile(
    r"wavefronts of 64 work-items, and \w+ has warps of 32\b"
    r"|\b\d{6,} bytes of (?:shared|local) arrays\b|\b\d+ bytes of shared arrays; gfx\d"
)
# Of two kernels that differ in this only, one is tried.
_NAMES = re.compile(rb"(?m)^\.version .*|^\.target .*|^//.*|haulage_shared_\d+")
_ADDRESS = re.compile(r"0x[0-9a-f]+")
# Bytes of shared arrays and of arguments that GPUs take.
_MOST = {"nvidia": (48 << 10, 32764), "amd": (64 << 10, 4096)}
# Threads of a block, if the kernel does not say how many it is for.
_MOST_THREADS = 1024
# How much may wait for the checks before the tests have to, and how much is read at once.
_WAITING, _AT_ONCE = 64, 24


@dataclass
class Outcome:
    """What came of all that was tried. `failures`: (where it was compiled, what went wrong);
    `refusals`: how often for which reason; `programs`: how many codes each of LLVM's checked."""

    kernels: int = 0
    refusals: dict[str, int] = field(default_factory=dict)
    programs: dict[str, int] = field(default_factory=dict)
    # Kernels that need AMD's library of mathematics, where it is not.
    without_library: int = 0
    assembled: dict[str, int] = field(default_factory=dict)
    failures: list[tuple[str, str]] = field(default_factory=list)

    @property
    def refused(self) -> int:
        """How many codes cannot be, by design."""
        return sum(self.refusals.values())

    def line(self) -> str:
        """The figures, in words."""
        said = [
            f"code for GPUs: {self.kernels} kernels",
            f"{sum(self.assembled.values())} codes checked ({_listed(self.assembled) or 'none'})",
            f"{self.refused} refused by design",
            f"{len(self.failures)} failed",
        ]
        if self.without_library:
            said.append(f"{self.without_library} not tried for want of ocml.bc")
        if any(each in self.assembled for each in amd_objects.ARCHITECTURES):
            missing = [each for each in amd_objects.PROGRAMS if each not in self.programs]
            said.append(f"also by {_listed(self.programs) or 'none of LLVM'}")
            said += [f"not for want of {each}" for each in missing]
        return "; ".join([", ".join(said), *(f"{n} times {why}" for why, n in self._reasons())])

    def _reasons(self) -> list[tuple[str, int]]:
        return sorted(self.refusals.items())


def together(parts: Iterable[Outcome]) -> Outcome:
    """What came of all that several processes tried."""
    whole = Outcome()
    for part in parts:
        whole.kernels += part.kernels
        whole.without_library += part.without_library
        whole.failures += [(where, what) for where, what in part.failures]
        for counts, more in (
            (whole.assembled, part.assembled),
            (whole.refusals, part.refusals),
            (whole.programs, part.programs),
        ):
            for name, count in more.items():
                counts[name] = counts.get(name, 0) + count
    return whole


def check(code: bytes, launch: Launch | None) -> tuple[str, ...]:
    """Check what a driver would be given, and what it says of the `launch` if that is known. Gives
    the names of LLVM's programs that have checked it.

    Raises:
        AssertionError: it is not right.
    """
    if code.startswith(amd_objects.MAGIC):
        return amd_objects.check(code, launch)
    ptxas.assemble(code.decode())
    return ()


class Collector:
    """Tries each kernel for one architecture after the other in turn, or for `all_of_them`.

    Args:
        kinds: of the devices whose architectures these are.
    """

    def __init__(
        self,
        all_of_them: bool = False,
        check: Callable[[bytes, Launch | None], tuple[str, ...]] = check,
        kinds: Iterable[str] = ARCHITECTURES,
    ) -> None:
        self._check = check
        chosen = [[(kind, each) for each in ARCHITECTURES[kind]] for kind in kinds]
        # One of each kind after the other.
        rows = itertools.zip_longest(*chosen)
        self._architectures = [each for row in rows for each in row if each is not None]
        self.outcome = Outcome()
        # Says where a kernel comes from; set by whoever runs tests.
        self.where: Callable[[], str] = lambda: "?"
        self._turns = itertools.cycle([each] for each in self._architectures)
        self._all = all_of_them
        self._seen: set[Any] = set()
        self._codes: set[bytes] = set()
        self._busy = False
        self._lock = threading.Lock()
        self._jobs: queue.Queue[tuple[str, str, bytes, Launch | None] | None] = queue.Queue(
            _WAITING
        )
        # What is checked, but not read by LLVM's programs yet, and by which others it was.
        self._unread: list[tuple[str, str, bytes, tuple[str, ...]]] = []
        self._checker = threading.Thread(target=self._check_all, daemon=True)
        self._body_for = compilation.body_for

    def start(self) -> None:
        """From now on try what is compiled."""
        for module in (compilation, kernel, caching):
            module.body_for = self._wrapped
        self._link = amd_objects.remember()
        self._checker.start()

    def stop(self) -> Outcome:
        """Wait for the checks, and say what came of it all."""
        if self._checker.is_alive():
            for module in (compilation, kernel, caching):
                module.body_for = self._body_for
            self._jobs.put(None)
            self._checker.join()
            amd_objects.forget(self._link)
        return self.outcome

    def _wrapped(
        self, function: Any, keys: Any, target: Any, options: Any, *, anew: bool = False
    ) -> Any:
        body = self._body_for(function, keys, target, options, anew=anew)
        # Kernels are checked on the CPU only.
        options = dataclasses.replace(options, checks=frozenset())
        if target.kind == "cpu" and not self._is_known(function, keys, target, options):
            self._try(function, keys, target.warp_size, options)
        return body

    def _is_known(self, function: Any, keys: Any, target: Any, options: Any) -> bool:
        cells = tuple(map(_content, function.__closure__ or ()))
        this = (function.__code__, cells, keys, target.warp_size, options)
        with self._lock:
            if this in self._seen:
                return True
            self._seen.add(this)
            return False

    def _try(self, function: Any, keys: Any, warp_size: int, options: Any) -> None:
        where = f"{self.where()}: {function.__qualname__}"
        for kind, architecture in self._architectures if self._all else next(self._turns):
            if PLATFORMS[kind] is not _ROWS[kind]:
                return  # a test has put another one there
            target = _TARGETS[kind](architecture, warp_size)
            try:
                code = self._body_for(function, keys, target, options).code((0, 0, 0), "threads")
            except CompileError as error:
                if refused := _REFUSED.search(str(error)):
                    _count(self.outcome.refusals, refused[0])
                    if self._all:
                        continue
                    return
                if device_library.find() is None and device_library.FILE in str(error):
                    self.outcome.without_library += 1
                    return
                self.outcome.failures.append((f"{where} for {architecture}", str(error)))
                return
            except Exception as error:
                self.outcome.failures.append((f"{where} for {architecture}", repr(error)))
                return
            if too_large := _too_large(kind, code.metadata):
                _count(self.outcome.refusals, too_large)
                return
            key = hashlib.sha256((architecture * self._all).encode() + _NAMES.sub(b"", code.code))
            if key.digest() in self._codes:
                return
            self._codes.add(key.digest())
            is_launched = kind == "amd" and not any(map(_is_of_no_value, keys))
            launch = _launch(code.metadata, keys, target, options) if is_launched else None
            self._jobs.put((where, architecture, code.code, launch))
        self.outcome.kernels += 1

    def _check_all(self) -> None:
        while (job := self._jobs.get()) is not None:
            where, architecture, code, launch = job
            try:
                programs = self._check(code, launch)
            except AssertionError as error:
                self._note_failure(where, architecture, error)
                continue
            if not code.startswith(amd_objects.MAGIC):
                self._note_checked(architecture, programs)
                continue
            self._unread.append((where, architecture, code, programs))
            if len(self._unread) == _AT_ONCE:
                self._read()
        self._read()

    def _read(self) -> None:
        """Have LLVM's programs read what waits for that."""
        jobs, self._unread = self._unread, []
        try:
            readers = amd_objects.read([code for _, _, code, _ in jobs])
        except AssertionError as error:
            if len(jobs) == 1:
                self._note_failure(*jobs[0][:2], error)
                return
            for job in jobs:
                self._unread = [job]
                self._read()
            return
        for _, architecture, _, programs in jobs:
            self._note_checked(architecture, (*programs, *readers))

    def _note_checked(self, architecture: str, programs: tuple[str, ...]) -> None:
        _count(self.outcome.assembled, architecture)
        for program in programs:
            _count(self.outcome.programs, program)

    def _note_failure(self, where: str, architecture: str, error: AssertionError) -> None:
        # Outside of its modules pytest shows nothing of what was asserted.
        what = str(error)[:2000] or str(traceback.extract_tb(error.__traceback__)[-1].line)
        self.outcome.failures.append((f"{where} for {architecture}", what))


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _content(cell: Any) -> Any:
    """What a closure's variable is, to compare it; without keeping it."""
    try:
        value = cell.cell_contents
    except ValueError:
        return None
    return type(value), _ADDRESS.sub("", repr(value)[:500])


def _too_large(kind: str, metadata: dict[str, Any]) -> str | None:
    """Why no GPU of that maker takes the kernel, as its launch says; or None."""
    shared, arguments = _MOST[kind]
    if metadata["shared_bytes"] > shared:
        return f"more than {shared} bytes of shared arrays"
    if metadata["argument_bytes"] > arguments:
        return f"more than {arguments} bytes of arguments"
    return None


def _is_of_no_value(key: Any) -> bool:
    """Whether no launch has a value for an argument."""
    inner = key[1] if key[0] == argument_keys.TUPLE else ()
    return key[0] == argument_keys.OTHER or any(map(_is_of_no_value, inner))


def _launch(metadata: dict[str, Any], keys: Any, target: Any, options: Any) -> Launch:
    """What is known where the kernel is launched, from where a launch takes it."""
    is_narrow = target.warp_size == 32 and not target.architecture.startswith("gfx9")
    return Launch(
        architecture=target.architecture,
        format="@" + "".join(packing.formats(keys)),
        offsets=metadata["argument_offsets"],
        argument_bytes=metadata["argument_bytes"],
        shared_bytes=metadata["shared_bytes"],
        local_bytes=metadata["local_bytes"],
        max_threads=min(next(iter(options.launch_bounds), 0) or _MOST_THREADS, _MOST_THREADS),
        lanes=32 if is_narrow else 64,
    )
