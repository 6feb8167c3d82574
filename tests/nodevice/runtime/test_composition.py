"""What a process has one of can be another one in a test, and nothing subscribes by an import."""

import subprocess
import sys

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.backends.base import Probe
from haulage.backends.null import NullBackend
from haulage.errors import DeviceMismatch
from haulage.runtime import composition
from haulage.runtime.devices.registry import Driver
from haulage.runtime.process import runtime
from haulage.runtime.process.runtime import AfterWait


class TwoNulls(NullBackend):
    """Two devices that do nothing."""

    def count(self):
        return 2


NULLS = Driver("null", lambda: Probe(True, (), "there"), TwoNulls)


@pytest.fixture
def replaced(monkeypatch):
    monkeypatch.delenv("HAULAGE_DEVICE", raising=False)
    with composition.replaced([NULLS]) as made:
        yield made


def test_another_runtime_has_devices_arrays_and_streams_of_its_own(replaced):
    assert [str(device) for device in haulage.devices()] == ["null:0", "null:1"]
    assert str(cuda.get_current_device()) == "null:0"
    array = cuda.to_device(np.ones(100, np.float32))
    assert str(array.device) == "null:0"
    with haulage.use("null:1"):
        other, stream = cuda.device_array((3, 4)), cuda.stream()
        other.copy_to_host(stream=stream)
        stream.synchronize()
        assert str(other.device) == "null:1"
        assert cuda.current_context() is other.device.primary_context
        assert cuda.current_context() is not array.device.primary_context
        with pytest.raises(DeviceMismatch):
            array.copy_to_host(stream=stream)
    assert set(replaced.contexts) == set(haulage.devices())
    assert haulage.memory.stats("null:0").in_use == 400
    cuda.get_current_device().reset()
    with pytest.raises(ValueError, match="was given back"):
        array.copy_to_host()
    assert haulage.memory.stats("null:0").in_use == 0
    assert haulage.memory.stats("null:1").in_use == 96


def test_the_process_has_its_own_runtime_again_as_it_was(monkeypatch):
    own, devices = runtime.current, haulage.devices()
    here = cuda.get_current_device()
    array, stream = cuda.to_device(np.arange(100)), cuda.stream()
    heard: list[str] = []
    with haulage.use(here), monkeypatch.context() as within:
        within.delenv("HAULAGE_DEVICE", raising=False)
        with composition.replaced([NULLS]):
            # The `with` outside is about another runtime.
            assert str(cuda.get_current_device()) == "null:0"
            haulage.use("null:1")
            told = AfterWait(lambda *_: heard.append("inside"), ([1],))
            runtime.current.after_wait.append(told)
            runtime.current.adversary_seed = 3
            gone = cuda.to_device(np.zeros(10))
            cuda.synchronize()
            cuda.select_device(0)
            assert heard == ["inside"]
    assert runtime.current is own
    assert haulage.devices() == devices
    assert cuda.get_current_device() is here
    assert own.adversary_seed != 3
    cuda.synchronize()
    assert heard == ["inside"]
    assert np.array_equal(array.copy_to_host(stream=stream), np.arange(100))
    del gone


def test_an_error_inside_leaves_the_own_runtime_in_place():
    own = runtime.current
    with pytest.raises(KeyError), composition.replaced([NULLS]):
        raise KeyError
    assert runtime.current is own


def run(script, **environment):
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), **environment},
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_another_runtime_is_given_no_array_of_the_own_devices():
    script = """
from haulage import cuda
from haulage.backends.base import Probe
from haulage.backends.null import NullBackend
from haulage.runtime import composition
from haulage.runtime.devices.registry import Driver

def make():
    array = cuda.device_array(8)
    return str(array.device)

seen = [make() for _ in range(5)]
with composition.replaced([Driver("null", NullBackend.probe, NullBackend)]):
    seen.append(make())
seen.append(make())
print(*seen[-3:], sep=", ")
"""
    assert run(script) == "cpu:0, null:0, cpu:0\n"


def test_importing_the_rooms_subscribes_to_nothing():
    script = """
import atexit, gc, os, pkgutil, sys

registered = []

def noted(register):
    def note(*given, **named):
        caller = sys._getframe(1)
        while caller.f_globals["__name__"] == "haulage.forks":
            caller = caller.f_back
        registered.append(caller.f_globals["__name__"])
        return register(*given, **named)
    return note

atexit.register, os.register_at_fork = noted(atexit.register), noted(os.register_at_fork)
import haulage.runtime
from haulage.runtime.process import runtime
for module in pkgutil.walk_packages(haulage.runtime.__path__, "haulage.runtime."):
    __import__(module.name)
lists = [name for name, value in vars(runtime.current).items() if isinstance(value, list) and value]
lists += [gc.callbacks] * bool(gc.callbacks)
print(lists, [name for name in registered if name.startswith("haulage.runtime")])
from haulage import platforms
print([name for name in registered if name.startswith("haulage.runtime")])
print(all(getattr(runtime.current, name) for name in ("at_exit", "in_child", "at_reset")))
"""
    composed = ["haulage.runtime.composition"] * 2
    assert run(script) == f"[] []\n{composed}\nTrue\n"
