"""Blocks of memory: closed, freed and used again."""

import numpy as np
import pytest

from haulage import cuda, memory
from haulage.runtime.process import runtime

pytestmark = pytest.mark.usefixtures("device")


def line_of_next_call():
    """The line number after the one that calls this."""
    import sys

    return sys._getframe(1).f_lineno + 1


def test_freed_memory_is_used_again_at_once(device):
    if runtime.current.adversary_seed is not None:
        pytest.skip("the adversarial mode takes all memory from the driver")
    for stream in (0, cuda.stream()):
        first = cuda.device_array(1000, stream=stream)
        address = first.device_pointer
        del first
        assert cuda.device_array(1000, stream=stream).device_pointer == address


def test_a_closed_array_says_where_it_was_closed():
    array = cuda.to_device(np.arange(4.0))
    view = array[1:]
    line = line_of_next_call()
    array.close()
    array.close()
    for use in (array.copy_to_host, view.copy_to_host, lambda: cuda.to_device(view)):
        with pytest.raises(ValueError, match=f"close.. at .*test_block.py:{line} in "):
            use()


def test_with_frees_at_its_end(device):
    before = memory.stats(device).in_use
    with cuda.to_device(np.arange(1000.0)) as array:
        assert memory.stats(device).in_use == before + 8000
    assert memory.stats(device).in_use == before
    with pytest.raises(ValueError, match="given back"):
        array.copy_to_host()
