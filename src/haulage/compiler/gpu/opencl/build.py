"""From one module's text to SPIR-V: LLVM's optimiser, address spaces, and its code generator."""

import re
from typing import NamedTuple

from haulage.compiler import llvm
from haulage.compiler.contraction import contract
from haulage.compiler.frontend import Lowered
from haulage.compiler.gpu.modules import counted_anew, internalise, keep_together
from haulage.compiler.gpu.opencl import contraction, limits
from haulage.compiler.gpu.opencl.expansions import expanded
from haulage.compiler.gpu.opencl.mathematics import with_functions
from haulage.compiler.gpu.opencl.memory import with_address_spaces
from haulage.compiler.gpu.opencl.widths import with_known_widths
from haulage.compiler.gpu.opencl.words import has_lanes, in_a_row, with_indices, with_known_limits
from haulage.compiler.options import Options
from haulage.compiler.unrolling import has_private_arrays, unrolled
from haulage.targets.base import Target


class Built(NamedTuple):
    """`linked`, `llvm`: the module's text with all names, and as it went to the code generator;
    `code`: SPIR-V; `constant_bytes`: of constants in memory; `hidden`: the parameters behind the
    user's; `lanes`: of a sub-group, 0 for as many as the device likes."""

    linked: str
    llvm: str
    code: bytes
    constant_bytes: int
    hidden: tuple[str, ...]
    lanes: int


def build(text: str, name: str, target: Target, options: Options, kernel: Lowered) -> Built:
    """The code of a module's text, of which others see the kernel `name`.

    Args:
        kernel: what the front end has made of it.

    Raises:
        CompileError: SPIR-V has no word for something, or a thread's arrays are too large.
    """
    linked = with_functions(counted_anew(text))
    lanes = target.warp_size if has_lanes(linked) else 0
    linked = with_known_limits(linked) if lanes else with_indices(linked)
    module = llvm.parse(linked)
    keep_together(module)
    internalise(module, name)
    for function in module.functions:
        if not function.is_declaration and function.name != name:
            function.add_function_attribute("alwaysinline")
    if options.optimised:
        if has_private_arrays(linked):
            llvm.optimise(module, target, 2, widen=False)
            llvm.run_passes(module, target, "lower_switch", "instruction_namer")
            module = llvm.parse(unrolled(str(module), name, target))
        llvm.optimise(module, target, 3, widen=False)
    else:
        llvm.optimise(module, target, 0, widen=False)
        llvm.run_passes(module, target, "sroa")
    if lanes:
        llvm.run_passes(module, target, "instruction_namer")
        module = llvm.parse(in_a_row(str(module), name))
        llvm.optimise(module, target, 1 if options.optimised else 0, widen=False)
    llvm.run_passes(
        module, target, "global_dead_code_eliminate", "lower_switch", "instruction_namer"
    )
    made = str(module)
    leaves_sums = contraction.is_left_to_devices(made)
    if not leaves_sums:
        made = contract(made, target)
    limits.check(name, made, target, kernel.local_arrays)
    made, hidden = with_address_spaces(with_known_widths(expanded(made), name), name)
    if lanes:
        made = _with_lanes(made, name, lanes)
    if leaves_sums:
        made = contraction.allowed(made)
    limits.check_operations(name, made)
    module = llvm.parse(made)
    constant_bytes = llvm.constant_bytes(module, target)
    return Built(linked, made, llvm.object_code(module, target), constant_bytes, hidden, lanes)


def _with_lanes(text: str, name: str, lanes: int) -> str:
    """A module's text whose kernel has sub-groups of so many work-items."""
    from haulage.compiler.gpu.metadata import free_number

    number = free_number(text)
    text = re.sub(
        rf"(?m)^(define spir_kernel void @{name}\(.*) \{{$",
        rf"\1 !intel_reqd_sub_group_size !{number} {{",
        text,
    )
    return f"{text}\n!{number} = !{{i32 {lanes}}}\n"
