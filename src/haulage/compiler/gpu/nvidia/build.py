"""From one module's text to PTX: libdevice, LLVM's optimiser and its code generator."""

from typing import Any, NamedTuple

from haulage.channel import CHANNEL, MODULE
from haulage.compiler import llvm
from haulage.compiler.contraction import contract
from haulage.compiler.frontend import Lowered
from haulage.compiler.gpu.captured import with_global_addresses
from haulage.compiler.gpu.denormals import flushing
from haulage.compiler.gpu.modules import counted_anew, internalise, keep_together
from haulage.compiler.gpu.nvidia import libdevice
from haulage.compiler.gpu.nvidia.constants import with_constants
from haulage.compiler.gpu.nvidia.fast_math import with_fast_functions
from haulage.compiler.gpu.nvidia.hints import with_places
from haulage.compiler.gpu.nvidia.local_atomics import with_plain_changes
from haulage.compiler.gpu.nvidia.names import with_libdevice
from haulage.compiler.gpu.nvidia.ranges import with_ranges
from haulage.compiler.gpu.nvidia.reductions import with_reductions
from haulage.compiler.gpu.nvidia.turns import with_few_turns
from haulage.compiler.gpu.versions import extents_of, with_notes
from haulage.compiler.linked import DECLARED
from haulage.compiler.options import Options
from haulage.compiler.unrolling import has_private_arrays, unrolled
from haulage.targets import nvidia_math
from haulage.targets.base import Target


class Built(NamedTuple):
    """`linked`, `llvm` and `asm`: the module's text with all names that libdevice has, as it went
    to the code generator, and PTX; `constant_bytes`: of constants in memory."""

    linked: str
    llvm: str
    asm: str
    constant_bytes: int


def build(
    text: str, name: str, target: Target, options: Options, kernel: Lowered | None = None
) -> Built:
    """The code of a module's text, of which others see the kernel or function `name`.

    Args:
        kernel: what the front end has made of it; None of a function.

    Raises:
        CompileError: it needs libdevice, which is not there.
    """
    text = with_fast_functions(counted_anew(text), target.architecture)
    names = {**target.math_names, **nvidia_math.INTRINSICS}
    with llvm.LOCK:
        linked = with_ranges(with_libdevice(text, names))
        linked = with_constants(linked, target, optimised=options.optimised)
        module = llvm.parse(linked)
        keep_together(module)
        internalise(module, name)
        called = libdevice.called(linked)
        if called:
            libdevice.link(module, called, target)
            internalise(module, name)
        if kernel is None:
            _share_channel(module)
        if options.optimised:
            if has_private_arrays(linked):
                module = _with_arrays_in_registers(module, name, target)
            llvm.optimise(module, target, 3, widen=False, unroll=True)
        else:
            llvm.optimise(module, target, 0, widen=False)
            llvm.run_passes(module, target, "global_dead_code_eliminate")
        plain = with_plain_changes(str(module), name if kernel is not None else "")
        if plain is not None:
            module = llvm.parse(plain)
            llvm.optimise(module, target, 2 if options.optimised else 0, widen=False)
        llvm.run_passes(module, target, "lower_switch", "instruction_namer")
        made = contract(str(module), target)
        if kernel is not None:
            made = with_places(made, name)
        if kernel is not None and options.optimised:
            made = with_notes(made, name, kernel.arrays, extents_of(kernel), target)
        made = with_global_addresses(made)
        if options.is_fast:
            made = flushing(made)
        asm = with_reductions(llvm.assembly(made, target))
        if options.optimised:
            asm = with_few_turns(asm)
        linked, made, asm = (each.replace(DECLARED, "") for each in (linked, made, asm))
        return Built(linked, made, asm, llvm.constant_bytes(module, target))


def _with_arrays_in_registers(module: Any, name: str, target: Target) -> Any:
    """The module with short loops over a thread's own arrays unrolled, before LLVM unrolls any of
    them in part."""
    llvm.optimise(module, target, 2, widen=False)
    llvm.run_passes(module, target, "lower_switch", "instruction_namer")
    return llvm.parse(unrolled(str(module), name, target))


def _share_channel(module: Any) -> None:
    """Let a linker take the variables of the channel that another module has."""
    for variable in module.global_variables:
        if variable.name in (CHANNEL, MODULE):
            variable.linkage = "weak_any"
