"""What importing Haulage and moving memory pulls in, and the public names."""

import subprocess
import sys

import pytest

import haulage

MOVING_MEMORY = """
import sys
import numpy as np
import haulage
from haulage import cuda, roc

haulage.use("cpu")
array = cuda.to_device(np.arange(12.0).reshape(3, 4))
stream = cuda.stream()
pinned = cuda.pinned_array((3, 2))
array[:, ::2].copy_to_host(pinned, stream=stream)
stream.synchronize()
array[1:] = 7
array[0] = array[1]
event = roc.event()
event.record()
event.synchronize()
assert roc.to_device(np.ones(3)).copy_to_host().sum() == 3
assert array[2, 3] == 7 and pinned[2, 1] == 10
assert haulage.memory.stats()["cpu:0"]["device"].in_use > 0
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("code", ["import haulage", MOVING_MEMORY])
def test_moving_memory_imports_no_compiler(code):
    done = run(
        code
        + "\nimport sys\n"
        + "found = {'numba', 'llvmlite', 'cuda.bindings'} & set(sys.modules)\n"
        + "assert not found, found\n"
    )
    assert done.returncode == 0, done.stderr


def test_moving_memory_imports_no_event_loop():
    done = run(MOVING_MEMORY + "assert not {'asyncio', 'ssl', 'numpy.typing'} & set(sys.modules)")
    assert done.returncode == 0, done.stderr


def test_importing_haulage_alone_imports_not_even_numpy():
    done = run("import sys, haulage; assert 'numpy' not in sys.modules")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["haulage", "haulage.cuda", "haulage.roc", "haulage.api"])
def test_every_public_name_is_there(module):
    loaded = __import__(module, fromlist=["*"])
    missing = [name for name in loaded.__all__ if not hasattr(loaded, name)]
    assert not missing
    assert set(loaded.__all__) <= set(dir(loaded))


def test_an_unknown_name_is_an_attribute_error():
    name = "opencl"
    with pytest.raises(AttributeError, match="'haulage' has no attribute 'opencl'"):
        getattr(haulage, name)


def test_both_vocabularies_name_the_same_things():
    from haulage import cuda, roc

    for name in ("DeviceNDArray", "Stream", "Event", "device_array", "stream", "synchronize"):
        assert getattr(cuda, name) is getattr(roc, name)


def test_a_vocabulary_can_be_imported_by_its_full_name():
    done = run("import haulage.roc; print(len(haulage.roc.agents) > 0)")
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
