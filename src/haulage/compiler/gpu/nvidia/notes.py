"""Notes in a module's text that tell LLVM's code generator for PTX what options ask for."""

from haulage.compiler.gpu.metadata import free_number
from haulage.compiler.options import Options

# LLVM's notes for launch bounds, in the order in which CUDA has them.
_BOUNDS = ("maxntidx", "minctasm", "maxclusterrank")


def with_options(text: str, name: str, options: Options) -> str:
    """A module's text that says what the options ask of its kernel `name`."""
    notes = [
        f'!"{note}", i32 {int(value)}'
        for note, value in zip(_BOUNDS, options.launch_bounds, strict=False)
        if value
    ]
    if options.max_registers:
        notes.append(f'!"maxnreg", i32 {int(options.max_registers)}')
    if not (notes or options.is_fast):
        return text
    number = free_number(text)
    lines = []
    if notes:
        lines += [
            f"!nvvm.annotations = !{{!{number}}}",
            f"!{number} = !{{ptr @{name}, {', '.join(notes)}}}",
        ]
        number += 1
    if options.is_fast:
        # libdevice's functions ask for it.
        lines += [
            f"!llvm.module.flags = !{{!{number}}}",
            f'!{number} = !{{i32 4, !"nvvm-reflect-ftz", i32 1}}',
        ]
    return "\n".join([text, *lines, ""])
