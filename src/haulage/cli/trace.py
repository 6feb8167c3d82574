"""`haulage trace`: a program run as `haulage run` does, and what it did with its device, drawn."""

from __future__ import annotations

import os

from haulage.cli import run
from haulage.cli.refusal import Refusal, absolute
from haulage.tracing.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_NAME = "the files' name without .html and .json, or a folder"
_NUMBER = "a whole number"
VALUED = {
    **run.DEVICE,
    "-o": _NAME,
    "--output": _NAME,
    "--frames": _NUMBER,
    "--max-events": _NUMBER,
}
PLAIN = ("--no-html", "--no-json", "--no-compare")

_FRAMES = 1
_MOST = 100_000


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line, for its help: the words after it are `main`'s."""
    parser = commands.add_parser(
        "trace",
        help="run a program, and draw its memory, transfers and kernels",
        usage="haulage trace [-h] [-o NAME] [--frames N] [--max-events N] [--no-html] [--no-json] "
        "[--no-compare] [--device D] (PROGRAM | -m MODULE | -c CODE | -) [ARGS ...]",
        description="Run a Python program as `haulage run` does, and write two files when it ends: "
        "a page, NAME.html, which any browser opens without a network, and a trace, NAME.json, for "
        "ui.perfetto.dev or chrome://tracing. They show who held memory when, what each stream "
        "moved and ran, who held most at the peak, and transfers that repeated unchanged data. "
        "They are written however the program ends, but for a signal that kills it. Processes "
        "that it starts write files of their own, NAME-PID, if they use a device.",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="NAME",
        help="the files, without .html and .json, or a folder for them; older ones are replaced "
        "(default: haulage-trace-PROGRAM, in this folder)",
    )
    parser.add_argument(
        "--frames",
        metavar="N",
        help="how many lines of the stack are kept of who asked for memory or work "
        f"(default: {_FRAMES}, the innermost line of the program)",
    )
    parser.add_argument(
        "--max-events",
        metavar="N",
        help="how many operations, and how many changes of memory, are kept; beyond that short "
        f"ones are drawn together, and the page says so (default: {_MOST})",
    )
    parser.add_argument("--no-html", action="store_true", help="write no page")
    parser.add_argument("--no-json", action="store_true", help="write no trace")
    parser.add_argument(
        "--no-compare",
        action="store_true",
        help="do not compare what is copied with earlier copies, which takes about a second for "
        "a gigabyte",
    )
    parser.add_argument("--device", metavar="D", help="where to run, as for haulage run")
    run.add_program_to(parser)


def asks_for_help(words: Sequence[str]) -> bool:
    """Whether the words after `haulage trace` ask for help, before a program is named."""
    return run.asks_for_help([word for word in words if word not in PLAIN], VALUED)


def main(words: Sequence[str]) -> int:
    """Become the program that the words after `haulage trace` tell, traced.

    Raises:
        Refusal: what is asked cannot be done.
    """
    options, program = run.split(words, "trace", VALUED, PLAIN)
    if "--no-html" in options and "--no-json" in options:
        raise Refusal("trace: --no-html and --no-json leave nothing to write; leave one out")
    output = options.get("--output", options.get("-o"))
    Settings(
        program=" ".join(program[1:] if program[0] == "--" else program),
        output=_output(output, program),
        html="--no-html" not in options,
        json="--no-json" not in options,
        frames=_count("--frames", options.get("--frames"), _FRAMES, 1),
        most=_count("--max-events", options.get("--max-events"), _MOST, 1000),
        compare="--no-compare" not in options,
        starter=os.getpid(),
    ).give_on()
    return run.become(program, options.get("--device"))


def _count(option: str, given: str | None, usual: int, least: int) -> int:
    if given is None:
        return usual
    if not given.isascii() or not given.isdigit() or int(given) < least:
        raise Refusal(f"{option} {given}: expected a whole number of at least {least}")
    return int(given)


def _output(given: str | None, program: Sequence[str]) -> str:
    """The absolute path of the files without their endings."""
    path = absolute(given or ".", "trace: name a folder by --output")
    if given is None or os.path.isdir(path) or given.endswith(("/", os.sep)):
        path = os.path.join(path, f"haulage-trace-{_name(program)}")
    elif path.endswith((".html", ".json")):
        path = path[: -len(".html")]
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise Refusal(f"--output {given}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise Refusal(f"trace: the folder {folder} cannot be written to; name another by --output")
    return path


def _name(program: Sequence[str]) -> str:
    """What the program is called in the names of files."""
    first = program[1] if program[0] in ("--", "-m") else program[0]
    if first[:2] == "-c":
        return "code"
    if first == "-":
        return "input"
    module = first[2:] if first[:2] == "-m" else first
    name = os.path.basename(absolute(module, f"trace of {module}"))
    return name.removesuffix(".py") or "program"
