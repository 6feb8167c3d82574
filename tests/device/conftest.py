"""Fixtures for tests of devices: `way` runs a test once in each way of running the threads of a
block, `by_copies` has kernels work on copies of host arrays, `no_choice` and `two_nulls` are about
which device is meant."""

import contextlib
import gc

import pytest

import haulage
from doubles.far import far_device, registered
from haulage.backends.base import Probe
from haulage.backends.null import NullBackend
from haulage.runtime.devices import registry
from haulage.runtime.process import runtime


def pytest_generate_tests(metafunc):
    # `WAYS` of a module stands for the usual ones, which cut kernels or make threads coroutines.
    # Modules about what kernels work out add "scalar", with which both are to agree.
    if "way" in metafunc.fixturenames and not hasattr(metafunc.module, "way"):
        ways = getattr(metafunc.module, "WAYS", ("regions", "coroutines"))
        metafunc.parametrize("way", ways, indirect=True)


@pytest.fixture
def way(request, monkeypatch):
    """The way in which the CPU device runs the threads of a block during the test."""
    monkeypatch.setenv("HAULAGE_CPU_THREADS", request.param)
    return request.param


@pytest.fixture(scope="module")
def short_collections():
    """For tests that collect garbage often: what other modules have made is left out."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def by_copies(device):
    """A function that gives a `with` in which kernels cannot work on host arrays in place: the
    adversarial mode on the CPU device; on a device with memory of its own that is always so."""
    return (lambda: haulage.adversary(1)) if device.kind == "cpu" else contextlib.nullcontext


@pytest.fixture
def devices(device):
    """The device, which is the current one, and another one beside it, with memory of its own where
    the first one works on the host's."""
    others = [each for each in haulage.devices() if each is not device]
    with contextlib.ExitStack() as stack:
        if not others:
            others = [stack.enter_context(registered(far_device()))]
            stack.enter_context(haulage.use(device))
        yield [device, others[0]]


@pytest.fixture
def no_choice(monkeypatch):
    """No device is chosen: neither by `use` nor by the environment."""
    monkeypatch.delenv("HAULAGE_DEVICE", raising=False)
    monkeypatch.setattr(runtime.current, "chosen", None)


@pytest.fixture
def two_nulls(monkeypatch):
    """A kind of device 'null' with two devices, preferred over none."""

    class TwoNulls(NullBackend):
        def count(self):
            return 2

    monkeypatch.setattr(runtime.current, "drivers", dict(runtime.current.drivers))
    monkeypatch.setattr(runtime.current, "found", dict(runtime.current.found))
    registry.register(registry.Driver("null", lambda: Probe(True, (), "there"), TwoNulls))
