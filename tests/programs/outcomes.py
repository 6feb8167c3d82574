"""Running the tests of a program, and what came of it."""

import json
import os
import platform
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from descriptions import HERE, WHOSE, Program
from environments import Environment

_RECORD = HERE / "results.json"

# An outcome is what `results.json` keeps of a program: 'passed' and 'seconds' are numbers, 'failed'
# tells for each failing test what it said, 'not_applicable' for each known one whose fault it is.
Outcome = dict[str, Any]


def of_haulage(program: Program, environment: Environment) -> Outcome:
    """What comes of the tests of a program under `haulage run`."""
    start = [str(environment.python), "-m", "haulage", "run", "-m", "pytest"]
    cases, seconds, printed = _pytest(start, program, environment, {}, program.limit)
    outcome: Outcome = {
        "version": program.version,
        "numba": _version_of("numba", environment),
        "python": platform.python_version(),
        "passed": 0,
        "failed": {},
        "not_applicable": {},
        "seconds": round(seconds, 1),
    }
    met = set()
    for test, result, text in cases:
        known = next((entry for entry in program.known if entry.fits(test)), None)
        if known and result != "passed":
            met.add(known)
            outcome["not_applicable"][test] = f"{WHOSE[known.whose]}: {known.reason}"
        elif result == "passed":
            outcome["passed"] += 1
        else:
            said = f"skipped, for no reason that the catalogue knows: {text}"
            outcome["failed"][test] = said if result == "skipped" else text
    # What is known to fail and does not is no failure, but the catalogue is wrong then.
    outcome["known_in_vain"] = [entry.test for entry in program.known if entry not in met]
    outcome["printed"] = printed
    return outcome


def of_no_installation(program: Program) -> Outcome:
    """What comes of a program that could not be installed."""
    return {
        "version": program.version,
        "passed": 0,
        "failed": {"its installation": "see above"},
        "not_applicable": {},
        "seconds": 0.0,
        "known_in_vain": [],
        "printed": "",
        "installed": False,
    }


def of_simulator(program: Program, environment: Environment) -> Outcome:
    """What comes of the same tests in Numba's own simulator, without Haulage."""
    start = [str(environment.python), "-m", "pytest"]
    settings = {"NUMBA_ENABLE_CUDASIM": "1"}
    cases, seconds, _ = _pytest(start, program, environment, settings, program.limit)
    results = [result for _, result, _ in cases]
    counts = {name: results.count(name) for name in ("passed", "failed", "skipped")}
    return {**counts, "seconds": round(seconds, 1)}


def of_check(program: Program, environment: Environment) -> Iterator[str]:
    """Lines of what `haulage check` says of the same tests, which may take ten times as long."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.json")
        start = [str(environment.python), "-m", "haulage", "check", "--json", str(report)]
        start += ["-m", "pytest"]
        cases, seconds, printed = _pytest(start, program, environment, {}, 10 * program.limit)
        if not report.exists():
            yield f"  NOT CHECKED: {_last_line(printed)}"
            return
        told = json.loads(report.read_text(encoding="utf-8"))
    results = [result for _, result, _ in cases]
    yield (
        f"  checked in {seconds:.0f} s: {results.count('passed')} passed, "
        f"{results.count('failed')} failed, {told['launches']} launches, "
        f"{told['accesses']} accesses, {len(told['findings'])} findings"
    )
    for each in told["findings"]:
        yield f"  {each['kind']} {each['file']}:{each['line']}: {each['message']}"
        if each["other"]:
            yield f"    and {each['other']['file']}:{each['other']['line']}"


def remarks(outcome: Outcome, verbose: bool) -> Iterator[str]:
    """Lines about the tests that did not pass."""
    if verbose:
        yield outcome["printed"]
    for test, text in outcome["failed"].items():
        yield f"  FAILED {test}: {text}"
    for test, reason in outcome["not_applicable"].items():
        yield f"  not applicable {test}: {reason}"
    for test in outcome["known_in_vain"]:
        yield f"  the catalogue says that it can't pass, and no such test failed: {test}"


def recorded() -> dict[str, Outcome]:
    """The outcomes of the last recorded run of each program."""
    kept: dict[str, Outcome] = json.loads(_RECORD.read_text(encoding="utf-8"))
    return kept


def record(finished: Mapping[str, Outcome]) -> None:
    """Keep these outcomes in place of older ones of the same programs; not those of programs that
    could not be installed."""
    kept = recorded() if _RECORD.exists() else {}
    for name, outcome in finished.items():
        if not outcome.get("installed", True):
            continue
        fresh = {k: v for k, v in outcome.items() if k not in ("printed", "known_in_vain")}
        if "simulator" in kept.get(name, {}) and "simulator" not in fresh:
            fresh["simulator"] = kept[name]["simulator"]
        kept[name] = fresh
    text = json.dumps(dict(sorted(kept.items())), indent=1, ensure_ascii=False)
    _RECORD.write_text(text + "\n", encoding="utf-8")


def _pytest(
    start: Sequence[str],
    program: Program,
    environment: Environment,
    settings: Mapping[str, str],
    limit: int,
) -> tuple[list[tuple[str, str, str]], float, str]:
    """(test, 'passed', 'failed' or 'skipped', its message) of each test; seconds; what it printed.

    A run that did not end by itself is one more failed test.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.xml")
        options = ["-q", "--rootdir=.", "-p", "no:cacheprovider", f"--junitxml={report}"]
        command = [*start, *options, *program.pytest]
        began = time.monotonic()
        try:
            done = subprocess.run(
                command,
                cwd=environment.folder,
                env={**inherited, **settings},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=limit,
            )
            printed = done.stdout
            trouble = f"pytest ended with {done.returncode}: {_last_line(printed)}"
        except subprocess.TimeoutExpired as error:
            printed = (error.stdout or b"").decode(errors="replace")
            trouble = f"not finished after {limit} s"
        seconds = time.monotonic() - began
        if report.exists():
            cases = list(_cases(report))
            if cases:
                return cases, seconds, printed
    return [("the run", "failed", trouble)], seconds, printed


def _cases(report: Path) -> Iterator[tuple[str, str, str]]:
    for case in ElementTree.parse(report).iter("testcase"):
        test = f"{case.get('classname')}::{case.get('name')}"
        result, text = "passed", ""
        for child in case:
            if child.tag in ("failure", "error", "skipped"):
                result = "skipped" if child.tag == "skipped" else "failed"
                text = (child.get("message") or "").partition("\n")[0][:200]
        yield test, result, text


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def _version_of(name: str, environment: Environment) -> str:
    packages = next(environment.python.parents[1].glob("lib/python*/site-packages"))
    (found,) = metadata.distributions(name=name, path=[str(packages)])
    return found.version
