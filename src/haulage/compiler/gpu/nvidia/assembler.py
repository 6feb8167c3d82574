"""NVIDIA's assembler and disassembler, where they are: what code takes, and machine code.

Nothing needs them: the driver assembles PTX by itself. They need no driver and no GPU.
"""

import re
import subprocess
import tempfile
from pathlib import Path

from haulage.compiler.gpu.nvidia import toolkit
from haulage.errors import CompileError, Unsupported

ASSEMBLER = ("nvidia-cuda-nvcc", "ptxas")
DISASSEMBLER = ("nvidia-cuda-nvdisasm", "nvdisasm")

# More than the longest that was seen, many times over.
_SECONDS = 600
_ARCHITECTURE = re.compile(rb"(?m)^\.target (\w+)")
_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
_STACK = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"Used (?P<registers>\d+) registers(?P<rest>.*)")
_REST = {
    "shared_bytes": re.compile(r"(\d+) bytes smem"),
    "local_bytes": re.compile(r"(\d+) bytes cumulative stack size"),
}


def is_there() -> bool:
    """Whether there is an assembler."""
    return toolkit.program(*ASSEMBLER) is not None


def machine_code(ptx: bytes) -> bytes:
    """The machine code (a cubin) of PTX, for the architecture that it names.

    Raises:
        Unsupported: there is no assembler.
        CompileError: it does not take the text; the message has its own.
    """
    return _assembled(ptx)[0]


def resources(ptx: bytes, entry: str) -> dict[str, int]:
    """What a thread of the kernel `entry` takes: `registers`, `local_bytes` of its stack,
    `spill_store_bytes` and `spill_load_bytes`, which are instructions; and `shared_bytes` of its
    block.

    Raises:
        As `machine_code`.
    """
    _, log = _assembled(ptx, "-v")
    told = {found["name"]: found.end() for found in _ENTRY.finditer(log)}
    part = log[told[entry] :]
    stack = _STACK.search(part)
    used = _USED.search(part)
    assert stack is not None, log
    assert used is not None, log
    made = {
        "registers": int(used["registers"]),
        "local_bytes": int(stack["stack"]),
        "spill_store_bytes": int(stack["stores"]),
        "spill_load_bytes": int(stack["loads"]),
        "shared_bytes": 0,
    }
    for name, pattern in _REST.items():
        if found := pattern.search(used["rest"]):
            made[name] = max(made[name], int(found[1]))
    return made


def disassembled(ptx: bytes, *, control_flow: bool = False) -> str:
    """The machine code of PTX as text (SASS), with source lines if the PTX has them; or, with
    `control_flow`, the graph of its blocks in the language of Graphviz.

    Raises:
        As `machine_code`; Unsupported without the disassembler too.
    """
    program = _needed(*DISASSEMBLER)
    with tempfile.TemporaryDirectory(prefix="haulage-") as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(machine_code(ptx))
        return _run([program, "-cfg" if control_flow else "-gi", str(file)])[0]


def _assembled(ptx: bytes, *options: str) -> tuple[bytes, str]:
    """(machine code, what the assembler says)."""
    program = _needed(*ASSEMBLER)
    architecture = _ARCHITECTURE.search(ptx)
    assert architecture is not None, ptx[:200]
    lines = ["-lineinfo"] if b"\t.loc\t" in ptx else []
    with tempfile.TemporaryDirectory(prefix="haulage-") as folder:
        source, made = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_bytes(ptx)
        to = ["-o", str(made), str(source)]
        said = _run([program, f"-arch={architecture[1].decode()}", *lines, *options, *to])
        return made.read_bytes(), "".join(said)


def _needed(wheel: str, name: str) -> str:
    program = toolkit.program(wheel, name)
    if program is None:
        raise Unsupported(
            f"{name} has not been found, which makes and shows machine code of NVIDIA's GPUs: "
            f"pip install {wheel}, or install a CUDA toolkit and have it on PATH"
        )
    return program


def _run(command: list[str]) -> tuple[str, str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    if done.returncode:
        said = f"{done.stdout}{done.stderr}".strip()
        raise CompileError(f"{Path(command[0]).name} failed with {done.returncode}: {said}")
    return done.stdout, done.stderr
