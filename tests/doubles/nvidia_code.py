"""The PTX that kernels become, read as a list of instructions."""

from typing import Any

import haulage
from doubles.ptxas import assemble


def instructions(kernel: Any, signature: str, architecture: str = "sm_90") -> list[str]:
    """The instructions of a kernel's code, one string each with single spaces, which NVIDIA's
    assembler has taken."""
    asm = haulage.compile(kernel, signature, architecture).asm
    assemble(asm, "-O0")
    lines = (line.partition("//")[0].strip() for line in asm.splitlines())
    return [" ".join(line.split()) for line in lines if line.endswith(";") and line[0] != "."]


def words(kernel: Any, signature: str, architecture: str = "sm_90") -> list[str]:
    """The first words of these instructions, behind the predicates that guard them."""
    found = (line.split() for line in instructions(kernel, signature, architecture))
    return [(line[1] if line[0].startswith("@") else line[0]).rstrip(";") for line in found]


def count(kernel: Any, signature: str, start: str, architecture: str = "sm_90") -> int:
    """How many instructions begin with `start`."""
    return sum(word.startswith(start) for word in words(kernel, signature, architecture))
