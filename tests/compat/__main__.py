"""`python tests/compat`: Numba's own tests of numba.cuda, unmodified, with Haulage in its place."""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python tests/compat",
        description="Run the tests that come with Numba (numba.cuda.tests) with Haulage in the "
        "place of numba.cuda and print what passes, by module. Fails if a test that is recorded "
        "as passing fails.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="folders (cudapy), modules (cudapy.test_lang) or test functions "
        "(cudapy.test_lang.TestLang.test_zip); all of them by default",
    )
    parser.add_argument("-k", metavar="TEXT", help="only test functions with TEXT in their names")
    parser.add_argument("-v", action="store_true", help="tracebacks of what fails")
    parser.add_argument("-j", type=int, default=2, metavar="N", help="modules at a time (2)")
    parser.add_argument(
        "--limit", type=float, default=120, metavar="S", help="seconds for one test (120)"
    )
    parser.add_argument(
        "--slowest", type=int, default=0, metavar="N", help="print the N slowest tests and modules"
    )
    parser.add_argument("--device", default="cpu", help="where kernels run (cpu)")
    parser.add_argument(
        "--codegen",
        choices=("none", "once", "all"),
        default="none",
        help="make code for GPUs too of each kernel, and check it: for one architecture in turn, "
        "or for all of them (none)",
    )
    parser.add_argument(
        "--codegen-for",
        choices=("nvidia", "amd"),
        help="the same for the GPUs of one maker only",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts to a file")
    parser.add_argument(
        "--record",
        action="store_true",
        help="record what passes, and the counts for the pages in docs/; only with all tests",
    )
    options = parser.parse_args()
    options.names = [name.replace("/", ".").removesuffix(".py") for name in options.names]
    if options.record and (options.names or options.k):
        parser.error("--record needs a run of all tests: give neither names nor -k")
    return options


def is_within(name: str, whole: str) -> bool:
    """Whether a dotted name is another one or below it."""
    return name == whole or name.startswith(whole + ".")


def main() -> int:
    options = arguments()
    os.environ["HAULAGE_DEVICE"] = options.device
    # Some of the tests look for Numba's own words in a message.
    os.environ["HAULAGE_FULL_TRACEBACKS"] = "1"
    # No threads of NumPy's own in a process that forks.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    folder = tempfile.TemporaryDirectory(prefix="haulage-compat-")
    os.environ.setdefault("HAULAGE_CACHE_DIR", folder.name)
    os.environ["NUMBA_CACHE_DIR"] = str(Path(folder.name) / "numba")
    import haulage

    made = Path(folder.name) / "codegen"
    made.mkdir()
    os.environ["HAULAGE_TEST_CODEGEN"] = options.codegen
    os.environ["HAULAGE_TEST_CODEGEN_FOR"] = options.codegen_for or ""
    os.environ["HAULAGE_TEST_CODEGEN_FOLDER"] = str(made)
    sys.path.append(str(Path(__file__).parents[1]))
    # Where `python -m tests.compat` does not look.
    sys.path.insert(0, str(Path(__file__).parent))
    # Once for all processes.
    haulage.install(children=True)
    import numba
    import numba.cuda.testing
    import processes
    import table
    import tests_of_numba as numbas
    import verdicts

    names = options.names
    modules = [
        module
        for module in numbas.modules()
        if not names or any(is_within(module, name) or is_within(name, module) for name in names)
    ]
    if not modules:
        print(f"no test module of Numba {numba.__version__} is {' or '.join(names)}")
        return 2

    def wanted(name: str) -> bool:
        named = not names or any(is_within(name, whole) for whole in names)
        return named and (options.k is None or options.k in name)

    outcomes: dict[str, processes.Outcome] = {}
    began, ended = time.monotonic(), 0

    def note(module: str, of: dict[str, processes.Outcome]) -> None:
        nonlocal ended
        ended += 1
        outcomes.update(of)
        bad = sum(outcome.end == "failed" for outcome in of.values())
        seconds = time.monotonic() - began
        print(
            f"[{ended}/{len(modules)}, {seconds:.0f} s] {module}: {len(of)} run, {bad} failed",
            file=sys.stderr,
            flush=True,
        )

    processes.run(modules, wanted, options.j, options.limit, note)
    if not outcomes:
        print("no test function has such a name")
        return 2
    excused, recorded = verdicts.not_applicable(), verdicts.recorded()
    counts = verdicts.count(outcomes, excused)
    print(f"Numba {numba.__version__}, its tests of numba.cuda, on {options.device}\n")
    table.show(counts, outcomes, excused, tracebacks=options.v)
    if options.slowest:
        table.show_slowest(outcomes, options.slowest)
    broken = 0
    if options.codegen != "none":
        from codegen.collector import Outcome, together

        outcome = together(Outcome(**json.loads(file.read_text())) for file in made.glob("*.json"))
        broken = len(outcome.failures)
        for where, what in outcome.failures:
            print(f"\n{where}:\n{what}")
        print(f"\n{outcome.line()}")
    passed = set(verdicts.together(counts.values()).passed)
    text = json.dumps(table.as_json(counts, excused, numba.__version__), indent=1) + "\n"
    if options.json:
        options.json.write_text(text, encoding="utf-8")
    if options.record:
        verdicts.record(passed, numba.__version__)
        verdicts.COUNTS.write_text(text, encoding="utf-8")
        print(f"\nrecorded {len(passed)} test functions in {verdicts.PASSING}")
        print("write the tables of the pages anew: python scripts/make_coming_from.py")
        return 0
    new, lost = passed - recorded, (recorded & set(outcomes)) - passed - set(excused)
    if new:
        print(f"\n{len(new)} pass that are not recorded: make test-compat ARGS=--record")
    if lost:
        print(f"\n{len(lost)} recorded as passing did not pass:")
        print("".join(f"  {name}\n" for name in sorted(lost)), end="")
    return 1 if lost or broken else 0


if __name__ == "__main__":
    sys.exit(main())
