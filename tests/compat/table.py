"""What became of Numba's tests, as text and as JSON."""

from collections import Counter
from collections.abc import Mapping

import verdicts
from processes import Outcome
from verdicts import Count


def show(
    counts: Mapping[str, Count],
    outcomes: Mapping[str, Outcome],
    excused: Mapping[str, str],
    tracebacks: bool,
) -> None:
    """Print the failures, what is not applicable and passes all the same, and the table."""
    total = verdicts.together(counts.values())
    for name in sorted(total.failed + total.skipped):
        outcome = outcomes[name]
        print(f"{outcome.end.upper()} {name}")
        lines = outcome.why.strip().splitlines()
        for line in lines if tracebacks else lines[-1:]:
            print(f"    {line}" if tracebacks else f"    {line[:200]}")
    surprising = [name for name in total.not_applicable if outcomes[name].end == "passed"]
    for name in sorted(surprising):
        print(f"PASSED, though listed as not applicable ({excused[name]}): {name}")
    if total.failed or total.skipped or surprising:
        print()
    width = max(map(len, counts), default=10)
    print(
        f"{'module':{width}}  passed  failed  skipped  not applicable  total  passed of applicable"
    )
    for module, of in counts.items():
        print(f"{module:{width}}  {_row(of)}")
    print(f"{'all':{width}}  {_row(total)}")
    reasons = Counter(excused[name] for name in total.not_applicable)
    if reasons:
        print("\nnot applicable:")
        for reason, number in reasons.most_common():
            print(f"{number:6}  {reason}")


def show_slowest(outcomes: Mapping[str, Outcome], number: int) -> None:
    """Print the tests that took longest, and the modules."""
    modules: Counter[str] = Counter()
    for outcome in outcomes.values():
        modules[outcome.module] += outcome.seconds
    tests = Counter({name: outcome.seconds for name, outcome in outcomes.items()})
    for counter in (modules, tests):
        print()
        for name, seconds in counter.most_common(number):
            print(f"{seconds:7.1f} s  {name}")


def _row(of: Count) -> str:
    share = "" if of.share is None else f"{of.share:.1f} %"
    numbers = f"{len(of.passed):6}  {len(of.failed):6}  {len(of.skipped):7}"
    return f"{numbers}  {len(of.not_applicable):14}  {of.total:5}  {share:>20}"


def as_json(
    counts: Mapping[str, Count], excused: Mapping[str, str], numba: str
) -> dict[str, object]:
    """The counts by module, and how many are not applicable for which reason."""
    total = verdicts.together(counts.values())
    reasons = Counter(excused[name] for name in total.not_applicable)
    return {
        "numba": numba,
        "modules": {
            module: {
                "passed": len(of.passed),
                "failed": sorted(of.failed),
                "skipped": sorted(of.skipped),
                "not applicable": len(of.not_applicable),
            }
            for module, of in counts.items()
        },
        # In an order that does not depend on which module ended first.
        "not applicable": dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
    }
