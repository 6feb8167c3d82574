"""Every call of the driver fails once while allocators or a plug-in give the memory."""

import io

import pytest

from device.runtime.plugins.pool_stand_ins import DeviceBuffer, LikeRMM
from doubles.injection import Injection
from doubles.programs import PROGRAMS
from doubles.watched import watched_device
from haulage import cuda
from haulage.memory import Driver, Limit, Log, Pool, Statistics, using_allocator

_NAMES = ["new_arrays", "streams", "arrays_that_go_while_streams_use_them"]
_TEXT = io.StringIO()


@pytest.fixture(scope="module", params=["cpu", "far"])
def injection(request):
    with watched_device(request.param) as device:
        yield Injection(device)


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("make", [Pool, lambda: Log(Limit(Driver(), 1 << 30), _TEXT)])
def test_any_call_may_fail_below_an_allocator(injection, name, make):
    counting = Statistics(make())

    def program(keep):
        with using_allocator(counting):
            PROGRAMS[name](keep)

    outcome = injection.run(program)
    assert outcome.tried
    assert outcome.faults == []
    assert counting.counts[:2] == (0, 0)


@pytest.mark.parametrize("name", _NAMES)
def test_any_call_may_fail_below_a_plug_in(injection, name):
    cuda.set_memory_manager(LikeRMM)
    try:
        outcome = injection.run(PROGRAMS[name])
        assert outcome.tried
        assert outcome.faults == []
        assert DeviceBuffer.pieces.held == {}
    finally:
        cuda.cudadrv.driver._memory_manager = None
        DeviceBuffer.pieces.empty()
