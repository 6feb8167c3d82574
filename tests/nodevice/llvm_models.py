"""Models of small LLVM functions for the tests of the CPU transformation's passes."""

from haulage.compiler import llvm
from haulage.compiler.simt import reading
from haulage.compiler.simt.model import Function
from haulage.targets.cpu import host

BARRIER = "declare void @haulage.barrier(i32)\n"


def model_of(text: str) -> Function:
    """The model of the one function that `text` defines."""
    module = llvm.parse(text)
    llvm.run_passes(module, host(), "instruction_namer")
    (function,) = (item for item in module.functions if not item.is_declaration)
    return reading.read(str(module), function.name)
