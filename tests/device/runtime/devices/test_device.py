"""Finding and choosing devices."""

import asyncio
import threading

import pytest

import haulage
from haulage import cuda
from haulage.errors import DeviceMismatch, DeviceNotFound
from haulage.runtime.devices import registry
from haulage.runtime.process import runtime


def test_a_device_says_what_it_is(device):
    assert str(device) == f"{device.kind}:{device.id}"
    assert device.kind in ("cpu", "nvidia", "amd", "opencl")
    assert device.name == device.properties.name
    assert device.name
    assert device.properties.multiprocessors == device.MULTIPROCESSOR_COUNT
    assert device.MULTIPROCESSOR_COUNT >= 1
    assert device.MAX_THREADS_PER_BLOCK >= 256
    assert device.properties.max_block[0] == device.MAX_BLOCK_DIM_X
    assert len(device.compute_capability) == 2
    # How many streams of copies programs make, some say.
    assert device.ASYNC_ENGINE_COUNT >= 1
    free, total = device.memory_info()
    assert 0 < free <= total
    name = "FLUX"
    with pytest.raises(AttributeError, match="no attribute 'FLUX'"):
        getattr(device, name)


def test_there_is_one_object_for_each_device(device):
    assert device in haulage.devices()
    assert cuda.get_current_device() is device
    assert cuda.gpus.current is device
    assert cuda.gpus[device.id] is device
    assert len(cuda.gpus) == len(list(cuda.gpus)) == len(cuda.gpus.lst)


def test_use_chooses_for_the_process_and_with_for_the_context(no_choice, two_nulls):
    chosen = haulage.use("null:1")
    assert str(chosen.device) == "null:1"
    assert str(cuda.get_current_device()) == "null:1"
    with haulage.use("cpu") as inner:
        assert cuda.get_current_device() is inner
        with haulage.use("null"):
            assert str(cuda.get_current_device()) == "null:0"
        in_thread = []
        thread = threading.Thread(target=lambda: in_thread.append(cuda.get_current_device()))
        thread.start()
        thread.join()
        assert str(in_thread[0]) == "null:1"
    assert str(cuda.get_current_device()) == "null:1"


def test_with_use_holds_in_one_task_only(no_choice, two_nulls):
    async def hold(choice, mine, other):
        with haulage.use(choice):
            mine.set()
            await other.wait()
            return str(cuda.get_current_device())

    async def both():
        one, two = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(hold("null:0", one, two), hold("null:1", two, one))

    assert asyncio.run(both()) == ["null:0", "null:1"]


def test_select_device_chooses_for_a_thread_until_a_later_choice(no_choice, two_nulls):
    seen = []

    def select():
        haulage.use("null:0")
        cuda.select_device(1)
        seen.append((str(cuda.get_current_device()), registry.why_current()))
        with haulage.use("null:0"):
            cuda.select_device(1)
            seen.append((str(cuda.get_current_device()), ""))
        with haulage.use("cpu"):
            seen.append((str(cuda.get_current_device()), ""))
        haulage.use("null:0")
        seen.append((str(cuda.get_current_device()), registry.why_current()))
        cuda.select_device(1)

    thread = threading.Thread(target=select)
    thread.start()
    thread.join()
    assert seen == [
        ("null:1", "chosen by select_device(...)"),
        ("null:1", ""),
        ("cpu:0", ""),
        ("null:0", "chosen by haulage.use(...)"),
    ]
    assert str(cuda.get_current_device()) == "null:0"


def test_the_environment_chooses_where_the_program_does_not(no_choice, two_nulls, monkeypatch):
    monkeypatch.setenv("HAULAGE_DEVICE", "null:1")
    assert str(cuda.get_current_device()) == "null:1"
    assert registry.why_current() == "chosen by HAULAGE_DEVICE=null:1"
    with haulage.use("null:0"):
        assert str(cuda.get_current_device()) == "null:0"


def test_the_best_device_present_is_taken_otherwise(no_choice):
    assert cuda.get_current_device() is haulage.devices()[0]


@pytest.mark.parametrize("name", ["nvidia", "amd"])
def test_a_choice_that_cannot_be_met_says_what_was_tried(name):
    if any(device.kind == name for device in haulage.devices()):
        pytest.skip(f"this machine has {name} devices")
    with pytest.raises(DeviceNotFound, match=rf"device '{name}:0': not found; looked for .+: .+"):
        haulage.use(f"{name}:0")


def test_an_environment_that_cannot_be_met_never_falls_back(no_choice, monkeypatch):
    monkeypatch.setenv("HAULAGE_DEVICE", "cpu:7")
    with pytest.raises(DeviceNotFound, match="HAULAGE_DEVICE 'cpu:7': the cpu driver has 1 device"):
        cuda.device_array(3)
    assert not cuda.is_available()


@pytest.mark.parametrize("name", ["gpu", "cpu:x", "cpu:", "", "cpu:0:0", "cpu:-1"])
def test_an_unknown_device_is_an_error_that_names_the_known(name):
    with pytest.raises(DeviceNotFound, match="nvidia, amd, opencl, cpu"):
        haulage.use(name)


def test_a_device_that_is_no_name_is_a_type_error():
    with pytest.raises(TypeError, match="expected a name"):
        haulage.use(0)


def test_a_failed_choice_changes_nothing(no_choice):
    before = cuda.get_current_device()
    with pytest.raises(DeviceNotFound):
        haulage.use("cpu:99")
    assert cuda.get_current_device() is before


@cuda.jit
def one_to_other(x, y):
    y[0] = x[0]


def test_things_of_two_devices_do_not_mix(two_nulls):
    with haulage.use("null:0"):
        array = cuda.device_array(4)
        stream = cuda.stream()
    with haulage.use("null:1"):
        other = cuda.device_array(4)
        mark = cuda.event()
    with pytest.raises(DeviceMismatch, match=r"null:0.*null:1"):
        other.copy_to_host(stream=stream)
    with pytest.raises(DeviceMismatch, match=r"null:0.*null:1.*enable_peer_access"):
        one_to_other[1, 1](array, other)
    with pytest.raises(DeviceMismatch, match=r"null:0.*null:1"):
        mark.record(stream)


def test_a_new_array_goes_to_the_device_of_its_stream(two_nulls):
    with haulage.use("null:1"):
        stream = cuda.stream()
    assert cuda.device_array(4, stream=stream).device is stream.device


def test_roc_takes_its_device_as_context(two_nulls):
    from haulage import roc

    assert str(roc.to_device([1.0], context="null:1", copy=False).device) == "null:1"
    with haulage.use("null:1"):
        context = roc.current_context()
    with haulage.use("null:0"):
        assert roc.to_device([1.0], context=context, copy=False).device is context.device
    assert roc.to_device([1.0], None, roc.agents[0]).device is roc.agents[0]


def test_the_environments_choice_is_followed_at_once_and_looked_up_once(
    no_choice, two_nulls, monkeypatch
):
    for choice, number in (("null:1", 1), ("null", 0), (" NULL:1 ", 1)):
        monkeypatch.setenv("HAULAGE_DEVICE", choice)
        chosen = registry.current_device()
        assert (chosen.kind, chosen.id) == ("null", number)
    with monkeypatch.context() as within:
        within.setattr(registry, "find", None)  # the next launch does without it
        assert registry.current_device() is chosen
    # Devices that were looked for anew are others.
    registry.register(runtime.current.drivers["null"])
    assert registry.current_device() is registry.devices_of("null")[1]
    assert registry.current_device() is not chosen
    monkeypatch.setenv("HAULAGE_DEVICE", "null:7")
    with pytest.raises(DeviceNotFound, match="null:7"):
        registry.current_device()
