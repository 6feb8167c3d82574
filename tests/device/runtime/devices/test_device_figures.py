"""What programs ask of a device before they begin: its figures, its name, what it supports."""

import re
import subprocess
import sys

import pytest

from haulage import cuda
from haulage.cuda import cudadrv
from haulage.errors import DeviceNotFound
from haulage.runtime.context import Context

pytestmark = pytest.mark.usefixtures("device")


def test_the_uuid_is_the_same_in_another_process(device):
    assert re.fullmatch(r"[A-Z]+(-[0-9a-f]+){5}", device.uuid)
    program = "from haulage import cuda; print(cuda.get_current_device().uuid)"
    command = [sys.executable, "-c", f"import haulage; haulage.use({str(device)!r}); {program}"]
    assert subprocess.check_output(command, text=True).strip() == device.uuid


def test_a_device_is_found_again_by_its_identity(device):
    identity = device.get_device_identity()
    assert type(device).from_identity(identity) is device
    with pytest.raises(DeviceNotFound, match=f"not visible here; present: .*{device}"):
        type(device).from_identity({**identity, "uuid": "another"})


def test_the_context_of_a_device_is_the_current_one(device):
    assert device.get_primary_context() == cuda.current_context() == Context(device)
    assert cuda.current_context().device is device


def test_memory_is_the_hosts_where_the_figures_say_so(device):
    assert device.properties.host_memory_is_device_memory == device.INTEGRATED
    assert device.CAN_MAP_HOST_MEMORY == 1
    assert device.UNIFIED_ADDRESSING == 1


def test_a_device_lists_its_figures_and_refuses_others(device):
    names = [name for name in dir(device) if name.isupper()]
    assert {"WARP_SIZE", "INTEGRATED"} <= set(names)
    assert all(isinstance(getattr(device, name), int) for name in names)
    name = "MAX_TEA_PER_CUP"
    with pytest.raises(AttributeError, match=f"{device} has no attribute '{name}'"):
        getattr(device, name)
    assert not hasattr(device, "max_tea_per_cup")


def test_what_is_supported_is_what_the_device_says(device):
    assert cuda.is_float16_supported() is device.supports_float16
    assert cuda.is_bfloat16_supported() is device.supports_bfloat16
    assert cuda.is_fp8_supported() is device.supports_fp8


def test_the_runtime_has_a_version(device):
    version = cuda.runtime.get_version()
    assert version == device.properties.runtime == cudadrv.runtime.get_version()
    assert version >= (11, 0)
    assert cuda.is_supported_version()
    assert repr(cuda.runtime) == f"<runtime {version[0]}.{version[1]} of {device}>"


def test_a_function_that_requires_a_context_is_called_as_it_is():
    @cuda.require_context
    def total(a, *rest, scale=1):
        """Adds."""
        return scale * sum((a, *rest))

    assert total(1, 2, 3, scale=10) == 60
    assert (total.__name__, total.__doc__) == ("total", "Adds.")


def test_modules_are_found_from_the_vocabulary_without_importing_them():
    assert cuda.cudadrv.devicearray is cuda.devicearray
    assert cuda.devicearray.DeviceNDArray is cuda.DeviceNDArray
    assert cuda.devices.get_context() == cuda.current_context()
    assert cuda.driver.Stream is cuda.Stream
    assert cuda.cudadrv.error.CudaSupportError is cuda.CudaSupportError


def test_rocs_modules_are_found_from_the_vocabulary_as_well():
    program = (
        "from haulage import roc; d = roc.hsadrv.devicearray.DeviceNDArray; "
        "print(d is roc.DeviceNDArray, roc.hsadrv.driver.Stream is roc.Stream)"
    )
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert printed.strip() == "True True"
