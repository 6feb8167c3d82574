"""The whole way of the demo on each device that is present."""

import inspect
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from haulage import cli
from haulage.cli.demo import checks, kernels, photo, steps
from haulage.runtime.devices.device import Device

ROOT = Path(__file__).parents[4]


def _photo(path: Path, width: int, height: int, mode: str = "RGB") -> str:
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    return str(path)


def test_demo_of_the_packaged_photo(
    device: Device, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main(["demo", "--device", str(device), "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    for step in steps.STEPS:
        (line,) = [line for line in lines if line.startswith(step)]
        assert "ok: " in line
        assert str(device) in line
    assert lines[-2].endswith(str(tmp_path / "before-after.png"))
    assert lines[-1].endswith(str(tmp_path / "timeline.png"))
    for name in ("before-after.png", "timeline.png"):
        with Image.open(tmp_path / name) as picture:
            assert picture.width > 1200


@pytest.mark.parametrize(
    ("width", "height", "mode"),
    [(1, 1, "RGB"), (17, 5, "RGBA"), (5, 200, "L"), (333, 131, "RGB"), (16, 256, "RGB")],
)
def test_photos_of_odd_sizes_come_out_right(
    device: Device, tmp_path: Path, width: int, height: int, mode: str
) -> None:
    path = _photo(tmp_path / "photo.png", width, height, mode)
    assert cli.main(["demo", path, "--device", str(device), "--out", str(tmp_path)]) == 0


def test_a_wrong_result_is_named_and_ends_with_status_1(
    device: Device,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "_EDGES_ROUNDINGS", 0)
    path = _photo(tmp_path / "photo.png", 20, 20)
    assert cli.main(["demo", path, "--device", str(device), "--out", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert captured.err == f"haulage: wrong results: {steps.EDGES}\n"
    assert "FAILED: " in captured.out
    assert " is not <= 0.0e+00 (SciPy)" in captured.out


def _pictures() -> dict[str, np.ndarray]:
    """Pictures of many kinds; the rows and columns of the matrix are sampled from them."""
    random = np.random.default_rng(1)
    ramp = np.linspace(0, 255, 96 * 70).reshape(96, 70, 1)
    few = np.zeros((96, 70, 1))
    few[40:50, 30:40] = 255
    return {
        "noise": random.integers(0, 256, (96, 70, 3)),
        "black": np.zeros((96, 70, 3)),
        "white": np.full((96, 70, 3), 255),
        "one grey": np.full((96, 70, 3), 93),
        "ramp": ramp,
        "a square on black": few,
        "a line": np.where(np.arange(70)[None, :, None] == 35, 255, 0) + np.zeros((96, 1, 1)),
        "flat rows": np.resize([0, 255], (96, 1, 1)) + np.zeros((96, 70, 1)),
        "nearly flat": 128 + (random.random((96, 70, 1)) < 0.01),
        "1 x 1": random.integers(0, 256, (1, 1, 3)),
        "1 x 300": random.integers(0, 256, (1, 300, 3)),
        "300 x 1": random.integers(0, 256, (300, 1, 3)),
        "two colours": np.where(random.random((130, 33, 1)) < 0.5, [255, 0, 10], [3, 200, 255]),
    }


@pytest.mark.parametrize("name", _pictures())
def test_right_results_of_any_picture_pass_every_check(device: Device, name: str) -> None:
    picture = _pictures()[name].astype(np.uint8)
    pixels = np.ascontiguousarray(np.broadcast_to(picture, (*picture.shape[:2], 3)))
    journey = steps.Journey(pixels)
    found = checks.check_all(journey.run(), journey.differing())
    assert [str(check) for check in found if not check.passed] == []


# A kernel of the demo, a part of its text, what it is by mistake, and the step that is wrong then.
_MISTAKES = [
    ("blur", "weights[tap] * patch[y, tx + tap]", "weights[tap] * patch[y, tx]", steps.BLUR),
    ("blur", "for tap in range(TAPS)", "for tap in range(TAPS - 1)", steps.BLUR),
    ("blur", "from_row = min(max(top + y, 0)", "from_row = min(max(top + y, 1)", steps.BLUR),
    ("blur", "row < blurred.shape[0]", "row < blurred.shape[0] - 1", steps.BLUR),
    ("blur", "column < blurred.shape[1]", "column < blurred.shape[1] - 1", steps.BLUR),
    ("edges", "- patch[y - 1, x - 1]", "- patch[y, x - 1]", steps.EDGES),
    ("edges", "two = np.float32(2)", "two = np.float32(1.999)", steps.EDGES),
    ("edges", "row < strength.shape[0]", "row < strength.shape[0] - 1", steps.EDGES),
    ("histogram", "cuda.atomic.add(bins, thread, mine[thread])", "bins[thread] = mine[thread]"),
    ("histogram", "row < photo.shape[0]", "row < photo.shape[0] - 1"),
    ("histogram", "mine[thread] > 0", "mine[thread] > 1"),
    ("product", "for k in range(SIDE)", "for k in range(SIDE - 1)", steps.PRODUCT),
    ("product", "range(0, a.shape[1], SIDE)", "range(SIDE, a.shape[1], SIDE)", steps.PRODUCT),
    ("product", "c[row, column] = total", "c[row, column] = total * 0.999", steps.PRODUCT),
]


@pytest.mark.parametrize("mistake", _MISTAKES, ids=lambda mistake: f"{mistake[0]}: {mistake[2]}")
def test_a_mistake_in_a_kernel_fails_the_check_of_its_step(
    device: Device, mistake: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel, text, wrong, step = mistake if len(mistake) == 4 else (*mistake, steps.HISTOGRAM)
    source = inspect.getsource(kernels)
    begin = source.index(f"def {kernel}(")
    assert text in source[begin:]
    # A file, as kernels are compiled from the text of their functions.
    spoilt = tmp_path / "spoilt_kernels.py"
    spoilt.write_text(source[:begin] + source[begin:].replace(text, wrong, 1))
    monkeypatch.setattr(kernels, kernel, runpy.run_path(str(spoilt))[kernel])
    pixels = np.random.default_rng(1).integers(100, 156, (96, 70, 3), np.uint8)
    journey = steps.Journey(pixels, side=64)
    found = checks.check_all(journey.run(), journey.differing())
    # What is made of a wrong picture is wrong as well.
    assert step in [check.step for check in found if not check.passed]
    assert step == steps.PRODUCT or steps.PRODUCT not in [c.step for c in found if not c.passed]


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "images").glob("*.*")), ids=str)
def test_the_pictures_of_the_documentation_come_out_right(device: Device, picture: Path) -> None:
    pixels, _ = photo.load(picture, most_pixels=200_000)
    journey = steps.Journey(pixels)
    found = checks.check_all(journey.run(), journey.differing())
    assert [str(check) for check in found if not check.passed] == []


def test_operations_of_one_stream_follow_one_another(device: Device) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (300, 64, 3), np.uint8)
    operations = steps.Journey(pixels, side=64).run().operations
    assert {o.lane for o in operations} == {0, 1}
    assert {o.step for o in operations} == set(steps.STEPS)
    for lane in (0, 1):
        own = [o for o in operations if o.lane == lane]
        times = [time for o in own for time in (o.begin, o.end)]
        assert times == sorted(times)
        assert times[0] >= 0
