"""Pageable memory of the host on devices that take page faults, as with Linux's HMM: kernels reach
it, and the driver gives it an address for them."""

import textwrap

from support.nvidia_children import needs_compiler, run

pytestmark = needs_compiler

START = """
PAGEABLE_ACCESS = 88
double.attribute(PAGEABLE_ACCESS, 1)
import numpy as np
import haulage
from haulage import cuda

haulage.use("nvidia")
"""


def test_addresses_of_it_are_no_memory_of_the_device():
    program = """
    class Theirs:
        def __init__(self, array):
            shape, address = array.shape, array.ctypes.data
            self.__cuda_array_interface__ = dict(
                shape=shape, typestr="<f8", data=(address, False), version=3
            )

    try:
        cuda.as_cuda_array(Theirs(np.ones(4)))
    except haulage.errors.DeviceError as error:
        assert "no memory that the NVIDIA driver knows" in str(error), error
    else:
        raise AssertionError("pageable memory was taken for the device's")
    """
    run(START + textwrap.dedent(program))
