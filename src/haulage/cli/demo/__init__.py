"""`haulage demo`: a photograph through a device and back, checked and drawn."""

import argparse
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import haulage.platforms  # noqa: F401  (it makes the devices known)
from haulage import extras
from haulage.cli.refusal import Refusal
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device, find, use

_PACKAGES = {"matplotlib": "Matplotlib", "PIL": "Pillow", "scipy": "SciPy"}
_DEFAULT_FOLDER = Path("haulage-demo")


def _photo(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("the name of the photo is empty")
    return Path(text)


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("the name of the folder is empty")
    return Path(text)


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this command to the command line."""
    parser = commands.add_parser(
        "demo",
        help="send a photo through a device and back; makes two pictures and a table",
        description="Send a photo through a device and back: by pinned memory and two streams "
        "to four kernels (blur, edges, histogram, matrix product), each result checked against "
        "NumPy or SciPy. Writes a before/after picture and a timeline, prints a table, and "
        "ends with status 1 if a result is wrong.",
    )
    parser.add_argument(
        "photo",
        nargs="?",
        type=_photo,
        metavar="PHOTO",
        help="any picture that Pillow reads, of any size (default: the one Matplotlib carries)",
    )
    parser.add_argument(
        "--device",
        metavar="D",
        help="where to run: cpu, nvidia, amd, with a number if there are several, as in nvidia:1 "
        "(default: HAULAGE_DEVICE, else the best one present)",
    )
    parser.add_argument(
        "--out",
        type=_folder,
        metavar="FOLDER",
        default=_DEFAULT_FOLDER,
        help="where the pictures go; made if it is not there (default: ./%(default)s)",
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Returns 0 if every result is right, else 1. Raises Refusal, DeviceNotFound."""
    _check_packages()
    device = current_device() if chosen.device is None else find(chosen.device, "--device")
    with use(device):
        return _run_on(device, chosen)


def _run_on(device: Device, chosen: argparse.Namespace) -> int:
    # Here, because these import what the extra `demo` brings.
    from haulage.cli.demo import checks, photo, pictures, report, steps, timeline

    path = photo.packaged() if chosen.photo is None else chosen.photo
    with report.Report(phases=5) as say:
        say.phase("reading the photo")
        pixels, (file_width, file_height) = photo.load(path)
        _check_folder(chosen.out)
        height, width = pixels.shape[:2]
        smaller = "" if height * width == file_width * file_height else ", made smaller to"
        size = f"{file_width} x {file_height} pixels"
        say.line("photo", f"{path}, {size}" + (smaller and f"{smaller} {width} x {height}"))
        say.line("device", f"{device}, {device.name}")

        say.phase("compiling the kernels and running them")
        journey = steps.Journey(pixels)
        results = journey.run()
        say.phase("checking against NumPy and SciPy")
        found = checks.check_all(results, journey.differing())
        say.phase("drawing the pictures")
        milliseconds = results.seconds * 1e3
        wrong = [check.step for check in found if not check.passed]
        verdict = (
            f"WRONG: {', '.join(wrong)}" if wrong else "every result checked by NumPy or SciPy"
        )
        title = f"A photo through {device} and back in {milliseconds:.1f} ms"
        subtitle = f"{width} x {height} pixels on {device.name}; {verdict}"
        lanes_title = f"Copies and kernels of two streams on {device}"
        before_after, lanes = chosen.out / "before-after.png", chosen.out / "timeline.png"
        try:
            pictures.draw(results, title, subtitle, before_after)
            timeline.draw(results.operations, lanes_title, lanes)
        except OSError as full:
            raise Refusal(f"cannot write the pictures to {chosen.out}: {full}") from full
        say.phase("done")

    say.table(report.rows(results.operations, found, str(device)))
    say.line("time", report.elapsed_and_busy(results.operations, milliseconds))
    say.line(
        "",
        f"(fastest of {steps.PASSES} passes; before them one with compilation: "
        f"{results.first_seconds:.2f} s)",
    )
    say.line("pictures", f"{before_after}")
    say.line("", f"{lanes}")
    if wrong:
        print(f"haulage: wrong results: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


def _check_packages() -> None:
    missing = [shown for module, shown in _PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise Refusal(
            f"the demo needs {', '.join(missing)}, not installed here: "
            f"{extras.how_to_install('demo')}"
        )


def _check_folder(folder: Path) -> None:
    """Better now than after all the work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as refused:
        raise Refusal(
            f"cannot write to {folder}: {refused.strerror or refused}; name another --out"
        ) from refused
