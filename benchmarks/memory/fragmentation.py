"""Two recorded traces, replayed: what is reserved against what was live at the most."""

from collections.abc import Callable
from itertools import accumulate

from benchmarks.memory import ours, traces
from benchmarks.memory.policies import POLICIES, Policy
from benchmarks.memory.traces import Operation

# Ours first; then models of others.
ALL: dict[str, tuple[str, Callable[[], Policy]]] = {
    "haulage": ("**Haulage**, with virtual memory", ours.virtual),
    "haulage-segments": ("**Haulage**, where a device has none", ours.segmented),
    **POLICIES,
}
BAR = 1.4


def ratios() -> dict[str, dict[str, float]]:
    """Most bytes reserved over most bytes live: {trace: {policy: ratio}}."""
    found: dict[str, dict[str, float]] = {}
    for trace in traces.NAMES:
        operations = traces.read(trace)
        peak = max(live(operations))
        found[trace] = {
            name: round(max(reserved(operations, make())) / peak, 3)
            for name, (_, make) in ALL.items()
        }
    return found


def live(operations: list[Operation]) -> list[int]:
    """Bytes that the program holds behind each operation."""
    sizes = [size for size, _ in operations if size]
    return list(accumulate(size or -sizes[which] for size, which in operations))


def reserved(operations: list[Operation], policy: Policy) -> list[int]:
    """Bytes that a policy holds of the driver behind each operation."""
    tokens: list[object] = []
    found = []
    for size, which in operations:
        if size:
            tokens.append(policy.allocate(size))
        else:
            policy.free(tokens[which])
        found.append(policy.reserved)
    return found
