"""Handles of CUDA's driver for memory of other processes; the driver is `doubles.libcuda`."""

import ast

import pytest
from nvidia_children import needs_compiler, run, running

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
