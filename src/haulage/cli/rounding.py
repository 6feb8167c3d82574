"""How far a right result may be from its reference, and whether one is.

The bounds follow from the length of a sum, its type and the size of its terms:

- N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, 2002, lemma 3.1 and
  section 4.2: however n terms are ordered, the computed sum is off by at most
  gamma(n) * sum(|terms|), with gamma(n) = n u / (1 - n u) and u the unit roundoff of the type.
- W. Hoeffding, Probability Inequalities for Sums of Bounded Random Variables, J. Am. Stat. Assoc.
  58 (1963), theorem 1, for means of random numbers.

NumPy only, so that peers of the benchmarks in environments of their own can use it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# How likely it may be that a right mean of random numbers is called wrong.
_MEANS_FAIL = 1e-9
# Elements that are compared at once, to spare memory.
_AT_ONCE = 1 << 20


def sum_bound(roundings: int, magnitude: Any, dtype: DTypeLike) -> NDArray[Any]:
    """The largest error of sums in the float type `dtype`, of the shape of `magnitude`.

    `magnitude` holds sum(|terms|) of each; `roundings` is how many operations that round any of
    the terms goes through, in the result and in its reference together. 0 roundings: exact.

    Raises:
        ValueError: so many roundings have no bound in this type.
    """
    # Half of NumPy's eps, which is the distance from 1 to the next number.
    share = roundings * float(np.finfo(dtype).eps) / 2
    if share >= 0.5:
        raise ValueError(f"{roundings} roundings in {np.dtype(dtype)} leave no digit that is sure")
    return np.abs(magnitude) * (share / (1 - share))


def mean_bound(numbers: Any, means: int) -> NDArray[Any]:
    """How far the means of `numbers` random numbers (an array) from [0, 1) may be from the expected
    ones; in one of 10^9 right sets of `means` means one is further off."""
    return np.sqrt(np.log(2 * means / _MEANS_FAIL) / (2 * np.asarray(numbers, np.float64)))


@dataclass(frozen=True)
class Agreement:
    """The element that is worst for its bound: how far it is off, and how far it may be."""

    error: float
    allowed: float

    @property
    def right(self) -> bool:
        """Whether the error is small enough; false if it is not a number."""
        return bool(self.error <= self.allowed)

    def __str__(self) -> str:
        if self.error == 0:
            return "exact"
        sign = "<=" if self.right else "is not <="
        for digits in range(1, 17):
            error, allowed = f"{self.error:.{digits}e}", f"{self.allowed:.{digits}e}"
            if error != allowed or self.error == self.allowed:
                break
        return f"{error} {sign} {allowed}"


def worst(agreements: "list[Agreement]") -> Agreement:
    """The one whose error is the largest part of what is allowed."""
    return max(agreements, key=lambda a: float(_shares(a.error, a.allowed)))


def compare(result: Any, reference: Any, allowed: Any) -> Agreement:
    """The worst element of `result`; `allowed` is one number or one for each. An element for
    which infinity is allowed is not compared.

    Raises:
        ValueError: the shapes differ.
    """
    result, reference = np.asarray(result), np.asarray(reference)
    if result.shape != reference.shape:
        raise ValueError(f"got the shape {result.shape}, not {reference.shape}")
    result, reference = result.ravel(), reference.ravel()
    bounds = np.asarray(allowed).ravel()
    found = Agreement(0.0, 0.0)
    for first in range(0, result.size, _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        errors = np.abs(result[part].astype(np.float64) - reference[part].astype(np.float64))
        here = np.broadcast_to(bounds if bounds.size == 1 else bounds[part], errors.shape)
        shares = _shares(errors, here)
        at = int(shares.argmax())
        found = worst([found, Agreement(float(errors[at]), float(here[at]))])
    return found


def _shares(errors: Any, allowed: Any) -> Any:
    """Errors as parts of what is allowed; infinite where the error is not a number, too."""
    with np.errstate(all="ignore"):
        shares = np.where(errors == 0, 0.0, np.divide(errors, allowed))
    shares = np.where(np.isnan(shares), np.inf, shares)
    return np.where(np.isposinf(allowed), -1.0, shares)
