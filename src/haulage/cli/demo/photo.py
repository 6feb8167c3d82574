"""From a picture file to pixels."""

import stat
import struct
from pathlib import Path

import numpy as np
from matplotlib import cbook
from PIL import Image, ImageOps

from haulage.cli.refusal import Refusal

# Above the first, a photo is made smaller, so that the demo fits in the memory of small
# machines; above the second, even reading it would not.
MOST_PIXELS = 24_000_000
READABLE_PIXELS = 1_000_000_000

# The EXIF tag that says how a camera was held, and its values for "on its side".
_ORIENTATION = 0x0112
_ON_ITS_SIDE = (5, 6, 7, 8)

# What Pillow's readers raise for broken files, by format.
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, struct.error)


def packaged() -> Path:
    """The photo that comes with Matplotlib: Grace Hopper, by the U.S. Navy."""
    return Path(str(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)))


def load(path: Path, most_pixels: int = MOST_PIXELS) -> tuple[np.ndarray, tuple[int, int]]:
    """Read a picture of any mode; upright as its EXIF data say, over white where transparent.

    Returns:
        (pixels, (columns, rows) of the file): uint8 (rows, columns, 3), C order, made smaller
        if there are more than `most_pixels`.

    Raises:
        Refusal: no such file, a folder or pipe, not a picture, broken, or of more than
            `READABLE_PIXELS`.
    """
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        raise Refusal(f"no such photo: {path}") from None
    except OSError as refused:
        raise Refusal(f"cannot read {path}: {refused.strerror}") from refused
    if stat.S_ISDIR(kind):
        raise Refusal(f"{path} is a folder; give the path of one photo")
    if not stat.S_ISREG(kind):
        raise Refusal(f"{path} is no file of its own; give the path of one photo")
    guard = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None  # large photos are welcome here; our own bound stands below
    try:
        with Image.open(path) as picture:
            size = picture.size
            turned = picture.getexif().get(_ORIENTATION) in _ON_ITS_SIDE
            shown = size[::-1] if turned else size
            if size[0] * size[1] > READABLE_PIXELS:
                raise Refusal(
                    f"{path} has {size[0]} x {size[1]} pixels; the demo reads up to "
                    f"{READABLE_PIXELS:,}, so give it a smaller one"
                )
            if size[0] * size[1] > most_pixels:
                picture.draft("RGB", _fitting(size, most_pixels))  # JPEG decodes smaller at once
            pixels = _to_rgb(ImageOps.exif_transpose(picture))
            if pixels.size[0] * pixels.size[1] > most_pixels:
                pixels = pixels.resize(_fitting(pixels.size, most_pixels), Image.Resampling.BOX)
            return np.ascontiguousarray(np.asarray(pixels, dtype=np.uint8)), shown
    except Image.UnidentifiedImageError:
        raise Refusal(f"{path} is not a picture that Pillow can read") from None
    except _BROKEN as broken:
        raise Refusal(f"{path} cannot be read as a picture: {broken}") from broken
    finally:
        Image.MAX_IMAGE_PIXELS = guard


def _fitting(size: tuple[int, int], most_pixels: int) -> tuple[int, int]:
    shrink = (most_pixels / (size[0] * size[1])) ** 0.5
    return max(1, int(size[0] * shrink)), max(1, int(size[1] * shrink))


def _to_rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith(("I", "F")):
        return _stretched(picture)
    if picture.has_transparency_data:
        over = picture.convert("RGBA")
        paper = Image.new("RGBA", over.size, "white")
        return Image.alpha_composite(paper, over).convert("RGB")
    return picture.convert("RGB")


def _stretched(picture: Image.Image) -> Image.Image:
    """Grey values of more than 8 bits, darkest to black and brightest to white."""
    values = np.nan_to_num(np.asarray(picture, dtype=np.float64))
    low, high = values.min(), values.max()
    grey = (values - low) * (255 / (high - low if high > low else 1))
    return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
