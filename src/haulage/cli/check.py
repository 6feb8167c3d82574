"""`haulage check`: a program run as `haulage run` does, and what is wrong with its kernels.

The program is a process of its own, so that its findings are told, together with those of the
processes that it starts, however it ends.
"""

from __future__ import annotations

import os
import sys

from haulage.cli import run
from haulage.cli.refusal import Refusal, absolute

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from haulage.checking.result import Result
    from haulage.checking.suppressions import Suppressions

LINT, COVER = "--lint", "--coverage"
VALUED = {
    "--only": "names of checks, as in --only race,bounds",
    "--json": "a file for the findings, or - for standard output",
    "--sarif": "a file for the findings, or - for standard output",
    "--suppressions": "a file with [[ignore]] entries",
    **run.DEVICE,
}


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line, for its help: the words after it are `main`'s."""
    from haulage.checking.names import ALSO, CHECKS

    parser = commands.add_parser(
        "check",
        help="run a program, and find races, indices out of bounds and more in its kernels",
        usage="haulage check [-h] [--only CHECKS] [--lint] [--coverage] [--json FILE] "
        "[--sarif FILE] [--suppressions FILE] (PROGRAM | -m MODULE | -c CODE | -) [ARGS ...]",
        description="Run a Python program as `haulage run` does, on the CPU device, with each "
        "access of its kernels checked, and tell on standard error when it ends what is wrong: "
        "indices out of bounds, races, memory that nobody wrote, barriers that some threads go "
        "round, streams without an order. Python processes that it starts are checked, too. Exit "
        "status: 1 if anything was found, else the program's own.",
    )
    parser.add_argument(
        "--only",
        metavar="CHECKS",
        help=f"the checks to make, with commas between them: {', '.join(CHECKS)}; also "
        f"{', '.join(name for name in ALSO if name.endswith('check'))} (default: all but lint); "
        "coverage: threads are only counted",
    )
    parser.add_argument(
        "--lint",
        action="store_true",
        help="tell what is right but slow or surprising on GPUs, and nothing else unless --only "
        "names it",
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="tell, too, which lines and branches of kernels threads came to, and which not",
    )
    parser.add_argument("--json", metavar="FILE", help="write the findings as JSON; -: to stdout")
    parser.add_argument(
        "--sarif",
        metavar="FILE",
        help="write them as SARIF 2.1.0, which code scanning of GitHub and others takes; -: to "
        "stdout",
    )
    parser.add_argument(
        "--suppressions",
        metavar="FILE",
        help="findings not to be told, in TOML (default: [tool.haulage.check] in pyproject.toml); "
        "a comment '# haulage: ignore' in a line always counts",
    )
    parser.add_argument("--device", metavar="D", help="cpu: kernels are checked there only")
    run.add_program_to(parser)


def asks_for_help(words: Sequence[str]) -> bool:
    """Whether the words after `haulage check` ask for help, before a program is named."""
    return run.asks_for_help(words, VALUED)


def main(words: Sequence[str]) -> int:
    """Run the program that the words after `haulage check` tell, checked; gives the exit status.

    Raises:
        Refusal: what is asked cannot be done.
    """
    options, program = run.split(words, "check", VALUED, (LINT, COVER))
    device = _device(options.get("--device"))
    suppressions = _suppressions(options.get("--suppressions"))
    checks = _checks(options, suppressions.only)
    outputs = {form: _output(form, options.get(form)) for form in ("--json", "--sarif")}
    if list(outputs.values()) == ["-", "-"]:
        raise Refusal("check: --json - and --sarif - would be mixed; name a file for one of them")

    import tempfile
    import time

    from haulage.checking.names import COVERAGE
    from haulage.checking.settings import Settings

    before = dict(os.environ)
    try:
        command = run.prepared(program, device)
        with tempfile.TemporaryDirectory(prefix="haulage-check-") as folder:
            Settings(
                program=" ".join(program[1:] if program[0] == "--" else program),
                checks=checks,
                folder=folder,
                starter=os.getpid(),
            ).give_on()
            began = time.perf_counter()
            status = _run(command)
            seconds = time.perf_counter() - began
            counts = COVERAGE in checks.split(",")
            result = _result(folder, seconds, suppressions, program, counts)
    finally:
        # What the program was told is not meant for this process, which lives on.
        os.environ.clear()
        os.environ.update(before)
    _tell(result, outputs)
    return _ended(status, bool(result.findings))


def _device(given: str | None) -> str:
    named = given or os.environ.get("HAULAGE_DEVICE", "").strip() or "cpu"
    from haulage.platforms import checks_kernels

    if not checks_kernels(named):
        asked = f"--device {given}" if given else f"HAULAGE_DEVICE={named}"
        raise Refusal(
            f"check: {asked}: kernels are checked on the CPU device only; give --device cpu"
        )
    return named


def _checks(options: dict[str, str], of_project: str) -> str:
    from haulage.checking.names import COVERAGE, USUAL, checks_of

    named = options.get("--only", "")
    made = {"lint"} if LINT in options else set()
    try:
        if named or not made:
            made |= checks_of(named or of_project or USUAL, counts=True)
        if COVER in options:
            made.add(COVERAGE)
        return ",".join(sorted(made))
    except ValueError as wrong:
        raise Refusal(f"check: --only {named}: {wrong}") from wrong


def _suppressions(given: str | None) -> Suppressions:
    from haulage.checking import suppressions

    try:
        return suppressions.of_project() if given is None else suppressions.read(given)
    except ValueError as wrong:
        raise Refusal(f"check: {wrong}") from wrong


def _output(option: str, given: str | None) -> str:
    """The absolute path of a file; '': none is named; '-': standard output."""
    if given is None or given == "-":
        return given or ""
    path = absolute(given, f"{option} {given}")
    folder = os.path.dirname(path)
    if os.path.isdir(path) or given.endswith(("/", os.sep)):
        raise Refusal(f"{option} {given}: is a folder; name a file")
    if not os.path.isdir(folder):
        raise Refusal(f"{option} {given}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise Refusal(f"{option} {given}: the folder {folder} cannot be written to")
    return path


def _run(command: list[str]) -> int:
    """Run the program, and hand signals on to it. Gives its status, -N for signal N."""
    import signal
    import subprocess

    before = {}
    child: subprocess.Popen[bytes] | None = None

    def hand_on(number: int, frame: object) -> None:
        # A terminal sends Ctrl-C to the program itself, too.
        if child is not None and number != signal.SIGINT:
            child.send_signal(number)

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            # Handlers, unlike what is ignored, are not given on to the program.
            before[number] = signal.signal(number, hand_on)
    try:
        child = subprocess.Popen(command)
        return child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _result(
    folder: str, seconds: float, suppressions: Suppressions, program: Sequence[str], counts: bool
) -> Result:
    from haulage.checking.records import gathered
    from haulage.checking.result import result_of

    findings, coverage, sources = gathered(folder)
    if program[0][:2] == "-c":
        text = program[1] if program[0] == "-c" else program[0][2:]
        sources.setdefault("<string>", dict(enumerate(text.split("\n"), 1)))
    counted = coverage if counts else None
    return result_of(findings, seconds, suppressions, sources, counted)


def _tell(result: Result, outputs: dict[str, str]) -> None:
    from haulage.checking import report

    report.show(report.as_text(result, report.paint_for(sys.stderr)))
    for form, path in outputs.items():
        if not path:
            continue
        text = _written(form, result)
        if path == "-":
            print(text)
            continue
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"{text}\n")
        except OSError as error:
            raise Refusal(f"{form} {path}: could not be written: {error.strerror}") from error


def _written(form: str, result: Result) -> str:
    import json

    from haulage.checking import sarif
    from haulage.checking.result import as_data

    data = as_data(result) if form == "--json" else sarif.as_data(result, os.getcwd())
    return json.dumps(data, indent=2)


def _ended(status: int, found: bool) -> int:
    """The exit status of this process for that of the program."""
    if status >= 0:
        return 1 if found else status
    import signal

    if -status == signal.SIGINT:
        # So that a shell knows that its script is to end, too.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 1 if found else 128 - status
