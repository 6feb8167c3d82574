"""What NumPy and SciPy say to each result of the demo."""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from haulage.cli.demo import steps
from haulage.cli.demo.kernels import BINS, BLUE, GREEN, RADIUS, RED
from haulage.cli.demo.steps import Results

# How far float32 on the device may be from float64 in SciPy: brightness runs from 0 to 255,
# the steepness of edges to about 1440, and the product from -1 to 1.
BLUR_TOLERANCE = 2e-3
EDGES_TOLERANCE = 2e-2
PRODUCT_TOLERANCE = 1e-5

_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Check:
    """One step's largest error, and what it was compared with. A tolerance of 0 means exact."""

    step: str
    error: float
    tolerance: float
    against: str

    @property
    def passed(self) -> bool:
        """Whether the error is small enough; false if it is not a number."""
        return bool(self.error <= self.tolerance)

    def __str__(self) -> str:
        word, sign = ("ok", "<=") if self.passed else ("FAILED", "is not <=")
        if self.passed and self.tolerance == 0:
            return f"{word}: exact ({self.against})"
        return f"{word}: {self.error:.0e} {sign} {self.tolerance:.0e} ({self.against})"


def check_all(results: Results, differing: dict[str, int]) -> list[Check]:
    """One check for each of `steps.STEPS`, in that order.

    `differing` is how many elements the copies changed, by step.
    """
    blur, edges = _pictures(results)
    counted = np.abs(results.bins.astype(np.int64) - _histogram(results.photo)).max()
    exact = results.matrix.astype(np.float64)
    product = np.abs(results.product - exact @ exact.T).max()
    found = {
        steps.BLUR: Check(steps.BLUR, blur, BLUR_TOLERANCE, "SciPy"),
        steps.EDGES: Check(steps.EDGES, edges, EDGES_TOLERANCE, "SciPy"),
        steps.HISTOGRAM: Check(steps.HISTOGRAM, float(counted), 0, "NumPy"),
        steps.PRODUCT: Check(steps.PRODUCT, float(product), PRODUCT_TOLERANCE, "NumPy"),
    }
    for step, count in differing.items():
        found[step] = Check(step, float(count), 0, "read back")
    return [found[step] for step in steps.STEPS]


def _pictures(results: Results) -> tuple[float, float]:
    """Largest errors of blur and edges; a piece of the photo at a time, to spare memory."""
    weights = steps.gaussian_weights().astype(np.float64)
    height = len(results.photo)
    blur_errors, edge_errors = [], []
    for first in range(0, height, _ROWS_AT_ONCE):
        last = min(height, first + _ROWS_AT_ONCE)
        low, high = max(0, first - RADIUS - 1), min(height, last + RADIUS + 1)
        own = slice(first - low, last - low)
        blurred = results.photo[low:high].astype(np.float64)
        for axis in (0, 1):
            blurred = ndimage.correlate1d(blurred, weights, axis=axis, mode="nearest")
        grey = blurred @ np.array([RED, GREEN, BLUE], np.float64)
        steep = np.hypot(
            ndimage.sobel(grey, axis=0, mode="nearest"), ndimage.sobel(grey, axis=1, mode="nearest")
        )
        blur_errors.append(np.abs(results.blurred[first:last] - blurred[own]).max())
        edge_errors.append(np.abs(results.edges[first:last] - steep[own]).max())
    # np.max, unlike max, keeps a value that is not a number.
    return float(np.max(blur_errors)), float(np.max(edge_errors))


def _histogram(photo: np.ndarray) -> np.ndarray:
    red, green, blue = (photo[..., i].astype(np.int32) for i in range(3))
    return np.bincount(((77 * red + 150 * green + 29 * blue) >> 8).ravel(), minlength=BINS)
