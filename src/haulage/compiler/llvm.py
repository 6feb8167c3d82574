"""LLVM as a library: reading text, optimising, writing code. llvmlite is imported on first use."""

import threading
from functools import cache
from typing import Any

from haulage import forks
from haulage.compiler import apart
from haulage.targets.base import Target

# LLVM's global context, in which llvmlite parses, is not safe to use from two threads.
LOCK = threading.RLock()
forks.held(lambda: LOCK)


@cache
def machine(target: Target) -> Any:
    """LLVM's target machine for `target`."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="small"
    )


def parse(text: str) -> Any:
    """A verified LLVM module of `text`."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.verify()
    return module


def optimise(
    module: Any,
    target: Target,
    level: int,
    *,
    widen: bool,
    superwords: bool = True,
    unroll: bool = False,
) -> None:
    """Run LLVM's default pipeline of a level; `widen` allows vectorising and unrolling,
    `superwords` that of straight code too, `unroll` unrolling alone."""
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = widen
    options.slp_vectorization = widen and superwords
    options.loop_interleaving = widen
    options.loop_unrolling = widen or unroll
    builder = llvm.create_pass_builder(machine(target), options)
    builder.getModulePassManager().run(module, builder)


def run_passes(module: Any, target: Target, *names: str) -> None:
    """Run single passes, by llvmlite's names for them, in order."""
    import llvmlite.binding as llvm

    manager = llvm.create_new_module_pass_manager()
    for name in names:
        getattr(manager, f"add_{name}_pass")()
    builder = llvm.create_pass_builder(machine(target), llvm.create_pipeline_tuning_options())
    manager.run(module, builder)


def constant_bytes(module: Any, target: Target) -> int:
    """Bytes of the constants that a parsed module has in memory."""
    import llvmlite.binding as llvm

    data = llvm.create_target_data(target.data_layout)
    constants = [each for each in module.global_variables if each.is_constant]
    return sum(data.get_abi_size(each.global_value_type) for each in constants)


def object_code(module: Any, target: Target) -> bytes:
    """Relocatable object code of a parsed module, which the code generator changes.

    Raises:
        CompileError: the code generator, in a process of its own, has failed.
    """
    if target.is_made_apart:
        return apart.emitted("object", str(module), target)
    code: bytes = machine(target).emit_object(module)
    return code


def assembly(text: str, target: Target) -> str:
    """Assembly text of a module's text.

    Raises:
        As `object_code`.
    """
    if target.is_made_apart:
        return apart.emitted("assembly", text, target).decode()
    code: str = machine(target).emit_assembly(parse(text))
    return code
