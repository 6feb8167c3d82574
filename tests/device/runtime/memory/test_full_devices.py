"""A device that is really full, with virtual memory and with segments: what makes room then."""

import gc
import threading

import numpy as np
import pytest

import haulage
from doubles.far import KIND, FarBackend, registered
from haulage import SmartArray, cuda, memory
from haulage.errors import OutOfMemory
from haulage.runtime.devices.device import Device

MEGABYTE = 1 << 20
TOTAL = 16 * MEGABYTE


class Segments(FarBackend):
    """Without virtual memory."""

    def granularity(self):
        return 0


@cuda.jit
def add(array, number):
    i = cuda.grid(1)
    if i < array.size:
        array[i] += number


DEVICES = {
    name: Device(KIND, kind(total=TOTAL), 0)
    for name, kind in {"virtual": FarBackend, "segments": Segments}.items()
}


@pytest.fixture(params=DEVICES)
def full(request):
    """A device with 16 MiB."""
    with registered(DEVICES[request.param]) as device, haulage.use(device):
        yield device
        gc.collect()
        memory.trim(device)
        assert memory.stats(device).in_use == 0
        assert device.memory_info() == (TOTAL, TOTAL)


def new(megabytes):
    return cuda.device_array(megabytes * MEGABYTE, np.uint8)


def test_smart_arrays_make_room_for_each_other_and_keep_their_values(full):
    arrays = [SmartArray(np.full(5 * MEGABYTE, n, np.uint8)) for n in range(5)]
    for _ in range(2):
        for array in arrays:
            add[5 * MEGABYTE // 256, 256](array, 1)
    for n, array in enumerate(arrays):
        assert set(np.asarray(array)) == {n + 2}
    assert sum(one.why.startswith("spilled") for a in arrays for one in a.coherence.transfers) >= 5


def test_several_small_copies_make_room_for_a_large_array(full):
    arrays = [SmartArray(np.full(MEGABYTE, n, np.uint8)) for n in range(14)]
    for array in arrays:
        add[MEGABYTE // 256, 256](array, 1)
    large = new(12)
    for n, array in enumerate(arrays):
        assert set(np.asarray(array)) == {n + 1}
    del large


def test_free_small_blocks_and_blocks_of_other_streams_become_one(full):
    streams = [cuda.stream() for _ in range(3)]
    blocks = [
        cuda.device_array(nbytes, np.uint8, stream=stream)
        for stream in streams
        for nbytes in (1000, 60_000, 3 * MEGABYTE)
        for _ in range(1 if nbytes > MEGABYTE else 10)
    ]
    for block in blocks:
        block.setitem(Ellipsis, np.uint8(1))
    blocks.clear()
    del block
    large = new(16)
    del large


def test_memory_that_a_stream_of_another_thread_uses_is_waited_for(full):
    stream, opened, got = cuda.stream(), threading.Event(), []
    array = new(10)
    full.backend.stream_callback(stream.handle, lambda: opened.wait(60))
    array.setitem(Ellipsis, np.uint8(1), stream)
    del array

    def want():
        with full:
            got.append(new(12).size)

    thread = threading.Thread(target=want)
    thread.start()
    thread.join(0.1)
    assert got == []
    opened.set()
    thread.join(20)
    assert got == [12 * MEGABYTE]


def test_the_error_tells_what_is_free_and_how_much_of_it_in_pieces(full):
    blocks = [new(1) for _ in range(16)]
    del blocks[::2]
    with pytest.raises(OutOfMemory) as raised:
        new(10)
    told = str(raised.value)
    assert "10,485,760 bytes of device memory" in told
    assert "held by others: 0" in told
    assert "8,388,608 bytes in 8 blocks" in told
    assert __file__ in told
    kept = [new(1) for _ in range(8)]
    del kept, blocks
