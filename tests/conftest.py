"""Fixtures for all tests: `device` runs a test once on each device that is present."""

import contextlib
import os
import signal
import tempfile
import threading

import pytest

import haulage
from haulage.errors import Unsupported

# A shell starts what runs in its background with Ctrl-C ignored, and programs hand that on to those
# that they start. The tests of Ctrl-C are about a program that hears it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test uses or fills the user's own cache.
_cache = tempfile.TemporaryDirectory(prefix="haulage-cache-of-tests-")
os.environ["HAULAGE_CACHE_DIR"] = _cache.name


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", haulage.devices(), ids=str, indirect=True)


@pytest.fixture
def device(request):
    """A device that is present; it is the current one during the test."""
    with haulage.use(request.param) as device:
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
