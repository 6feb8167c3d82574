"""Which processor the code for this computer is made for, found without making any."""

from functools import cache

from haulage import config
from haulage.backends.cpu_driver import processor


def identity(architecture: str = "host") -> tuple[str, ...]:
    """Everything of the processor that decides the code for it: what the system tells, where it
    tells the instruction sets, else what LLVM finds; and the level that the user chose. There is
    one `architecture` only."""
    return (config.processor_level() or "", config.passes_switched_off(), *_processor())


@cache
def _processor() -> tuple[str, ...]:
    told = processor.instruction_sets()
    if told:
        return told
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    return (llvm.get_default_triple(), llvm.get_host_cpu_name(), features)
