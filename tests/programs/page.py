"""docs/programs.md, made from the catalogue and the recorded outcomes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from descriptions import ROOT, Program
from outcomes import Outcome

PATH = ROOT / "docs" / "programs.md"

_HEAD = """\
# Public programs that run

Programs of the package index that were written for `numba.cuda`, as they are published, on the
CPU device: no GPU, no line of them changed.

    make test-programs                    # all of them
    make test-programs ARGS=stumpy        # one
    make test-programs ARGS='--simulator' # and Numba's own simulator for comparison
    make test-programs ARGS='--check'     # and under haulage check

Each is installed with a fixed version into an environment of its own, below `.programs`, and runs
under `haulage run`. A test counts as not applicable only where the catalogue in
`tests/programs/catalogue` names it, with the reason; any other that fails or skips is a failure.
This page is written by `make test-programs ARGS=--record`.

"""


def text(programs: Sequence[Program], outcomes: Mapping[str, Outcome]) -> str:
    """The whole page; programs that no run was recorded of are left out."""
    shown = [program for program in programs if program.name in outcomes]
    lines = [*table(shown, outcomes), "", "## What each is", ""]
    lines += [f"- **{program.name}**: {program.about}." for program in shown]
    lines += _not_applicable(shown, outcomes)
    return _HEAD + "\n".join(lines) + "\n"


def table(programs: Sequence[Program], outcomes: Mapping[str, Outcome]) -> list[str]:
    """The rows of the Markdown table of these programs."""
    lines = [
        "| program | kind | what ran | passed | failed | not applicable | seconds "
        "| Numba's simulator |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for program in programs:
        outcome = outcomes[program.name]
        cells = [
            f"{program.name} {outcome['version']}",
            program.kind,
            program.what_runs,
            outcome["passed"],
            len(outcome["failed"]),
            len(outcome["not_applicable"]),
            f"{outcome['seconds']:.0f}",
            _simulator(program, outcome),
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def _simulator(program: Program, outcome: Outcome) -> str:
    if not program.simulator:
        return program.simulator_reason
    told = outcome.get("simulator")
    if told is None:
        return ""
    return f"{told['passed']} passed, {told['failed']} failed, {told['seconds']:.0f} s"


def _not_applicable(programs: Sequence[Program], outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    for program in programs:
        reasons = Counter(outcomes[program.name]["not_applicable"].values())
        if reasons:
            yield f"\n## Not applicable of {program.name}\n"
            yield from (f"- {number}: {reason}" for reason, number in reasons.items())
