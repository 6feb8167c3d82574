"""The bounds that demo and benchmarks check results with: they hold, they are tight enough, and
what is told of them shows the difference."""

import math
from fractions import Fraction

import numpy as np
import pytest

from haulage.cli.rounding import Agreement, compare, mean_bound, sum_bound, worst


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 13, 100, 500])
def test_a_sum_of_products_in_order_keeps_its_bound(dtype: type, n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(20):
        a, b = (rng.standard_normal(n).astype(dtype) for _ in range(2))
        total = dtype(0)
        for x, y in zip(a, b, strict=True):
            total = dtype(total + dtype(x * y))
        terms = [Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True)]
        bound = sum_bound(n, float(sum(map(abs, terms))), dtype)
        assert abs(Fraction(float(total)) - sum(terms)) <= Fraction(float(bound))


def test_the_bound_is_reached_by_sums_that_always_round_down() -> None:
    # 1 + u is halfway to the next number, and ties go to the even one: each of n terms is lost.
    n, u = 1000, 2.0**-24
    total = np.float32(1)
    for _ in range(n):
        total += np.float32(u)
    error = 1 + n * u - float(total)
    assert 0.99 < error / sum_bound(n, 1 + n * u, np.float32) <= 1


def test_a_sum_without_roundings_is_exact_and_one_of_too_many_has_no_bound() -> None:
    assert sum_bound(0, np.ones(3), np.float32).tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="10000000 roundings in float32"):
        sum_bound(10_000_000, 1.0, np.float32)


def test_means_of_random_numbers_keep_their_bound_and_one_row_of_zeros_does_not() -> None:
    numbers = np.random.default_rng(3).random((500, 256))
    bound = float(mean_bound(256, 500))
    assert np.abs(numbers.mean(axis=1) - 0.5).max() <= bound < 0.5


def test_the_element_that_is_worst_for_its_bound_is_told() -> None:
    found = compare([1.0, 10.0, 5.0], [1.1, 10.5, 5.0], [0.05, 1.0, 0.0])
    assert math.isclose(found.error, 0.1)
    assert found.allowed == 0.05
    assert not found.right
    assert worst([Agreement(1.0, 2.0), found, Agreement(0.0, 0.0)]) is found


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_never_right(value: float) -> None:
    assert not compare([1.0, value], [1.0, 1.0], 5.0).right
    assert not compare([1.0, value], [1.0, 1.0], [5.0, 0.0]).right
    assert compare([1.0, value], [1.0, 1.0], [0.0, np.inf]).right


def test_exact_results_and_empty_ones() -> None:
    assert str(compare([1, 2], [1, 2], 0)) == "exact"
    assert compare(np.zeros(0), np.zeros(0), 0).right
    assert not compare([1, 3], [1, 2], 0).right
    with pytest.raises(ValueError, match=r"the shape \(2,\), not \(1,\)"):
        compare([1, 2], [1], 0)


def test_pieces_of_a_large_comparison_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from haulage.cli import rounding

    monkeypatch.setattr(rounding, "_AT_ONCE", 3)
    wrong = np.zeros((3, 4))
    wrong[2, 3] = 0.5
    assert compare(wrong, np.zeros((3, 4)), np.ones((3, 4))) == Agreement(0.5, 1.0)
    wrong[0, 0] = 2.0
    assert compare(wrong, np.zeros((3, 4)), 1.0) == Agreement(2.0, 1.0)


@pytest.mark.parametrize(
    ("error", "allowed", "told"),
    [
        (1.28e-5, 3.05e-5, "1.3e-05 <= 3.0e-05"),
        (1.003e-5, 1e-5, "1.003e-05 is not <= 1.000e-05"),
        (math.nextafter(0.1, 1), 0.1, "1.0000000000000002e-01 is not <= 1.0000000000000001e-01"),
        (0.25, 0.25, "2.5e-01 <= 2.5e-01"),
        (1.0, 0.0, "1.0e+00 is not <= 0.0e+00"),
        (math.nan, 1e-5, "nan is not <= 1.0e-05"),
    ],
)
def test_the_two_numbers_have_digits_enough_to_differ(
    error: float, allowed: float, told: str
) -> None:
    assert str(Agreement(error, allowed)) == told
