"""Medians, and how sure a ratio is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

TURN_SECONDS = 0.02
_RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A value, and the interval that it lies in with 95 % confidence."""

    value: float
    low: float
    high: float


def turn(run: Callable[[], object], seconds: float = TURN_SECONDS) -> float:
    """Milliseconds of one call of `run`: the mean of as many as take `seconds`.

    One call goes before that is not counted, so that caches hold this one's data and not another's;
    unless it takes five times `seconds`, when it is the measurement.
    """
    began = perf_counter()
    run()
    once = perf_counter() - began
    if once > 5 * seconds:
        return once * 1e3
    calls = 1
    while True:
        began = perf_counter()
        for _ in range(calls):
            run()
        taken = perf_counter() - began
        if taken > 0.6 * seconds:
            return taken * 1e3 / calls
        calls = max(calls + 1, int(calls * min(100.0, seconds / max(taken, 1e-7))))


def median(times: Sequence[float]) -> Estimate:
    """The median of the times, in their unit. Interval: bootstrap, 2.5 to 97.5 %."""
    values = np.asarray(times, np.float64)
    drawn = np.median(values[_draws(len(values))], axis=1)
    return _estimate(float(np.median(values)), drawn)


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> Estimate:
    """Median of `theirs` over the median of `ours`, of the same rounds: above 1 ours are faster.

    Interval: the rounds are drawn anew with replacement, both times of a round together
    (B. Efron and R. Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13).

    Raises:
        ValueError: the two have not the same number of rounds, or none.
    """
    if len(theirs) != len(ours) or not ours:
        raise ValueError(f"expected as many of each, got {len(theirs)} and {len(ours)} times")
    a, b = np.asarray(theirs, np.float64), np.asarray(ours, np.float64)
    draws = _draws(len(a))
    drawn = np.median(a[draws], axis=1) / np.median(b[draws], axis=1)
    return _estimate(float(np.median(a) / np.median(b)), drawn)


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive values.

    Raises:
        ValueError: there are none.
    """
    if not values:
        raise ValueError("the mean of no values was asked for")
    return float(np.exp(np.mean(np.log(values))))


def _draws(rounds: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, rounds, (_RESAMPLES, rounds))


def _estimate(value: float, drawn: np.ndarray) -> Estimate:
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Estimate(value, float(low), float(high))
