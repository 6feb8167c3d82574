"""Which device is meant where none is named."""

from dataclasses import replace

import pytest

import haulage
from haulage.backends.base import Probe
from haulage.backends.null import NullBackend
from haulage.runtime.devices import registry
from haulage.runtime.process import runtime


class OnProcessor(NullBackend):
    def properties(self, device):
        return replace(super().properties(device), on_processor=True)


@pytest.fixture
def kinds(monkeypatch):
    """No choice, and no kind of device but those that a test registers."""
    monkeypatch.delenv("HAULAGE_DEVICE", raising=False)
    for name, value in (("chosen", None), ("best", None), ("drivers", {}), ("found", {})):
        monkeypatch.setattr(runtime.current, name, value)
    monkeypatch.setattr(runtime.current, "probes", {})


def _register(kind, backend, **more):
    registry.register(registry.Driver(kind, lambda: Probe(True, (), "there"), backend, **more))


def test_a_processor_by_the_driver_of_others_is_chosen_only_where_it_is_named(kinds):
    _register("other", OnProcessor)
    _register("own", NullBackend)
    assert [str(device) for device in haulage.devices()] == ["own:0", "other:0"]
    assert registry.current_device().kind == "own"
    with haulage.use("other") as device:
        assert registry.current_device() is device


def test_a_kind_that_is_not_likely_is_looked_for_only_where_it_is_named(kinds):
    looked = []

    class Looked(NullBackend):
        def __init__(self):
            super().__init__()
            looked.append(self)

    _register("unlikely", Looked, is_likely=lambda: False)
    _register("own", NullBackend)
    assert registry.current_device().kind == "own"
    assert not looked
    assert registry.find("unlikely:0").kind == "unlikely"
    assert looked
