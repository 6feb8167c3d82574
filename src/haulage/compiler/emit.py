"""The stages from a Python function to code for the CPU, by name.

They are `lowered` (Numba's LLVM IR), `clean` (one body function, optimised), where indices are
checked `bounds` (the tests of launches, and the body for those that pass), else `disjoint` (the
body for launches whose arrays do not overlap, if it is another one), what each pass of
`simt/passes.py` left, `blocks` (the module with the block function for one block size) and `llvm`
(vectorised); then assembly and object code.
"""

import re
from functools import cache, partial
from typing import Any

from haulage.compiler import llvm, versions
from haulage.compiler.argument_block import argument_offsets
from haulage.compiler.body import Body
from haulage.compiler.bounds.unchecked import unchecked
from haulage.compiler.checks import counting
from haulage.compiler.checks.instrumentation import Instrumented, instrumented
from haulage.compiler.checks.unneeded import Dropped, Unneeded, without
from haulage.compiler.clean import clean
from haulage.compiler.code import Code
from haulage.compiler.definitions import definition_start
from haulage.compiler.mathematics import far
from haulage.compiler.mathematics.definitions import with_definitions
from haulage.compiler.simt import passes
from haulage.compiler.simt.analysis.kernel import KERNEL, NotInlined
from haulage.compiler.simt.emit.entry import ENTRY, GENERAL, TESTED
from haulage.compiler.simt.pipeline import (
    AUTO,
    REGIONS,
    SCALAR,
    CannotSplit,
    Transformed,
    transform,
)
from haulage.errors import CompileError
from haulage.forks import cached_property
from haulage.targets.base import Target
from haulage.targets.cpu import YIELD, CPUTarget

# Passes that make code in which blocks' threads are not run block by block.
_NOT_CHECKED = frozenset(("block-coalescing", "privatized-reductions"))


class CPUBody(Body):
    """A kernel whose code is made for one block size each, and in versions for what launches find
    in its arguments."""

    is_per_block = has_versions = True

    @cached_property
    def _cleaned(self) -> dict[tuple[str, tuple[str, ...]], str]:
        return {}

    def cleaned(self, version: str = versions.GENERAL, disjoint: tuple[str, ...] = ()) -> str:
        """The text of the stage `clean`, of a version; LLVM makes use of it there that the arrays
        at the addresses `disjoint` overlap no others."""
        made = self._cleaned.get((version, disjoint))
        if made is None:
            text = counting.declared(versions.specialised(self.lowered, version, disjoint))
            instrument = partial(self._instrument, version) if self._options.watched else None
            made = clean(text, self.lowered.entry, self.target, instrument)
            made = _without_noalias(made) if disjoint else made
            self._cleaned[version, disjoint] = made
        return made

    def _instrument(self, version: str, module: Any) -> Any:
        """The module with calls of what checks it while it runs."""
        made = instrumented(module, self.target, self._ranges, self._options.watched)
        self._instrumented[version] = made
        return llvm.parse(made.text)

    @cached_property
    def _instrumented(self) -> dict[str, Instrumented]:
        return {}

    def instrumented(self, version: str) -> Instrumented:
        """What was put into the kernel for checks, in a version."""
        with llvm.LOCK:
            self.cleaned(version)
        return self._instrumented[version]

    @property
    def _ranges(self) -> list[int]:
        """The parameters that are addresses of arrays, counted from the last one."""
        behind = len(self.lowered.arguments)
        return [array.data - behind for array in self.lowered.arrays]

    @property
    def raises_index_errors(self) -> bool:
        """Whether an index out of bounds is an error of the program, checked or not."""
        return self._options.raises_index_errors

    @property
    def blocks_wait(self) -> bool:
        """Whether blocks may wait for one another: then all begin before one of them is done."""
        return self.lowered.cooperative or YIELD in self.cleaned()

    def unneeded(self, block: tuple[int, int, int], version: str = versions.GENERAL) -> Unneeded:
        """Which checks of a version's code launches need not make, for blocks of one size."""
        with llvm.LOCK:
            text = self.cleaned(version)
            return Unneeded(text, self.target, self._ranges, block, self._options.watched)

    def _inlined(self) -> tuple[str, str]:
        try:
            return self.cleaned(), KERNEL
        except NotInlined as error:
            raise CompileError(self._not_inlined()) from error

    def _make(self, block: tuple[int, int, int], way: str, version: str) -> Code:
        cooperative, target = self.lowered.cooperative, self.target
        made_for, _, dropped = version.partition("|")
        assert isinstance(target, CPUTarget)
        off = passes.switched_off(target.passes)
        if self._options.watched and dropped != _ALL:
            off |= _NOT_CHECKED
        if self._options.watched and way == REGIONS:
            # A thread may stop in front of a barrier, at an index that only this check looks at.
            way = AUTO

        def made(text: str, off: frozenset[str]) -> Transformed:
            return transform(text, target, block, way, cooperative, off)

        with llvm.LOCK:
            try:
                general = self.cleaned(made_for)
                if dropped:
                    general = without(general, target, _dropped(dropped))
                bodies, stage, choosing = [general], "", ""
                if self._options.names_threads:
                    proven = unchecked(general, target, block)
                    if proven is not None:
                        bodies, stage, choosing = [proven.text, general], "bounds", proven.entry
                every = [made(text, off) for text in bodies]
                promotable = () if stage or self._options.watched else every[0].promotable
                promoted = self.cleaned(made_for, promotable) if promotable else general
                if promoted != general and not stage:
                    bodies, stage, choosing = [promoted, general], "disjoint", every[0].choosing
                    every.insert(0, made(promoted, off))
                if len({each.order for each in every}) > 1:
                    # A block's number is to say the same of its place in both.
                    off |= {"axis-order"}
                    every = [made(text, off) for text in bodies]
                blocks = every[0]
                modules = [_optimised(each, target, widen=way != SCALAR) for each in every]
                module = _of_both(modules[0], modules[1], choosing) if stage else modules[0]
            except CannotSplit as error:
                raise CompileError(self._cannot_split(error)) from error
            except NotInlined as error:
                raise CompileError(self._not_inlined()) from error
            text = str(module)
            constant_bytes = llvm.constant_bytes(module, target)
            code = llvm.object_code(module, target)
        offsets, nbytes = argument_offsets(self.lowered.arguments)
        lowered = self.lowered.llvm

        # Loaded code stays as long as the process: it must not keep this, and so the function.
        @cache
        def texts() -> tuple[Target, dict[str, str]]:
            after: dict[str, str] = {}
            with llvm.LOCK:
                transform(bodies[0], target, block, way, cooperative, off, after)
            first = {"lowered": lowered, "clean": general}
            if stage:
                first[stage] = f"{choosing}\n{bodies[0]}"
            return target, {**first, **after, "blocks": blocks.llvm, "llvm": text}

        return Code(
            code=code,
            texts=texts,
            metadata={
                "name": self.name,
                "target": self.target.architecture,
                "signature": self.lowered.signature,
                "entry": ENTRY,
                "block": block,
                "strategy": blocks.strategy,
                "regions": blocks.regions,
                "order": blocks.order,
                "unit_strides": versions.unit_strides(self.lowered, made_for),
                "nonnegative": versions.nonnegative(self.lowered, made_for),
                "disjoint": stage == "disjoint",
                "shared_bytes": max(each.shared_bytes for each in every),
                "local_bytes": max(each.local_bytes for each in every),
                "block_bytes": max(each.block_bytes for each in every),
                "constant_bytes": constant_bytes,
                "cooperative": self.lowered.cooperative,
                "uses_dynamic_shared": self.lowered.dynamic_shared
                and any(each.uses_dynamic_shared for each in every),
                "argument_offsets": tuple(offsets),
                "argument_bytes": nbytes,
                "names_threads": self._options.names_threads,
            },
            faults=self.lowered.faults,
            prints=self.lowered.prints,
            captured=self.lowered.captured,
        )

    def _not_inlined(self) -> str:
        return (
            f"kernel {self.name}: a function that calls itself can have no barrier and no shared "
            "array; give it the array as an argument, or write a loop"
        )

    def _cannot_split(self, error: CannotSplit) -> str:
        if not error.places:
            return (
                f"kernel {self.name} cannot be cut: its threads wait for one another's writes in a "
                "loop; leave the choice of the way to Haulage"
            )
        places = sorted({self.lowered.faults[place].line for place in error.places})
        lines = ", ".join(str(line) for line in places)
        return (
            f"kernel {self.name} cannot be cut at its barriers: perhaps not all threads of a block "
            f"reach those in line {lines}; leave the choice of the way to Haulage"
        )


# Of checked code that checks nothing but indices, and reads of local arrays.
_ALL = "all"


def version_without(version: str, dropped: Dropped | None) -> str:
    """A version of checked code that does not check some accesses; None: nor any barriers."""
    if dropped is None:
        return f"{version}|{_ALL}"
    if not (dropped.ranges or dropped.shared):
        return version
    listed = (",".join(map(str, sorted(each))) for each in (dropped.ranges, dropped.shared))
    return f"{version}|{';'.join(listed)}"


def _dropped(text: str) -> Dropped | None:
    if text == _ALL:
        return None
    ranges, shared = (
        frozenset(map(int, filter(None, each.split(",")))) for each in text.split(";")
    )
    return Dropped(ranges, shared)


def _without_noalias(text: str) -> str:
    """A cleaned-up module's text, whose kernel is not told any more that arrays do not overlap.

    Regions whose parameters have it make declarations in the loops over threads, which LLVM takes
    for accesses, and such loops for not parallel.
    """
    start = definition_start(text, KERNEL)
    head = text.index("{\n", start)
    return text[:start] + text[start:head].replace("ptr noalias ", "ptr ") + text[head:]


def _of_both(tested: Any, general: Any, entry: str) -> Any:
    """The module with an entry that goes on in one of two others, which are changed."""
    for module, name in ((tested, TESTED), (general, GENERAL)):
        module.get_function(ENTRY).name = name
    for each in (*tested.functions, *tested.global_variables):
        if not each.is_declaration and each.name != TESTED and each.linkage.name == "external":
            each.linkage = "internal"
    general.link_in(tested)
    general.link_in(llvm.parse(entry))
    for name in (TESTED, GENERAL):
        general.get_function(name).linkage = "internal"
    return general


# The first lines of functions that were not inlined, as they call themselves: all but ours.
_CALLED = re.compile(
    r'^(define internal [^\n]*@(?!"?haulage)[^\n]*?)((?: ![\w.]+ !\d+)* \{)$', re.M
)


def _probing(text: str) -> str:
    """The module's text, whose functions that call themselves touch each page of a frame: a wide
    one must not step over the page behind the end of a stack."""
    return _CALLED.sub(r'\1 "probe-stack"="inline-asm"\2', text)


def _optimised(blocks: Transformed, target: Target, *, widen: bool) -> Any:
    """The module of blocks, with the mathematics that it calls, at LLVM's level 3."""
    module = llvm.parse(with_definitions(_probing(blocks.llvm), target))
    module = counting.counted(module, target)
    # Threads side by side would become a vector that is gathered from their rows.
    llvm.optimise(module, target, 3, widen=widen, superwords=not blocks.jammed)
    settled = far.settled(str(module))
    if settled is not None:
        module = llvm.parse(settled)
        llvm.run_passes(
            module, target, "always_inliner", "simplify_cfg", "global_dead_code_eliminate"
        )
    return module


def function_assembly(function: Any, signature: Any, target: Target) -> str:
    """Assembly of a device function (a `kernel.DeviceFunction`) for arguments of types `signature`,
    as if no kernel inlined it."""
    with llvm.LOCK:
        module = llvm.parse(function.inspect_llvm(signature))
        llvm.optimise(module, target, 3, widen=True)
        return llvm.assembly(str(module), target)
