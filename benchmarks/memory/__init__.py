"""Memory: how much is reserved for what is live, under several policies; what allocations cost."""

from collections.abc import Callable
from typing import Any


def measure(rounds: int, wanted: list[str], say: Callable[[str], None]) -> dict[str, Any]:
    """What `outcomes.Run` has as "memory": allocations by turns with the `wanted` peers, and how
    much each policy reserves for the recorded traces."""
    from benchmarks.memory import allocations, fragmentation

    measured = allocations.times(rounds, wanted, say)
    say("fragmentation")
    return measured | {"fragmentation": fragmentation.ratios()}
