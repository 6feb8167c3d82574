"""The `haulage` command: programs run, what is on this machine, a photograph sent through it.

Each command is imported when it is asked for: `haulage run` is to begin at once.
"""

from __future__ import annotations

import os
import sys

from haulage.cli.refusal import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    from haulage import __version__
    from haulage.cli import advise, bench, cache, check, debug, demo, info, run, trace
    from haulage.cli.commands import Parser

    top = Parser(
        prog="haulage",
        description="Arrays and kernels on any device: NVIDIA, AMD, or all cores of a CPU.",
        epilog="`haulage COMMAND --help` tells what a command takes; `haulage` alone prints this. "
        "Exit status: 0 done, 1 done and something is wrong, 2 it cannot be done.",
    )
    top.add_argument("--version", action="version", version=f"haulage {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (info, demo, run, check, trace, advise, debug, bench, cache):
        command.add_to(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status. Without any word it prints the help.

    0: done; 1: done, and something is wrong; 2: what was asked cannot be done, which stands in
    one line on standard error; 130: interrupted; 141: whoever read the output is gone.
    """
    words = sys.argv[1:] if arguments is None else arguments
    try:
        status = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads on, as behind `| head`; what is still to be flushed goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Refusal as no:
        text = " ".join(str(no).split())
        print(f"haulage: {text}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("haulage: interrupted", file=sys.stderr)
        return 130
    return status


def _run(words: Sequence[str]) -> int:
    if words[:1] and words[0] in ("run", "check", "trace", "advise", "debug"):
        import importlib

        command = importlib.import_module(f"haulage.cli.{words[0]}")
        if not command.asks_for_help(words[1:]):
            became: int = command.main(words[1:])
            return became
        words = [words[0], "--help"]
    from haulage.errors import DeviceNotFound

    if not words:
        parser().print_help()
        return 0
    chosen = parser().parse_args(words)
    _check_settings()
    try:
        status: int = chosen.run(chosen)
    except DeviceNotFound as no:
        raise Refusal(str(no)) from no
    return status


def _check_settings() -> None:
    from haulage import config

    try:
        config.worker_threads()
        config.thread_way()
    except ValueError as wrong:
        raise Refusal(str(wrong)) from wrong
