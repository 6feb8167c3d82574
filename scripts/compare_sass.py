"""Compares machine code for NVIDIA's GPUs without one: Haulage's, numba-cuda's and nvcc's.

    python scripts/compare_sass.py [--numba PYTHON] [--nvrtc PYTHON] [--arch sm_90] [KERNEL ...]

Needs the wheels nvidia-nvvm, nvidia-cuda-nvcc and nvidia-cuda-nvdisasm beside Haulage. PYTHON is an
interpreter with numba-cuda, and one with cuda-bindings and nvidia-cuda-nvrtc: a side without one is
left out. All code goes through the same `ptxas`. Written is a table in Markdown; of each kernel

    registers     of a thread, and bytes of local memory (its stack) if there are any
    code          instructions of the whole kernel, padding left out
    loop          instructions of its largest innermost loop, and in brackets the loads from memory
                  and from shared memory there, since one side may unroll further than another
    wide          instructions that make the upper halves of 64-bit numbers (IMAD.WIDE, LEA.HI and
                  the like), in the whole kernel

and the processor time that each side took from Python to PTX, after a first kernel.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BENCH = HERE.parent / "src" / "haulage" / "cli" / "bench"

_NVRTC = """
import sys
from cuda.bindings import nvrtc
source = open(sys.argv[1], "rb").read()
_, program = nvrtc.nvrtcCreateProgram(source, b"kernels.cu", 0, [], [])
options = [b"--gpu-architecture=compute_" + sys.argv[2].encode()]
(error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
_, size = nvrtc.nvrtcGetProgramLogSize(program)
log = b" " * size
nvrtc.nvrtcGetProgramLog(program, log)
if error:
    sys.exit(log.decode())
_, size = nvrtc.nvrtcGetPTXSize(program)
ptx = b" " * size
nvrtc.nvrtcGetPTX(program, ptx)
sys.stdout.write(ptx.rstrip(b"\\0").decode())
"""


@dataclass(frozen=True)
class Figures:
    """What is counted of a kernel's machine code."""

    registers: int
    stack: int
    instructions: int
    loop: int
    loop_loads: int
    local: int
    wide: int
    constant_loads: int
    widths: tuple[str, ...]

    def cells(self) -> list[str]:
        registers = f"{self.registers}" + (f" + {self.stack} B" if self.stack else "")
        loop = f"{self.loop} ({self.loop_loads})" if self.loop else ""
        return [registers, str(self.instructions), loop, str(self.wide)]


def tool(wheel: str, name: str) -> str:
    """The path of a program of one of NVIDIA's wheels."""
    for file in files(wheel) or ():
        if file.name == name:
            return str(file.locate())
    raise FileNotFoundError(f"{name} is not in the wheel {wheel}")


def assembled(ptx: str, architecture: str, folder: Path) -> tuple[str, str]:
    """(what `ptxas -v` says, SASS of all kernels) of a PTX text."""
    source, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_text(re.sub(r"\.target sm_\w+", f".target {architecture}", ptx, count=1))
    said = subprocess.run(
        [tool("nvidia-cuda-nvcc", "ptxas"), "-v", f"-arch={architecture}", "-o", cubin, source],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    sass = subprocess.run(
        [tool("nvidia-cuda-nvdisasm", "nvdisasm"), "-c", cubin],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return said, sass


_SECTION = re.compile(r"(?m)^//-+ \.text\.(\S+)")
_ITEM = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(.*?)\s*;|^(\.L\w+):")
_BRANCH = re.compile(r"\bBRA\b.*`\((\.L\w+)\)")
_SAID = re.compile(
    r"Function properties for (\S+)\s+(\d+) bytes stack frame.*\n.*Used (\d+) registers"
)


def figures(said: str, sass: str) -> dict[str, Figures]:
    """The figures of each kernel by its name."""
    properties = {name: (int(regs), int(stack)) for name, stack, regs in _SAID.findall(said)}
    parts = _SECTION.split(sass)[1:]
    found = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        if name not in properties:
            continue
        found[name] = _counted(text, *properties[name])
    return found


def _counted(text: str, registers: int, stack: int) -> Figures:
    code: list[str] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        item = _ITEM.match(line)
        if item is None:
            continue
        if item[2]:
            labels[item[2]] = len(code)
        elif not re.search(r"\bNOP\b", item[1]):
            code.append(item[1])
    loops = []
    for number, each in enumerate(code):
        branch = _BRANCH.search(each)
        # The end of all code is a branch to itself.
        if branch and labels[branch[1]] < number:
            loops.append((labels[branch[1]], number))
    inner = [
        (low, high)
        for low, high in loops
        if not any(low <= a and b <= high and (a, b) != (low, high) for a, b in loops)
    ]
    largest = max(inner, key=lambda loop: loop[1] - loop[0], default=(0, -1))
    body = code[largest[0] : largest[1] + 1]
    words = [_opcode(each) for each in code]
    return Figures(
        registers,
        stack,
        len(code),
        len(body),
        sum(_opcode(each).startswith(("LDG", "LDS", "LD.")) for each in body),
        sum(word.startswith(("LDL", "STL")) for word in words),
        sum(_is_wide(word) for word in words),
        sum("CONSTANT" in word for word in words),
        tuple(sorted({word for word in words if word.startswith(("LDG", "STG"))})),
    )


def _opcode(text: str) -> str:
    return re.sub(r"^@!?U?P\w+\s+", "", text).split()[0]


def _is_wide(word: str) -> bool:
    return ".WIDE" in word or ".HI" in word or ".X" in word


def haulage_ptx(architecture: str, wanted: list[str]) -> dict[str, tuple[str, float]]:
    """{kernel: (PTX, seconds)} of Haulage."""
    import importlib

    import haulage

    sys.path.insert(0, str(HERE))
    own = importlib.import_module("sass.kernels")
    haulage.compile(own.saxpy_first, own.FIRST, architecture)
    made = {}
    for file, kernels in own.SIGNATURES.items():
        module = (
            own
            if file == "kernels"
            else importlib.import_module(f"haulage.cli.bench.kernels.{file}")
        )
        for name, signature in kernels.items():
            if wanted and name not in wanted:
                continue
            start = time.process_time()
            code: Any = haulage.compile(getattr(module, name), signature, architecture)
            made[name] = (code.asm, time.process_time() - start)
    return made


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numba", metavar="PYTHON", help="an interpreter with numba-cuda")
    parser.add_argument("--nvrtc", metavar="PYTHON", help="one with NVRTC and cuda-bindings")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--keep", type=Path, help="a folder for all PTX and SASS")
    parser.add_argument("kernels", nargs="*")
    given = parser.parse_args()
    number = given.arch.removeprefix("sm_")
    sides: dict[str, dict[str, Figures]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)

        def side(name: str, kernel: str, ptx: str) -> None:
            said, sass = assembled(ptx, given.arch, folder)
            if given.keep:
                (given.keep / name).mkdir(parents=True, exist_ok=True)
                (given.keep / name / f"{kernel}.ptx").write_text(ptx)
                (given.keep / name / f"{kernel}.sass").write_text(sass)
            got = figures(said, sass)
            if kernel == "*":
                sides[name] = got
            else:
                sides.setdefault(name, {})[kernel] = next(iter(got.values()))

        ours = haulage_ptx(given.arch, given.kernels)
        for kernel, (ptx, _) in ours.items():
            side("haulage", kernel, ptx)
        seconds = {"haulage": {name: each[1] for name, each in ours.items()}}
        if given.numba:
            text = subprocess.run(
                [given.numba, HERE / "sass" / "numba_side.py", number, BENCH],
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, "PYTHONPATH": ""},
            ).stdout
            theirs = json.loads(text)
            for kernel, (ptx, _) in theirs.items():
                if kernel in ours:
                    side("numba-cuda", kernel, ptx)
            seconds["numba-cuda"] = {name: each[1] for name, each in theirs.items()}
        if given.nvrtc:
            ptx = subprocess.run(
                [given.nvrtc, "-c", _NVRTC, HERE / "sass" / "kernels.cu", number],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            side("nvcc", "*", ptx)
    _write(list(ours), sides)
    common = set(ours).intersection(*seconds.values())
    for name, each in seconds.items():
        total = sum(each[kernel] for kernel in common)
        print(f"{name}: {total:.2f} s to PTX for {len(common)} kernels")


def _write(kernels: list[str], sides: dict[str, dict[str, Figures]]) -> None:
    heads = ("registers", "code", "loop", "wide")
    print(f"Each cell: {', '.join(sides)}.\n")
    print("| kernel | " + " | ".join(heads) + " |")
    print("| --- " * (len(heads) + 1) + "|")
    for kernel in kernels:
        columns = [got[kernel].cells() if kernel in got else ["-"] * 4 for got in sides.values()]
        cells = [", ".join(cell or "-" for cell in column) for column in zip(*columns, strict=True)]
        print(f"| {kernel} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
