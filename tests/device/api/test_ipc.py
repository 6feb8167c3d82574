"""Pickled handles name `api.ipc`: a process that has imported nothing else knows devices by it."""

import pickle
import pickletools
import subprocess
import sys

import numpy as np
import pytest

from haulage import cuda
from haulage.api import ipc
from haulage.errors import Unsupported

READ = """
import pickle, sys
handle = pickle.loads(bytes.fromhex(sys.argv[1]))
assert type(handle).__name__ == sys.argv[2], handle
array = handle.open_array(None, 3, "i8") if hasattr(handle, "open_array") else handle.open()
print(array.copy_to_host().tolist())
handle.close()
"""


@pytest.fixture
def array(device):
    made = cuda.to_device(np.arange(3))
    try:
        made.get_ipc_handle()
    except Unsupported as error:
        pytest.skip(str(error))
    return made


@pytest.mark.parametrize("kind", [ipc.IpcArrayHandle, ipc.IpcHandle])
def test_a_handle_is_made_again_where_nothing_else_was_imported(array, kind):
    handle = array.get_ipc_handle()
    if kind is ipc.IpcHandle:
        handle = handle.handle
    assert type(handle) is kind
    pickled = pickle.dumps(handle)
    named = {value for _, value, _ in pickletools.genops(pickled) if isinstance(value, str)}
    assert {"haulage.api.ipc", "made_again", kind.__name__} <= named
    done = subprocess.run(
        [sys.executable, "-c", READ, pickled.hex(), kind.__name__],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 1, 2]\n", "")


def test_it_is_the_handle_that_was_pickled(array):
    handle = array.get_ipc_handle().handle
    again = ipc.made_again(*ipc._reduced(handle)[1])
    assert again == handle == pickle.loads(pickle.dumps(handle))
    assert again.base is None
