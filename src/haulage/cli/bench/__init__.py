"""`haulage bench`: kernels timed on a device, each result checked against NumPy's."""

import argparse

from haulage.cli.refusal import Refusal
from haulage.spelling import did_you_mean


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this command to the command line."""
    parser = commands.add_parser(
        "bench",
        help="time kernels, launches and copies on a device; each result is checked",
        description="Time kernels, launches and copies on a device. Each is called until 20 ms "
        "have passed, in several rounds, and its result compared with NumPy's. Ends with status "
        "1 if a result is wrong. To compare with other runtimes: make bench, in the repository.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="what to time: names, or parts of names as they are listed (default: everything)",
    )
    parser.add_argument(
        "--device",
        metavar="D",
        help="where to run: cpu, nvidia, amd, with a number if there are several, as in nvidia:1 "
        "(default: HAULAGE_DEVICE, else the best one present)",
    )
    parser.add_argument(
        "--rounds", type=_rounds, default=15, metavar="N", help="rounds of each (default: 15)"
    )
    parser.add_argument(
        "--small", action="store_true", help="tiny sizes: to see whether everything works"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.set_defaults(run=run)


def _rounds(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, not {text!r}")
    return int(text)


def run(chosen: argparse.Namespace) -> int:
    """Returns 0 if every result is right, else 1. Raises Refusal, DeviceNotFound."""
    from haulage.cli.bench import alone
    from haulage.cli.bench.problems import PROBLEMS

    names = chosen_names(chosen.names, list(PROBLEMS))
    if chosen.list:
        for name in names:
            print(f"{name:<18} {PROBLEMS[name].title}")
        return 0
    return alone.run(names, chosen)


def chosen_names(words: list[str], names: list[str]) -> list[str]:
    """The names that one of the words is, or is a part of; all of them without any word.

    Raises:
        Refusal: a word is part of no name.
    """
    for word in words:
        if not any(word in name for name in names):
            meant = did_you_mean(word, names)
            raise Refusal(
                f"bench: nothing is named {word}{meant or '; known are ' + ', '.join(names)}"
            )
    if not words:
        return names
    exact = {word for word in words if word in names}
    return [
        name
        for name in names
        if name in exact or any(word in name for word in words if word not in exact)
    ]
