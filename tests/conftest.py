"""Fixtures for all tests: `device` runs a test once on each device that is present."""

import contextlib
import gc
import os
import signal
import tempfile
import threading

import pytest

import haulage
from doubles.far import far_device, registered
from haulage.errors import Unsupported

# A shell starts what runs in its background with Ctrl-C ignored, and programs hand that on to those
# that they start. The tests of Ctrl-C are about a program that hears it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test uses or fills the user's own cache.
_cache = tempfile.TemporaryDirectory(prefix="haulage-cache-of-tests-")
os.environ["HAULAGE_CACHE_DIR"] = _cache.name


def pytest_addoption(parser):
    parser.addoption(
        "--far",
        action="store_true",
        help="run the tests of devices on the far device only: the processor with addresses that "
        "the host cannot use, as a GPU's are",
    )


@pytest.fixture(scope="module", autouse=True)
def _collections_leave_other_modules_alone():
    """A garbage collection in a test looks at what its module has made: all that kernels of earlier
    modules have left would take it a second, and some tests collect a thousand times."""
    gc.freeze()
    yield
    gc.unfreeze()


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        far = [far_device()]
        present = far if metafunc.config.getoption("--far") else haulage.devices()
        if getattr(metafunc.module, "ALSO_FAR", False) and far[0] not in present:
            present = present + far
        metafunc.parametrize("device", present, ids=str, indirect=True)


@pytest.fixture
def device(request):
    """A device that is present; it is the current one during the test.

    Where a module says `ALSO_FAR = True`, that is also the one of `doubles.far`.
    """
    chosen = request.param
    known = registered(chosen) if chosen is far_device() else contextlib.nullcontext()
    with known, haulage.use(chosen) as device:
        yield device


@pytest.fixture
def far():
    """The device of `doubles.far`; it is the current one during the test."""
    with registered(far_device()) as device, haulage.use(device):
        yield device


@pytest.fixture
def hold_up(device):
    """A function that makes a stream stop until the `with` it opens is left."""

    @contextlib.contextmanager
    def held_up(stream):
        opened = threading.Event()
        try:
            device.backend.stream_callback(stream.handle, lambda: opened.wait(60))
        except Unsupported:
            pytest.skip(f"{device} has no stream callbacks to hold a stream up with")
        try:
            yield
        finally:
            opened.set()

    return held_up
