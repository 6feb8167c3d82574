"""What the demo makes of its results: strips, checks that can fail, table, pictures."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from haulage.cli.demo import checks, pictures, report, steps, timeline
from haulage.cli.rounding import Agreement

COPIED = dict.fromkeys(steps.COPIES, 0)


def _results(height: int = 40, width: int = 30) -> steps.Results:
    """What a faultless device would give, made by SciPy."""
    photo = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    blurred = photo.astype(np.float64)
    for axis in (0, 1):
        weights = steps.gaussian_weights().astype(np.float64)
        blurred = ndimage.correlate1d(blurred, weights, axis=axis, mode="nearest")
    grey = blurred @ (0.299, 0.587, 0.114)
    steep = np.hypot(*(ndimage.sobel(grey, axis=a, mode="nearest") for a in (0, 1)))
    grey = photo.astype(int) @ (77, 150, 29) >> 8
    matrix = steps.row_matrix(photo, 32)
    results = steps.Results(
        photo,
        blurred.astype(np.float32),
        steep.astype(np.float32),
        np.bincount(grey.ravel(), minlength=256).astype(np.int32),
        matrix,
        matrix @ matrix.T,
    )
    for i, step in enumerate(steps.STEPS):
        results.operations.append(steps.Operation(step, i % 2, i, i + 0.5, 1_000_000))
    return results


@pytest.mark.parametrize("height", [1, 5, 63, 64, 127, 128, 300, 1001])
def test_strips_cover_every_row_once_with_the_rows_around_them(height: int) -> None:
    found = steps.strips(height)
    assert [row for s in found for row in range(s.first, s.last)] == list(range(height))
    for s in found:
        assert s.blurred_first == max(0, s.first - 1)
        assert s.blurred_last == min(height, s.last + 1)
        assert s.photo_first == max(0, s.blurred_first - steps.RADIUS)
        assert s.photo_last == min(height, s.blurred_last + steps.RADIUS)


def test_a_photo_of_some_size_goes_to_both_streams() -> None:
    assert {s.lane for s in steps.strips(600)} == {0, 1}


def test_rows_without_contrast_are_zero_in_the_matrix() -> None:
    assert not steps.row_matrix(np.full((3, 4, 3), 77, np.uint8), 16).any()


def test_right_results_pass_every_check() -> None:
    found = checks.check_all(_results(), COPIED)
    assert [check.step for check in found] == list(steps.STEPS)
    assert all(check.passed for check in found)


def test_checks_of_a_photo_in_pieces_agree_with_those_of_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "_ROWS_AT_ONCE", 7)
    assert all(check.passed for check in checks.check_all(_results(), COPIED))


@pytest.mark.parametrize(
    ("step", "array", "change"),
    [
        (steps.BLUR, "blurred", 0.01),
        (steps.BLUR, "blurred", np.nan),
        (steps.EDGES, "edges", 0.1),
        (steps.EDGES, "edges", np.nan),
        (steps.HISTOGRAM, "bins", 1),
        (steps.PRODUCT, "product", 1e-4),
        (steps.PRODUCT, "product", np.nan),
    ],
)
def test_one_wrong_element_fails_its_check_and_no_other(
    step: str, array: str, change: float
) -> None:
    results = _results()
    getattr(results, array).flat[-5] += change
    failed = [check for check in checks.check_all(results, COPIED) if not check.passed]
    assert [check.step for check in failed] == [step]
    assert str(failed[0]).startswith("FAILED")


def test_a_copy_that_changed_something_fails_its_check() -> None:
    found = checks.check_all(_results(), {**COPIED, steps.PHOTO_IN: 1})
    assert [check.step for check in found if not check.passed] == [steps.PHOTO_IN]


def test_rows_add_up_bytes_and_times_of_all_streams() -> None:
    results = _results()
    results.operations.append(steps.Operation(steps.BLUR, 1, 10.0, 11.5, 3_000_000))
    row = report.rows(results.operations, checks.check_all(results, COPIED), "cpu:0")[1]
    assert row.cells()[:5] == (steps.BLUR, "4,000,000", "2.00", "2.00", "cpu:0")


def test_what_elapsed_and_what_was_busy_are_told_apart() -> None:
    # Two streams for 10 ms, of which 6 at the same time.
    operations = [
        steps.Operation(steps.BLUR, 0, 0.0, 8.0, 1),
        steps.Operation(steps.EDGES, 1, 2.0, 10.0, 1),
    ]
    told = report.elapsed_and_busy(operations, 10.0)
    assert told.startswith("10.0 ms elapsed; 16.0 ms busy: those of 2 streams")
    assert "busy ms" in report.HEADER
    assert "ms" not in report.HEADER


def test_an_operation_too_short_for_the_clock_has_no_rate() -> None:
    check = checks.Check(steps.BLUR, Agreement(0.0, 0.0), "SciPy")
    assert report.Row(steps.BLUR, 100, 0.0, "cpu:0", check).cells()[3] == "nan"


def test_the_plain_table_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    results = _results()
    report.Report(1).table(
        report.rows(results.operations, checks.check_all(results, COPIED), "cpu:0")
    )
    header, *lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(steps.STEPS)
    for line in lines:
        assert line.index("cpu:0") == header.index("device")
        assert line.index("ok: ") == header.index("checked")


@pytest.mark.parametrize("shape", [(1, 1), (5, 17), (2000, 3), (60, 3000)])
def test_pictures_are_drawn_for_any_shape(tmp_path: Path, shape: tuple[int, int]) -> None:
    results = _results(*shape)
    pictures.draw(results, "a title", "and more", tmp_path / "before-after.png")
    timeline.draw(results.operations, "a title", tmp_path / "timeline.png")
    for name in ("before-after.png", "timeline.png"):
        with Image.open(tmp_path / name) as picture:
            pixels = np.asarray(picture.convert("L"))
        assert pixels.shape[0] > 300
        assert pixels.shape[1] > 1200
        assert pixels.std() > 5


def test_a_timeline_of_no_duration_is_drawn(tmp_path: Path) -> None:
    operations = [steps.Operation(steps.BLUR, 0, 1.0, 1.0, 10)]
    timeline.draw(operations, "a title", tmp_path / "timeline.png")
    assert (tmp_path / "timeline.png").stat().st_size > 1000
