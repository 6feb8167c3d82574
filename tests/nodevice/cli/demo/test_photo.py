"""Photos of every kind become upright colour pixels."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from haulage.cli.demo import photo
from haulage.cli.refusal import Refusal


def _saved(picture: Image.Image, path: Path, **how: object) -> Path:
    picture.save(path, **how)
    return path


def _pixels(path: Path, **how: int) -> np.ndarray:
    pixels, _ = photo.load(path, **how)
    assert pixels.dtype == np.uint8
    assert pixels.flags.c_contiguous
    assert pixels.ndim == 3
    assert pixels.shape[2] == 3
    return pixels


def test_the_packaged_photo_is_there() -> None:
    pixels, size = photo.load(photo.packaged())
    assert pixels.shape == (size[1], size[0], 3)
    assert pixels.std() > 30


@pytest.mark.parametrize("size", [(1, 1), (17, 5), (1, 40)])
def test_colour_photos_keep_every_pixel(tmp_path: Path, size: tuple[int, int]) -> None:
    given = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    path = _saved(Image.fromarray(given), tmp_path / "a.png")
    assert np.array_equal(_pixels(path), given)


def test_greyscale_becomes_three_equal_colours(tmp_path: Path) -> None:
    given = np.arange(20, dtype=np.uint8).reshape(4, 5)
    pixels = _pixels(_saved(Image.fromarray(given), tmp_path / "a.png"))
    assert np.array_equal(pixels, np.stack([given] * 3, axis=2))


def test_sixteen_bits_of_grey_are_stretched_to_eight(tmp_path: Path) -> None:
    given = np.array([[1000, 2000], [3000, 5000]], np.uint16)
    pixels = _pixels(_saved(Image.fromarray(given), tmp_path / "a.png"))
    assert pixels[..., 0].tolist() == [[0, 63], [127, 255]]


def test_a_flat_picture_of_floats_is_black(tmp_path: Path) -> None:
    path = _saved(Image.fromarray(np.full((2, 3), 7.0, np.float32)), tmp_path / "a.tiff")
    assert not _pixels(path).any()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_parts_are_white(tmp_path: Path, mode: str) -> None:
    picture = Image.new("RGBA", (4, 2), (0, 0, 0, 255))
    picture.putpixel((3, 1), (0, 0, 0, 0))
    converted = picture.quantize(4) if mode == "P" else picture.convert(mode)
    pixels = _pixels(_saved(converted, tmp_path / "a.png"))
    assert pixels[1, 3].tolist() == [255, 255, 255]
    assert pixels[0, 0].tolist() == [0, 0, 0]


def test_a_photo_taken_sideways_is_turned_upright(tmp_path: Path) -> None:
    given = np.zeros((2, 6, 3), np.uint8)
    given[0, 0] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned; to show it, turn by 90 degrees to the right
    path = _saved(Image.fromarray(given), tmp_path / "a.png", exif=exif)
    pixels, shown = photo.load(path)
    assert pixels.shape == (6, 2, 3)
    assert shown == (2, 6)
    assert pixels[0, 1].tolist() == [255, 255, 255]


@pytest.mark.parametrize("kind", ["png", "jpg"])
def test_a_large_photo_is_made_smaller_and_says_its_size(tmp_path: Path, kind: str) -> None:
    given = Image.new("RGB", (400, 100), (10, 200, 30))
    path = _saved(given, tmp_path / f"a.{kind}")
    pixels, size = photo.load(path, most_pixels=1000)
    assert size == (400, 100)
    assert pixels.shape == (15, 63, 3)
    assert np.abs(pixels.astype(int) - (10, 200, 30)).max() <= 3


def test_photos_too_large_for_pillows_guard_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _saved(Image.new("RGB", (30, 30)), tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert _pixels(path).shape == (30, 30, 3)
    assert Image.MAX_IMAGE_PIXELS == 100


def test_what_is_no_picture_is_refused_in_one_line(tmp_path: Path) -> None:
    given = np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8)
    whole = _saved(Image.fromarray(given), tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "half.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "text.jpg").write_text("no picture")
    os.mkfifo(tmp_path / "pipe.jpg")
    for name, no in (
        ("half.jpg", "cannot be read as a picture"),
        ("empty.png", "is not a picture"),
        ("text.jpg", "is not a picture"),
        ("pipe.jpg", "is no file of its own"),
        ("missing.jpg", "no such photo"),
        ("text.jpg/missing.jpg", "cannot read .*Not a directory"),
        ("x" * 300, "cannot read .*File name too long"),
        (".", "is a folder"),
    ):
        with pytest.raises(Refusal, match=no) as refused:
            photo.load(tmp_path / name)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("CMYK", "jpg"), ("1", "png"), ("P", "gif"), ("YCbCr", "tif"), ("LAB", "tif"), ("L", "webp")],
)
def test_pictures_of_any_mode_are_read(tmp_path: Path, mode: str, kind: str) -> None:
    given = np.resize([[[0, 0, 0]], [[255, 255, 255]]], (8, 8, 3)).astype(np.uint8)
    picture = Image.fromarray(given).convert("RGB" if mode == "LAB" else mode)
    if mode == "LAB":
        picture = Image.merge("LAB", picture.split())
    pixels = _pixels(_saved(picture, tmp_path / f"a.{kind}"))
    assert pixels.shape == (8, 8, 3)
    assert pixels.max() - pixels.min() > 150


def test_of_an_animation_the_first_picture_is_taken(tmp_path: Path) -> None:
    black, white = Image.new("RGB", (5, 4)), Image.new("RGB", (5, 4), "white")
    for kind in ("gif", "png", "webp"):
        path = _saved(black, tmp_path / f"a.{kind}", save_all=True, append_images=[white, white])
        assert _pixels(path).max() == 0
