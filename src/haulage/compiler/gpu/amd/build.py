"""From one module's text to object code: the device library, LLVM's optimiser and its code
generator."""

import re
from typing import Any, NamedTuple

from haulage.compiler import llvm
from haulage.compiler.contraction import contract
from haulage.compiler.frontend import Lowered
from haulage.compiler.gpu.amd import device_library, limits
from haulage.compiler.gpu.amd.mathematics import with_functions
from haulage.compiler.gpu.amd.ranges import with_ranges
from haulage.compiler.gpu.amd.shuffles import with_known_shuffles
from haulage.compiler.gpu.captured import with_global_addresses, with_global_elements
from haulage.compiler.gpu.denormals import flushing
from haulage.compiler.gpu.modules import counted_anew, internalise, keep_together
from haulage.compiler.gpu.versions import extents_of, with_notes
from haulage.compiler.options import Options
from haulage.compiler.unrolling import has_private_arrays, unrolled
from haulage.errors import CompileError
from haulage.targets.amd import AMDTarget

# Declared by the code object of version 5, the oldest one that says what its arguments are for and
# that ROCm 5 to 10 load; LLVM's own choice is a newer one.
_VERSION = '!"amdhsa_code_object_version", i32 500'
_OUTSIDE = re.compile(r"(?m)^declare [^@\n]*@\"?([\w.]+)\"?\(")


class Built(NamedTuple):
    """`linked`, `llvm`: the module's text with all names, and as it went to the code generator;
    `code`: a relocatable object; `constant_bytes`: of constants in memory."""

    linked: str
    llvm: str
    code: bytes
    constant_bytes: int


def build(text: str, name: str, target: AMDTarget, options: Options, kernel: Lowered) -> Built:
    """The code of a module's text, of which others see the kernel `name`.

    Args:
        kernel: what the front end has made of it.

    Raises:
        CompileError: it needs the device library, which is not there, or a function that nobody
            has; or its arrays are too large.
    """
    linked = with_ranges(with_functions(counted_anew(text), target))
    module = llvm.parse(linked)
    keep_together(module)
    internalise(module, name)
    if "@__ocml_" in linked:
        device_library.link(module, target, fast=options.is_fast)
        internalise(module, name)
        # Most of the library, which all passes would look at.
        llvm.run_passes(module, target, "global_dead_code_eliminate")
    if options.optimised:
        if has_private_arrays(linked):
            llvm.optimise(module, target, 2, widen=False)
            llvm.run_passes(module, target, "lower_switch", "instruction_namer")
            module = llvm.parse(unrolled(str(module), name, target))
        llvm.optimise(module, target, 3, widen=False, unroll=True)
        module = _with_captured_arrays(module, target)
    else:
        llvm.optimise(module, target, 0, widen=False)
        llvm.run_passes(module, target, "global_dead_code_eliminate")
    if options.optimised:
        shuffled = with_known_shuffles(str(module), target)
        if shuffled is not None:
            module = llvm.parse(shuffled)
            # What worked out where lanes read.
            llvm.run_passes(module, target, "dead_code_elimination")
    llvm.run_passes(module, target, "lower_switch", "instruction_namer")
    made = contract(str(module), target)
    if options.optimised:
        # Addresses of any elements will do for an access of several, and what no write comes before
        # LLVM knows for what stays as it is.
        made = with_notes(
            made,
            name,
            kernel.arrays,
            extents_of(kernel),
            target,
            with_neighbours=False,
            with_all_loads=False,
        )
    made = with_global_addresses(made)
    if options.is_fast:
        made = flushing(made)
    _check_complete(made, name)
    limits.check(name, made, target, kernel.local_arrays)
    module = llvm.parse(made)
    constant_bytes = llvm.constant_bytes(module, target)
    return Built(linked, made, llvm.object_code(module, target), constant_bytes)


def _with_captured_arrays(module: Any, target: AMDTarget) -> Any:
    """The module with accesses of captured arrays in the device's memory as such."""
    generic = str(module)
    known = with_global_elements(generic)
    if known == generic:
        return module
    module = llvm.parse(known)
    llvm.optimise(module, target, 1, widen=False)
    return module


def with_version(text: str, number: int) -> str:
    """A module's text that says which code object it becomes; `number` is a free one of a note."""
    return "\n".join(
        [text, f"!llvm.module.flags = !{{!{number}}}", f"!{number} = !{{i32 1, {_VERSION}}}", ""]
    )


def _check_complete(text: str, name: str) -> None:
    """LLVM's code generator ends the process where it meets a function that it has no code for."""
    unknown = sorted({each for each in _OUTSIDE.findall(text) if not each.startswith("llvm.")})
    if unknown:
        raise CompileError(
            f"kernel {name}: no code for AMD's GPUs is known of {', '.join(unknown)}"
        )
