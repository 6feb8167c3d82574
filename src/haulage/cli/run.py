"""`haulage run`: a program written for numba.cuda, numba.roc or numba.hip, unmodified.

The process becomes the Python that runs the program, with its name, number, signals and status, so
that the program sees what it sees without Haulage. It is reached as child processes are.
"""

from __future__ import annotations

import os
import sys

from haulage.cli.refusal import Refusal
from haulage.hook import children, numba_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

DEVICE = {"--device": "the name of a device, as in --device cpu"}

_FORMS = "PROGRAM [ARGS], -m MODULE [ARGS], -c CODE [ARGS], or - [ARGS] for standard input"


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line, for its help: the words after it are `main`'s."""
    parser = commands.add_parser(
        "run",
        help="run a program written for numba.cuda, numba.roc or numba.hip, unmodified",
        usage="haulage run [-h] [--device D] (PROGRAM | -m MODULE | -c CODE | -) [ARGS ...]",
        description="Run a Python program as `python` does, and let numba.cuda, numba.roc and "
        "numba.hip be Haulage's in it and in the Python processes that it starts. Options of "
        "Python go before: python -X dev -m haulage run PROGRAM.",
    )
    parser.add_argument(
        "--device",
        metavar="D",
        help="where to run: cpu, nvidia, amd, with a number if there are several, as in nvidia:1 "
        "(default: HAULAGE_DEVICE, else the best one present)",
    )
    add_program_to(parser)


def add_program_to(parser: argparse.ArgumentParser) -> None:
    """Add the program and what it is given, for the help of a command that runs one."""
    parser.add_argument("-m", metavar="MODULE", help="run a module or package by its name")
    parser.add_argument("-c", metavar="CODE", help="run this text")
    parser.add_argument(
        "program",
        metavar="PROGRAM",
        nargs="?",
        help="a file, a folder or zip with a __main__.py, or - for standard input",
    )
    parser.add_argument("args", metavar="ARGS", nargs="*", help="what the program is given")


def main(words: Sequence[str]) -> int:
    """Become the program that the words after `haulage run` tell; on Windows, its exit status.

    Raises:
        Refusal: what is asked cannot be done, or there is no such device.
    """
    options, program = split(words, "run", DEVICE, ())
    return become(program, options.get("--device"))


def become(program: Sequence[str], device: str | None) -> int:
    """Become a Python with the words `program`, on the device that is named if one is.

    Raises:
        Refusal: what is asked cannot be done, or there is no such device.
    """
    command = prepared(program, device)
    if os.name == "nt":  # There the shell would not wait for the process that takes over.
        import subprocess

        return subprocess.call(command)
    os.execv(sys.executable, command)


def prepared(program: Sequence[str], device: str | None) -> list[str]:
    """The command of a Python with the words `program`; the environment is made ready for it.

    Raises:
        Refusal: what is asked cannot be done, or there is no such device.
    """
    if sys.flags.ignore_environment or sys.flags.no_site:
        raise Refusal(
            "Python was started with -E, -I or -S, so programs cannot be reached by PYTHONPATH "
            "and sitecustomize, which haulage run needs; leave the option out, or call "
            "haulage.install() in the program"
        )
    if not sys.executable:
        raise Refusal("Python does not know where its own program lies (sys.executable)")
    if device is not None:
        _check(device)
        os.environ["HAULAGE_DEVICE"] = device
    for aside in numba_settings.set_aside():
        print(f"haulage: {aside}", file=sys.stderr)
    children.reach()
    sys.stdout.flush()
    sys.stderr.flush()
    return [sys.executable, *_options_of_python(), *program]


def asks_for_help(words: Sequence[str], options: Iterable[str] = DEVICE) -> bool:
    """Whether the first of the words, but for options with a value, is `-h` or `--help`."""
    rest = list(words)
    while rest and rest[0].partition("=")[0] in options:
        del rest[: 1 if "=" in rest[0] else 2]
    return rest[:1] in (["-h"], ["--help"])


def split(
    words: Sequence[str], command: str, valued: dict[str, str], plain: Sequence[str]
) -> tuple[dict[str, str], Sequence[str]]:
    """The options of a command that runs a program, and the words that Python is given.

    Args:
        words: what stands behind the command.
        command: its name, for errors.
        valued: its options with a value, and what that is, for errors.
        plain: its options without one.

    Raises:
        Refusal: an option is unknown or has no value, or no program is named.
    """
    options = {}
    rest = list(words)
    while rest:
        word = rest[0]
        name, equals, value = word.partition("=")
        if name in valued:
            del rest[0]
            if not equals and not rest:
                raise Refusal(f"{name}: expected {valued[name]}")
            options[name] = value if equals else rest.pop(0)
        elif word in plain:
            options[rest.pop(0)] = ""
        elif word in ("-m", "-c"):
            if len(rest) == 1:
                raise Refusal(
                    f"{word}: expected {'a module' if word == '-m' else 'a program text'}"
                )
            return options, rest
        elif word == "-" or word[:2] in ("-m", "-c"):
            return options, rest
        elif word == "--":
            return options, _program(rest[1:], command)
        elif word.startswith("-"):
            own = " ".join([*(f"[{name} ...]" for name in valued), *(f"[{o}]" for o in plain)])
            raise Refusal(
                f"{command}: unknown option {word}: expected {own}, then {_FORMS}; options of "
                f"Python go before: python {word} -m haulage {command} ..."
            )
        else:
            return options, rest
    return options, _program(rest, command)


def _program(words: Sequence[str], command: str) -> Sequence[str]:
    if not words:
        raise Refusal(f"{command}: no program is named: expected {_FORMS}")
    return ["--", *words]


def _check(device: str) -> None:
    import haulage.platforms  # noqa: F401  (it makes the devices known)
    from haulage.errors import DeviceNotFound
    from haulage.runtime.devices.registry import find

    try:
        find(device, "--device")
    except DeviceNotFound as no:
        raise Refusal(str(no)) from no


def _options_of_python() -> list[str]:
    """The options that this Python was started with, for the next one."""
    # Python's own words before those of this command; most often none, or those for `-m haulage`.
    before = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    if not any(word.startswith("-") and word != "-m" for word in before):
        return []
    import subprocess

    options = list(subprocess._args_from_interpreter_flags())  # type: ignore[attr-defined]
    if getattr(sys.stdout, "write_through", False):
        options.append("-u")
    if sys.flags.inspect:
        options.append("-i")
    return options
