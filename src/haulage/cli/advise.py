"""`haulage advise`: a program run as `haulage run` does, and the copies that it need not make."""

from __future__ import annotations

import os

from haulage.advising.settings import Settings
from haulage.cli import run
from haulage.cli.refusal import Refusal, absolute

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_FILE = "a file for the advice"
VALUED = {**run.DEVICE, "-o": _FILE, "--output": _FILE}
PLAIN = ("--json",)


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line, for its help: the words after it are `main`'s."""
    parser = commands.add_parser(
        "advise",
        help="run a program, and say which copies repeated unchanged data and what to change",
        usage="haulage advise [-h] [--json] [-o FILE] [--device D] "
        "(PROGRAM | -m MODULE | -c CODE | -) [ARGS ...]",
        description="Run a Python program as `haulage run` does, with its own output and exit "
        "status, and tell on standard error when it ends which copies between the host and the "
        "device repeated unchanged data: for each line how often, of which array, how many bytes, "
        "how long they took, and what to change. Host arrays that kernels are given are copied "
        "there and back for this on the CPU device too, as a GPU needs it. Contents are compared, "
        "which takes a second or two for each gigabyte that is copied, and memory of the device "
        "is held longer, up to a quarter of it.",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="give the advice as JSON, in one line, the last one on standard output",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write it to a file; an older one is replaced"
    )
    parser.add_argument("--device", metavar="D", help="where to run, as for haulage run")
    run.add_program_to(parser)


def asks_for_help(words: Sequence[str]) -> bool:
    """Whether the words after `haulage advise` ask for help, before a program is named."""
    return run.asks_for_help([word for word in words if word not in PLAIN], VALUED)


def main(words: Sequence[str]) -> int:
    """Become the program that the words after `haulage advise` tell, watched.

    Raises:
        Refusal: what is asked cannot be done.
    """
    options, program = run.split(words, "advise", VALUED, PLAIN)
    Settings(
        program=_name(program),
        json="--json" in options,
        output=_output(options.get("--output", options.get("-o"))),
        starter=os.getpid(),
    ).give_on()
    return run.become(program, options.get("--device"))


def _name(program: Sequence[str]) -> str:
    """What the program is called."""
    if program[0][:2] == "-c":
        return "the text of -c"
    return " ".join(program[1:] if program[0] == "--" else program)


def _output(given: str | None) -> str:
    """The absolute path of the file; '': none is named."""
    if given is None:
        return ""
    path = absolute(given, f"--output {given}")
    folder = os.path.dirname(path)
    if os.path.isdir(path) or given.endswith(("/", os.sep)):
        raise Refusal(f"--output {given}: is a folder; name a file")
    if not os.path.isdir(folder):
        raise Refusal(f"--output {given}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise Refusal(f"--output {given}: the folder {folder} cannot be written to")
    return path
