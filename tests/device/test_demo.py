"""The whole way of the demo on each device that is present."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from haulage import cli
from haulage.cli.demo import checks, steps
from haulage.runtime.device import Device


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
    photo = _photo(tmp_path / "photo.png", width, height, mode)
    assert cli.main(["demo", photo, "--device", str(device), "--out", str(tmp_path)]) == 0


def test_a_wrong_result_is_named_and_ends_with_status_1(
    device: Device,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "EDGES_TOLERANCE", -1.0)
    photo = _photo(tmp_path / "photo.png", 20, 20)
    assert cli.main(["demo", photo, "--device", str(device), "--out", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert captured.err == f"haulage: wrong results: {steps.EDGES}\n"
    assert "FAILED" in captured.out


def test_operations_of_one_stream_follow_one_another(device: Device) -> None:
    photo = np.random.default_rng(1).integers(0, 256, (300, 64, 3), np.uint8)
    operations = steps.Journey(photo, side=64).run().operations
    assert {o.lane for o in operations} == {0, 1}
    assert {o.step for o in operations} == set(steps.STEPS)
    for lane in (0, 1):
        own = [o for o in operations if o.lane == lane]
        times = [time for o in own for time in (o.begin, o.end)]
        assert times == sorted(times)
        assert times[0] >= 0
