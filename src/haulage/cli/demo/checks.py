"""What NumPy and SciPy say to each result of the demo."""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from haulage.cli import rounding
from haulage.cli.demo import steps
from haulage.cli.demo.kernels import BINS, BLUE, GREEN, RADIUS, RED, TAPS
from haulage.cli.demo.steps import Results
from haulage.cli.rounding import Agreement

# How many operations that round a term goes through: both passes of the blur are sums of TAPS
# products; the edges add up three colours, then six of those, and take a root; the reference, in
# float64, adds next to nothing.
_BLUR_ROUNDINGS = 2 * TAPS + 1
_EDGES_ROUNDINGS = _BLUR_ROUNDINGS + 3 + 6 + 4

_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Check:
    """What a step's result was compared with, and how it agrees."""

    step: str
    agreement: Agreement
    against: str

    @property
    def passed(self) -> bool:
        """Whether the result is right."""
        return self.agreement.right

    def __str__(self) -> str:
        return f"{'ok' if self.passed else 'FAILED'}: {self.agreement} ({self.against})"


def check_all(results: Results, differing: dict[str, int]) -> list[Check]:
    """One check for each of `steps.STEPS`, in that order.

    `differing` is how many elements the copies changed, by step.
    """
    blur, edges = _pictures(results)
    histogram = rounding.compare(results.bins, _histogram(results.photo), 0)
    found = {
        steps.BLUR: Check(steps.BLUR, blur, "SciPy"),
        steps.EDGES: Check(steps.EDGES, edges, "SciPy"),
        steps.HISTOGRAM: Check(steps.HISTOGRAM, histogram, "NumPy"),
        steps.PRODUCT: Check(steps.PRODUCT, _product(results), "NumPy"),
    }
    for step, count in differing.items():
        found[step] = Check(step, Agreement(float(count), 0), "read back")
    return [found[step] for step in steps.STEPS]


def _product(results: Results) -> Agreement:
    """Of the matrix product: sums of as many products as a row has elements."""
    exact = results.matrix.astype(np.float64)
    sizes = np.abs(exact) @ np.abs(exact).T
    allowed = rounding.sum_bound(exact.shape[1] + 1, sizes, np.float32)
    return rounding.compare(results.product, exact @ exact.T, allowed)


def _pictures(results: Results) -> tuple[Agreement, Agreement]:
    """Of blur and edges; a piece of the photo at a time, to spare memory."""
    weights = steps.gaussian_weights().astype(np.float64)
    height = len(results.photo)
    blur, steep = [], []
    for first in range(0, height, _ROWS_AT_ONCE):
        last = min(height, first + _ROWS_AT_ONCE)
        low, high = max(0, first - RADIUS - 1), min(height, last + RADIUS + 1)
        own = slice(first - low, last - low)
        blurred = results.photo[low:high].astype(np.float64)
        for axis in (0, 1):
            blurred = ndimage.correlate1d(blurred, weights, axis=axis, mode="nearest")
        # No weight and no pixel is negative, so that the sum is also that of the terms' sizes.
        allowed = rounding.sum_bound(_BLUR_ROUNDINGS, blurred[own], np.float32)
        blur.append(rounding.compare(results.blurred[first:last], blurred[own], allowed))
        grey = blurred @ np.array([RED, GREEN, BLUE], np.float64)
        edges, sizes = (_sobel(grey, sign)[own] for sign in (-1, 1))
        allowed = rounding.sum_bound(_EDGES_ROUNDINGS, sizes, np.float32)
        steep.append(rounding.compare(results.edges[first:last], edges, allowed))
    return rounding.worst(blur), rounding.worst(steep)


def _sobel(grey: np.ndarray, sign: int) -> np.ndarray:
    """How steep `grey` is (`sign` -1), or the same with all differences made sums (1)."""
    apart, along = (sign, 0, 1), (1, 2, 1)
    return np.hypot(
        *(
            ndimage.correlate1d(
                ndimage.correlate1d(grey, apart, axis=axis, mode="nearest"),
                along,
                axis=1 - axis,
                mode="nearest",
            )
            for axis in (0, 1)
        )
    )


def _histogram(photo: np.ndarray) -> np.ndarray:
    red, green, blue = (photo[..., i].astype(np.int32) for i in range(3))
    return np.bincount(((77 * red + 150 * green + 29 * blue) >> 8).ravel(), minlength=BINS)
