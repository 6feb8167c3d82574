"""`make test-programs`: public programs written for numba.cuda, run unmodified on Haulage."""

import argparse
import sys
from pathlib import Path

import descriptions
import environments
import outcomes
import page


def main() -> int:
    """Run the programs asked for and print their table; 1 where a test fails unexpectedly."""
    asked = _arguments()
    if asked.page:
        print(page.text(descriptions.catalogue(), outcomes.recorded()), end="")
        return 0
    chosen = descriptions.chosen(asked.names)
    finished = {}
    for number, program in enumerate(chosen, 1):
        head = f"[{number}/{len(chosen)}] {program.requirement}"
        _say(f"{head}: its environment")
        try:
            environment = environments.prepared(program, asked.folder)
        except environments.InstallError as error:
            print(f"  {error}")
            finished[program.name] = outcomes.of_no_installation(program)
            continue
        _say(f"{head}: {program.what_runs} on Haulage")
        outcome = outcomes.of_haulage(program, environment)
        if asked.simulator and program.simulator:
            _say(f"{head}: the same in Numba's simulator")
            outcome["simulator"] = outcomes.of_simulator(program, environment)
        if asked.check:
            _say(f"{head}: the same under haulage check")
            for line in outcomes.of_check(program, environment):
                print(line)
        finished[program.name] = outcome
        for line in outcomes.remarks(outcome, asked.verbose):
            print(line)
    if asked.record:
        outcomes.record(finished)
        page.PATH.write_text(page.text(descriptions.catalogue(), outcomes.recorded()), "utf-8")
    print()
    print("\n".join(page.table(chosen, finished)))
    passed = sum(outcome["passed"] for outcome in finished.values())
    failed = sum(len(outcome["failed"]) for outcome in finished.values())
    print(f"\n{passed} passed, {failed} failed")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make test-programs", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs; none: all of them")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what pytest printed")
    parser.add_argument("--simulator", action="store_true", help="also run in Numba's simulator")
    parser.add_argument("--check", action="store_true", help="also run under haulage check")
    parser.add_argument("--record", action="store_true", help=f"write {page.PATH.name} anew")
    parser.add_argument("--page", action="store_true", help="print the page, run nothing")
    parser.add_argument(
        "--folder",
        type=Path,
        default=descriptions.ROOT / ".programs",
        help="where environments are kept (default: .programs)",
    )
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except descriptions.CatalogueError as error:
        sys.exit(f"test-programs: {error}")
    except KeyboardInterrupt:
        _say("test-programs: interrupted; what is installed stays for the next run")
        sys.exit(130)
