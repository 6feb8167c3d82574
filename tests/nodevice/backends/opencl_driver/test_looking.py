"""Looking for OpenCL: what of it can be used, and why not."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from haulage.backends.libraries import Search
from haulage.backends.opencl_driver import devices, looking
from haulage.errors import DeviceError

USM = "cl_intel_unified_shared_memory"
GOOD = {
    devices.NAME: b"Some GPU\0",
    devices.TYPE: (4).to_bytes(8, "little"),
    devices.EXTENSIONS: f"{USM} cl_intel_required_subgroup_size\0".encode(),
    devices.AVAILABLE: b"\1\0\0\0",
    devices.ADDRESS_BITS: b"\x40\0\0\0",
    devices.IL_VERSION: b"SPIR-V_1.2 SPIR-V_1.3\0",
    devices.SUB_GROUP_SIZES: b"".join(n.to_bytes(8, "little") for n in (8, 16, 32)),
    0x4190: b"\x0f" + bytes(7),
    0x4191: b"\x0f" + bytes(7),
    0x4192: b"\x0f" + bytes(7),
}


class Answers:
    """OpenCL as far as it is asked what a device is."""

    def __init__(self, figures):
        self.figures = figures

    def asked(self, name, handle, which):
        if which not in self.figures:
            raise DeviceError(-30, f"{name}: CL_INVALID_VALUE")
        return self.figures[which]

    def number(self, *args):
        return int.from_bytes(self.asked(*args), "little")

    def text(self, *args):
        return self.asked(*args).partition(b"\0")[0].decode()


def _why_not(figures):
    answers = Answers(figures)
    device = devices.Device(
        1,
        2,
        "A platform",
        "Some GPU",
        4,
        frozenset(answers.text("", 2, devices.EXTENSIONS).split()),
    )
    return devices._missing(answers, device)


def test_a_device_with_all_that_is_needed():
    assert _why_not(GOOD) == ""


@pytest.mark.parametrize(
    ("figure", "value", "words"),
    [
        (devices.AVAILABLE, bytes(4), "not available"),
        (devices.ADDRESS_BITS, b"\x20\0\0\0", "32 bits"),
        (devices.IL_VERSION, None, "takes no SPIR-V"),
        (devices.IL_VERSION, b"\0", "takes no SPIR-V"),
        (devices.EXTENSIONS, b"cl_intel_required_subgroup_size\0", USM),
        (0x4190, bytes(8), "no host memory"),
        (0x4192, bytes(8), "no shared memory"),
        (devices.SUB_GROUP_SIZES, (16).to_bytes(8, "little"), "sub-groups of 32"),
        (devices.EXTENSIONS, USM.encode() + b"\0", "sub-groups of 32"),
    ],
)
def test_what_a_device_lacks_is_told(figure, value, words):
    figures = {key: each for key, each in GOOD.items() if key != figure}
    if value is not None:
        figures[figure] = value
    assert words in _why_not(figures)


def test_without_a_loader_it_is_told_how_to_get_one(monkeypatch):
    attempts = (("libOpenCL.so.1", "libOpenCL.so.1: cannot open: No such file or directory"),)
    monkeypatch.setattr(looking, "find", lambda: Search(None, attempts))
    probe = looking.probe()
    assert not probe.available
    assert probe.looked_for == ("libOpenCL.so.1",)
    assert probe.short == "no OpenCL loader"
    assert "haulage[opencl]" in probe.answer


@pytest.mark.parametrize(
    ("found", "available", "words"),
    [
        (([], []), False, "no driver"),
        ((["P (OpenCL 3.0)"], []), False, "no device"),
        ((["P (OpenCL 3.0)"], ["why"]), False, "GPU G of P is not used: why"),
        ((["P (OpenCL 3.0)"], ["why", ""]), True, "GPU G of P is not used: why; GPU G of P"),
    ],
)
def test_platforms_and_devices_are_told(monkeypatch, found, available, words):
    platforms, reasons = found
    listed = [devices.Device(1, 2, "P", "G", 4, frozenset(), why_not) for why_not in reasons]
    library = SimpleNamespace()
    monkeypatch.setattr(looking, "find", lambda: Search(library, (("libOpenCL", "loaded"),)))
    monkeypatch.setattr(looking, "file_of", lambda *_: "/lib/libOpenCL")
    monkeypatch.setattr(looking, "Calls", lambda: None)
    monkeypatch.setattr(looking, "all_devices", lambda _: (platforms, listed))
    probe = looking.probe()
    assert probe.available == available
    assert words in f"{probe.answer} {probe.short}"


def test_where_no_gpu_is_likely_nothing_of_opencl_is_loaded_to_choose_a_device():
    code = """
import sys
from haulage.backends.opencl_driver import presence
presence.is_likely = lambda: False
from haulage import cuda
cuda.to_device([1.0])
assert "haulage.backends.opencl_driver.library" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
