"""`haulage debug`: a program run as `haulage run` does, and one thread of a kernel in pdb."""

from __future__ import annotations

import os

from haulage.cli import run
from haulage.cli.refusal import Refusal
from haulage.debugging.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_INDEX = "an index such as 3 or 3,0 or 3,0,0"
VALUED = {
    "--kernel": "the name of a kernel",
    "--block": _INDEX,
    "--thread": _INDEX,
    "--launch": "a whole number",
}


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line, for its help: the words after it are `main`'s."""
    parser = commands.add_parser(
        "debug",
        help="run a program on the CPU, and stop in one thread of a kernel",
        usage="haulage debug [-h] [--kernel NAME] [--block X,Y,Z] [--thread X,Y,Z] [--launch N] "
        "(PROGRAM | -m MODULE | -c CODE | -) [ARGS ...]",
        description="Run a Python program as `haulage run` does, on the CPU device, and stop one "
        "thread of a kernel in pdb, in its first line. The kernel runs as Python there, with the "
        "values of the launch; the other threads of its block come along, and wait for one another "
        "at barriers. Besides pdb's commands there are `threads`, which shows where those of the "
        "block are, and `thread X,Y,Z`, which goes to another one. A kernel that says breakpoint() "
        "stops there, in each thread that comes to it, unless --block or --thread is given. The "
        "options may stand behind the program, too; what is behind -- is the program's.",
    )
    parser.add_argument(
        "--kernel", metavar="NAME", help="the kernel (default: the first one that is launched)"
    )
    parser.add_argument("--block", metavar="X,Y,Z", help="the block (default: 0)")
    parser.add_argument("--thread", metavar="X,Y,Z", help="the thread in its block (default: 0)")
    parser.add_argument(
        "--launch", metavar="N", help="which launch of the kernel, counted from 1 (default: 1)"
    )
    run.add_program_to(parser)


def asks_for_help(words: Sequence[str]) -> bool:
    """Whether the words after `haulage debug` ask for help, before a program is named."""
    return run.asks_for_help(words, VALUED)


def main(words: Sequence[str]) -> int:
    """Become the program that the words after `haulage debug` tell, on the CPU device.

    Raises:
        Refusal: what is asked cannot be done.
    """
    options, program = run.split(words, "debug", VALUED, ())
    program = _without_options(program, options)
    if program[:1] == ["-"]:
        raise Refusal("debug: the program cannot come from standard input, where commands are read")
    launch = options.get("--launch", "1")
    if not launch.isascii() or not launch.isdigit() or int(launch) < 1:
        raise Refusal(f"--launch {launch}: expected a whole number of at least 1")
    Settings(
        program=" ".join(program[1:] if program[0] == "--" else program),
        starter=os.getpid(),
        kernel=options.get("--kernel", ""),
        block=_index("--block", options.get("--block")),
        thread=_index("--thread", options.get("--thread")),
        launch=int(launch),
    ).give_on()
    return run.become(program, "cpu")


def _without_options(program: Sequence[str], options: dict[str, str]) -> list[str]:
    """The words of a program without options of this command, which are added to `options`: those
    that stand behind it, up to `--`.

    Raises:
        Refusal: one of them has no value.
    """
    place = 2 if program[0] in ("--", "-m", "-c") else 1
    kept, rest = list(program[:place]), list(program[place:])
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            return kept + rest
        if name not in VALUED:
            kept.append(word)
        elif equals or rest:
            options[name] = value if equals else rest.pop(0)
        else:
            raise Refusal(f"{name}: expected {VALUED[name]}")
    return kept


def _index(option: str, given: str | None) -> list[int] | None:
    if given is None:
        return None
    parts = given.split(",")
    if len(parts) > 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise Refusal(f"{option} {given}: expected {_INDEX}")
    return [*map(int, parts), 0, 0][:3]
