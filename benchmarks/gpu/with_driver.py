"""CUDA's driver itself, by cuda-bindings: the least that copies, allocations and launches cost."""

import ctypes
from functools import partial
from typing import Any

import numpy as np
from cuda.bindings import driver

_PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry of_0() { ret; }
.visible .entry of_1(.param .u64 a) { ret; }
.visible .entry of_3(.param .u64 a, .param .u64 b, .param .u64 c) { ret; }
.visible .entry of_8(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d,
                     .param .u64 e, .param .u64 f, .param .u64 g, .param .u64 h) { ret; }
\0"""


def _checked(answer: Any) -> Any:
    status, *values = answer
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the driver answered {status!r}")
    return values[0] if values else None


def about() -> str:
    """The CUDA version that the driver is for."""
    number = _checked(driver.cuDriverGetVersion())
    return f"the driver for CUDA {number // 1000}.{number % 1000 // 10}"


class _Memory:
    """Bytes on the device, given back when nobody has it any more."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.address = _checked(driver.cuMemAlloc(nbytes))

    def __del__(self) -> None:
        driver.cuMemFree(self.address)


def offers() -> dict[str, Any]:
    """See `measures`."""
    _checked(driver.cuInit(0))
    device = _checked(driver.cuDeviceGet(0))
    context = _checked(driver.cuDevicePrimaryCtxRetain(device))
    _checked(driver.cuCtxSetCurrent(context))
    kept: list[Any] = []

    def launch(count: int) -> Any:
        module = _checked(driver.cuModuleLoadData(_PTX))
        kernel = _checked(driver.cuModuleGetFunction(module, f"of_{count}".encode()))
        memory = [_Memory(256) for _ in range(count)]
        values = tuple(int(each.address) for each in memory)
        kept.append(memory)
        arguments = (values, (ctypes.c_uint64,) * count) if count else 0

        def work() -> None:
            _checked(driver.cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, 0, arguments, 0))

        return work

    def pinned(nbytes: int) -> Any:
        address = int(_checked(driver.cuMemAllocHost(nbytes)))
        return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))

    def upload(host: Any, memory: _Memory) -> None:
        _checked(driver.cuMemcpyHtoD(memory.address, host.ctypes.data, memory.nbytes))

    def download(memory: _Memory, host: Any) -> None:
        _checked(driver.cuMemcpyDtoH(host.ctypes.data, memory.address, memory.nbytes))

    def duplicate(source: _Memory, target: _Memory) -> None:
        _checked(driver.cuMemcpyDtoDAsync(target.address, source.address, source.nbytes, 0))

    return {
        "synchronize": lambda: _checked(driver.cuCtxSynchronize()),
        **{f"launch-{count}": partial(launch, count) for count in (0, 1, 3, 8)},
        "empty": _Memory,
        "pinned": pinned,
        "upload": upload,
        "download": download,
        "duplicate": duplicate,
    }
