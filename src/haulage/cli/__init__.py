"""The `haulage` command: what is on this machine, and a photograph sent through it."""

import argparse
import os
import sys
from collections.abc import Sequence

from haulage import __version__, config
from haulage.cli import cache, demo, info
from haulage.cli.refusal import Refusal
from haulage.errors import DeviceNotFound


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="haulage",
        description="Arrays and kernels on any device: NVIDIA, AMD, or all cores of a CPU.",
        epilog="`haulage COMMAND --help` tells what a command takes.",
    )
    top.add_argument("--version", action="version", version=f"haulage {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (info, demo, cache):
        command.add_to(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status.

    0: done; 1: done, and something is wrong; 2: what was asked cannot be done, which stands in
    one line on standard error; 130: interrupted; 141: whoever read the output is gone.
    """
    chosen = parser().parse_args(arguments)
    try:
        _check_settings()
        status: int = chosen.run(chosen)
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads on, as behind `| head`; what is still to be flushed goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (Refusal, DeviceNotFound) as no:
        text = " ".join(str(no).split())
        print(f"haulage: {text}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("haulage: interrupted", file=sys.stderr)
        return 130
    return status


def _check_settings() -> None:
    try:
        config.worker_threads()
        config.thread_way()
    except ValueError as wrong:
        raise Refusal(str(wrong)) from wrong
