"""`python -m benchmarks.gpu`: Haulage on a GPU by turns with other packages."""

import argparse
import json
import os
import sys
from pathlib import Path

from benchmarks.gpu.measures import MEASURES
from benchmarks.gpu.run import PACKAGES, TITLES, Run, run, table
from benchmarks.gpu.targets import judged


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description="Haulage on a GPU by turns with other packages, as far as they are installed, "
        "each in a process of its own; medians. In brackets how many times better Haulage is.",
        epilog=f"measures: {', '.join(MEASURES)}\npackages: {', '.join(PACKAGES)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="MEASURE", help="measures, or parts of their names (all)")
    add("--packages", default="all", metavar="P,P", help="packages by name, or all (the default)")
    add("--rounds", type=int, default=9, metavar="N", help="rounds (default: 9)")
    add("--small", action="store_true", help="tiny sizes: to see whether everything works")
    add("--device", metavar="D", help="Haulage's device (default: HAULAGE_DEVICE, else the best)")
    add("--json", type=Path, metavar="FILE", help="write what was measured to a file")
    return parser


def main() -> int:
    """Returns 0; 1 if Haulage failed in a measure; 2 if what was asked cannot be done."""
    parser = _parser()
    options = parser.parse_args()
    packages = list(PACKAGES) if options.packages == "all" else options.packages.split(",")
    unknown = [name for name in packages if name not in PACKAGES]
    names = [
        name
        for name in MEASURES
        if not options.names or any(part in name for part in options.names)
    ]
    if unknown or not names or options.rounds < 1:
        parser.error("unknown packages or measures, or no rounds; see --help for the names")
    if options.device:
        os.environ["HAULAGE_DEVICE"] = options.device

    def say(what: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[2K{what}", end="", file=sys.stderr, flush=True)

    def keep(found: Run) -> None:
        if options.json:
            told = {**found, "targets": judged(found, TITLES)}
            options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")

    found = run(names, packages, options.rounds, options.small, say, keep)
    say("")
    print("\n".join(table(found)))
    ours = [outcome for outcome in found["measures"].values() if "haulage" in outcome["failed"]]
    return int(bool(ours or "haulage" in found["absent"]))


if __name__ == "__main__":
    sys.exit(main())
