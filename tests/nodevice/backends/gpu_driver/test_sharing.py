"""Handles of CUDA's driver for memory of other processes; the driver is `doubles.libcuda`."""

import ast

import pytest

from support.nvidia_children import needs_compiler, run, running

pytestmark = needs_compiler

# No memory behind reserved addresses, which has no handle of the driver.
DRIVERS = {"HAULAGE_MEMORY": "driver", "HAULAGE_DEVICE": "nvidia"}

EXPORTING = """
import pickle
import numpy as np
from haulage import cuda

arrays = [cuda.to_device(np.full({elements}, number)) for number in range(3)]
given = pickle.dumps([array.get_ipc_handle() for array in arrays])
print([given], flush=True)
input()
# A process opens what is its own, too.
with pickle.loads(given)[1] as first, pickle.loads(given)[1] as second:
    assert first[3] == second[3] == 1
"""

OPENING = """
import pickle
import haulage
from haulage import cuda
given = {given!r}
handles = [pickle.loads(given) for _ in range(2)]
opened = [[handle.open() for handle in each] for each in handles]
for handle in handles[0]:
    handle.close()
assert [array[3] for array in opened[1]] == [0, 1, 2]
for handle in reversed(handles[1]):
    handle.close()
assert not haulage.devices()[0].backend._sharing._opened
assert double.calls("cuIpcOpenMemHandle") == double.calls("cuIpcCloseMemHandle") > 0
with pickle.loads(given)[2] as array:
    print(array[3])
"""


@pytest.mark.parametrize("elements", [4, 1 << 19])
def test_handles_are_opened_more_than_once(elements):
    with running(EXPORTING.format(elements=elements), **DRIVERS) as exporting:
        (given,) = ast.literal_eval(exporting.stdout.readline())
        assert run(OPENING.format(given=given), **DRIVERS).split() == ["2"]
        said, errors = exporting.communicate("\n", timeout=120)
    assert (exporting.returncode, said, errors) == (0, "", "")


OF_ANOTHER_LIBRARY = """
import pickle
import numpy as np
from cuda.bindings import driver
from haulage import cuda

class Theirs:
    def __init__(self, address, shape):
        self.__cuda_array_interface__ = dict(
            version=3, shape=shape, typestr="<f8", data=(address, False), strides=None, stream=None
        )

cuda.current_context().device.activate()
_, address = driver.cuMemAlloc(1024)
theirs = cuda.as_cuda_array(Theirs(int(address) + 256, (4, 8)))
theirs.copy_to_device(np.arange(32.0).reshape(4, 8))
ours = cuda.to_device(np.arange(4.0) + 100)
arrays = [theirs, theirs[1:3], cuda.as_cuda_array(ours)[1:]]
arrays.append(cuda.as_cuda_array(Theirs(ours.device_pointer, (4,)))[2:])
print([pickle.dumps([array.get_ipc_handle() for array in arrays])], flush=True)
input()
assert theirs[0].copy_to_host()[0] == 24
"""

OPENING_OF_ANOTHER_LIBRARY = """
import pickle
from haulage import cuda
whole, part, *ours = pickle.loads({given!r})
with whole as array, part as some:
    assert array[3].copy_to_host().tolist() == list(range(24, 32))
    assert some.copy_to_host().tolist() == [list(range(8, 16)), list(range(16, 24))]
    array[0].copy_to_device(array[3])
    cuda.synchronize()
print([handle.open().copy_to_host().tolist() for handle in ours])
"""


def test_memory_of_other_libraries_has_handles_of_the_driver():
    device = {"HAULAGE_DEVICE": "nvidia"}
    with running(OF_ANOTHER_LIBRARY, **device) as exporting:
        (given,) = ast.literal_eval(exporting.stdout.readline())
        said = run(OPENING_OF_ANOTHER_LIBRARY.format(given=given), **device)
        assert said.strip() == "[[101.0, 102.0, 103.0], [102.0, 103.0]]"
        said, errors = exporting.communicate("\n", timeout=120)
    assert (exporting.returncode, said, errors) == (0, "", "")


NO_HANDLE = """
import numpy as np
from cuda.bindings import driver
from haulage import cuda

class Theirs:
    def __init__(self, address):
        self.__cuda_array_interface__ = dict(
            version=3, shape=(4,), typestr="<f8", data=(address, False), strides=None, stream=None
        )

cuda.current_context().device.activate()
pinned = cuda.as_cuda_array(Theirs(int(driver.cuMemHostAlloc(64, 2)[1])))
own = cuda.as_cuda_array(Theirs(int(driver.cuMemAlloc(64)[1])))
for array, function, failure in (
    (pinned, "cuIpcGetMemHandle", 1),
    (own, "cuIpcGetMemHandle", 400),
    (own, "cuMemGetAddressRange", 500),
    (own, "cuMemGetAddressRange", 2),
):
    if array is own:
        double.fail(function, failure)
    try:
        array.get_ipc_handle()
    except Exception as error:
        print(type(error).__name__, "copy the array with to_device first" in str(error))
"""


def test_memory_that_the_driver_has_no_handle_for_is_told():
    said = run(NO_HANDLE, HAULAGE_DEVICE="nvidia").split()
    assert said == ["ValueError", "True"] * 3 + ["OutOfMemory", "False"]


EXPORTING_A_PIECE = """
import pickle
import numpy as np
from haulage import cuda

array = cuda.to_device(np.arange(8))
print([pickle.dumps(array.get_ipc_handle().handle)], flush=True)
input()
"""

OPENING_CHANGED = """
import pickle
from haulage import cuda
from haulage.errors import HaulageError

given = pickle.loads({given!r})

def told(handle=given.handle, size=given.size, offset=given.offset):
    try:
        cuda.IpcHandle(None, handle, size, given.device, offset).open()
    except (HaulageError, ValueError) as error:
        return str(error)
    return "opened"

bit = lambda at: bytes(each ^ (at // 8 == k) << at % 8 for k, each in enumerate(given.handle))
# Of the bytes, from where they are said in a handle of Haulage's own; the driver's have none.
for at in range(320, 384) if given.handle.startswith(b"Haul") else ():
    assert "it was changed on its way" in told(bit(at)), at
for number in range(64):
    assert ": the memory that was exported has 64" in told(size=given.size + (1 << number)), number
    assert ": the memory that was exported has 64" in told(offset=1 << number), number
print(told())
"""


@pytest.mark.parametrize("memory", ["pool", "driver"])
def test_changed_handles_are_refused(memory):
    settings = {"HAULAGE_MEMORY": memory, "HAULAGE_DEVICE": "nvidia"}
    with running(EXPORTING_A_PIECE, **settings) as exporting:
        (given,) = ast.literal_eval(exporting.stdout.readline())
        assert run(OPENING_CHANGED.format(given=given), **settings).split() == ["opened"]
        exporting.communicate("\n", timeout=120)
    assert exporting.returncode == 0
