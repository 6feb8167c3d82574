"""`haulage.memory.limit`: how much memory there may be."""

import numpy as np
import pytest

from haulage import cuda, memory

pytestmark = pytest.mark.usefixtures("device")


def test_beyond_a_limit_there_is_no_room(device):
    held = memory.stats(device).in_use
    memory.limit(held + 10_000, device)
    try:
        fits = cuda.device_array(8000, np.uint8)
        with pytest.raises(MemoryError, match=r"limit\(\)"):
            cuda.device_array(4000, np.uint8)
        fits.close()
        cuda.device_array(8000, np.uint8)
    finally:
        memory.limit(None, device)
    cuda.device_array(20_000, np.uint8)


@pytest.mark.parametrize("nbytes", [-1, 1.5, "1 GB", True])
def test_limit_refuses_what_is_no_number_of_bytes(nbytes):
    with pytest.raises((TypeError, ValueError), match="limit"):
        memory.limit(nbytes)
    cuda.device_array(10)


def test_limit_takes_its_bytes_by_name(device):
    memory.limit(bytes=memory.stats(device).in_use + 10, device=device)
    try:
        with pytest.raises(MemoryError, match=r"limit\(\)"):
            cuda.device_array(4000, np.uint8)
    finally:
        memory.limit(bytes=None, device=device)
    cuda.device_array(4000, np.uint8)


def test_a_callback_can_make_room(device):
    keep = [cuda.device_array(10_000, np.uint8)]
    asked = []

    def drop(where, nbytes):
        asked.append((where, nbytes))
        return bool(keep and keep.pop())

    memory.limit(memory.stats(device).in_use + 5000, device)
    try:
        with memory.on_out_of_memory(drop):
            made = cuda.device_array(9000, np.uint8)
        assert asked == [(device, 9000)]
        with pytest.raises(MemoryError):
            cuda.device_array(90_000, np.uint8)
        assert len(asked) == 1
    finally:
        memory.limit(None, device)
    del made
