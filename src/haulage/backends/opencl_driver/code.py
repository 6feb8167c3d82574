"""Programs and kernels of OpenCL, and what they tell of themselves."""

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from haulage.backends.gpu_driver import code
from haulage.backends.gpu_driver.channel import Channels
from haulage.backends.opencl_driver import spirv
from haulage.backends.opencl_driver.calls import Calls
from haulage.backends.opencl_driver.contexts import Contexts
from haulage.backends.opencl_driver.devices import LOCAL_MEM_SIZE, MOST_THREADS, Device
from haulage.backends.opencl_driver.spirv import Parameters
from haulage.channel import CHANNEL
from haulage.errors import DeviceError, Unsupported
from haulage.interruption import on_error

_BUILD_LOG = 0x1183
_WORK_GROUP_SIZE, _LOCAL_MEM_SIZE, _PRIVATE_MEM_SIZE = 0x11B0, 0x11B2, 0x11B4
# Kernels reach memory by addresses that they compute: of the host, the device, shared, all.
_INDIRECT = (0x4200, 0x4201, 0x4202)
_ALL_OF_THE_HOST = 0x11B7
_DISPATCH, _CONCURRENT = 0x4257, 1

_INVALID_KERNEL_NAME = -46


@dataclass
class Module:
    """A program; `address` and `number` are what its kernels are told of their channel."""

    handle: int
    device: Device
    kernels: dict[str, Parameters]
    functions: dict[str, int] = field(default_factory=dict)
    address: ctypes.c_uint64 = field(default_factory=ctypes.c_uint64)
    number: ctypes.c_uint32 = field(default_factory=ctypes.c_uint32)

    @property
    def tells(self) -> bool:
        """Whether kernels of it write to the channel."""
        asked = {name for kernel in self.kernels.values() for name, _ in kernel.added}
        return not asked.isdisjoint((spirv.CHANNEL, spirv.MODULE))


@dataclass(frozen=True)
class Kernel:
    """A kernel; OpenCL keeps arguments in it, so `lock` is held from the first to the launch."""

    handle: int
    name: str
    module: Module
    parameters: Parameters
    lock: threading.Lock = field(default_factory=threading.Lock)


class Code(code.Code):
    """Programs of all devices. Safe to use from any thread."""

    _calls: Calls

    def __init__(self, calls: Calls, channels: Channels, contexts: Contexts) -> None:
        super().__init__(calls, channels, write)
        self._contexts = contexts
        self._modules: dict[int, Module] = {}
        self.kernels: dict[int, Kernel] = {}

    def load(self, code: bytes, device: int) -> int:
        """Load a SPIR-V module on `device`; see `Backend.load`."""
        known = self._contexts.of_device(device)
        try:
            kernels = spirv.kernels(code)
        except ValueError as error:
            raise DeviceError(str(error)) from None
        image = ctypes.create_string_buffer(code, len(code))
        handle = self._calls.make(
            "clCreateProgramWithIL", known.context, ctypes.addressof(image), len(code)
        )
        return self._built(Module(handle, known, kernels))

    def compile(self, text: str, kernels: dict[str, Parameters], device: int) -> int:
        """The same with a program in OpenCL C."""
        known = self._contexts.of_device(device)
        source = ctypes.c_char_p(text.encode())
        handle = self._calls.make(
            "clCreateProgramWithSource", known.context, 1, ctypes.addressof(source), None
        )
        return self._built(Module(handle, known, kernels))

    def _built(self, module: Module) -> int:
        handle, device = module.handle, module.device
        with on_error(self._calls, "clReleaseProgram", handle):
            of = ctypes.c_void_p(device.handle)
            asked = handle, 1, ctypes.addressof(of), b"", None, None
            status = self._calls.function("clBuildProgram")(*asked)
            if status:
                info = "clGetProgramBuildInfo", handle, device.handle, _BUILD_LOG
                raise self._calls.refused("clBuildProgram", status, self._calls.asked(*info))
            self._modules[handle] = module
            self._channels.connect(handle, device.number, _variables(module))
        return handle

    def _load(self, code: bytes) -> int:
        return self.load(code, self._contexts.device())

    def unload(self, module: int) -> None:
        """Give a module back."""
        known = self._modules.pop(module)
        for function in known.functions.values():
            del self.kernels[function]
            self._calls("clReleaseKernel", function)
        self._channels.disconnect(module, known.device.number)
        self._calls("clReleaseProgram", module)

    def function(self, module: int, name: str) -> int:
        """A kernel of a module."""
        known = self._modules[module]
        function = known.functions.get(name)
        if function is not None:
            return function
        parameters = known.kernels.get(name)
        if parameters is None:
            raise DeviceError(
                _INVALID_KERNEL_NAME,
                f"the module has no kernel {name}: it has {', '.join(known.kernels) or 'none'}",
            )
        handle = self._calls.make("clCreateKernel", module, name.encode())
        with on_error(self._calls, "clReleaseKernel", handle):
            self._let_reach(handle, known.device)
            if any(added == spirv.GRID_COUNTER for added, _ in parameters.added):
                self._say(handle, _DISPATCH, _CONCURRENT)
        self.kernels[handle] = Kernel(handle, name, known, parameters)
        known.functions[name] = handle
        self._calls.names.setdefault(handle, name)
        self._channels.note(module, handle)
        return handle

    def _let_reach(self, kernel: int, device: Device) -> None:
        for which in _INDIRECT + ((_ALL_OF_THE_HOST,) if device.reaches_all else ()):
            self._say(kernel, which, 1)

    def _say(self, kernel: int, what: int, value: int) -> None:
        cell = ctypes.c_uint32(value)
        self._calls("clSetKernelExecInfo", kernel, what, 4, ctypes.addressof(cell))

    def info(self, function: int) -> dict[str, int]:
        """What OpenCL tells of a kernel; it tells of no registers and no constants."""
        return {
            "max_threads": self._most_threads(function),
            "registers": 0,
            "shared_bytes": self.asked(function, _LOCAL_MEM_SIZE),
            "const_bytes": 0,
            "local_bytes": self.asked(function, _PRIVATE_MEM_SIZE),
            "binary_version": 0,
        }

    def symbol(self, module: int, name: str) -> tuple[int, int]:
        """Unsupported."""
        raise Unsupported(f"variable {name!r}: OpenCL gives no addresses of a module's variables")

    def occupancy(self, function: int, threads: int, shared_bytes: int) -> int:
        """One block, if that can be: OpenCL does not tell what a compute unit runs at one time."""
        device = self.kernels[function].module.device
        room = self._calls.number("clGetDeviceInfo", device.handle, LOCAL_MEM_SIZE)
        shared = shared_bytes + self.asked(function, _LOCAL_MEM_SIZE)
        return int(threads <= self._most_threads(function) and shared <= room)

    def _most_threads(self, function: int) -> int:
        return min(self.asked(function, _WORK_GROUP_SIZE), MOST_THREADS)

    def asked(self, function: int, what: int) -> int:
        """A figure of a kernel."""
        of = self.kernels[function].module.device.handle
        return self._calls.number("clGetKernelWorkGroupInfo", function, of, what)


def write(device: int, address: int, value: bytes) -> None:
    """What a module is told of its channel is kept by the host."""
    ctypes.memmove(address, value, len(value))


def _variables(module: Module) -> Callable[[int, str], tuple[int, int] | None]:
    """Where the channel's address and the module's number go: not to variables of the module but to
    arguments of its kernels."""

    def variable(_: int, name: str) -> tuple[int, int] | None:
        if not module.tells:
            return None
        cell = module.address if name == CHANNEL else module.number
        return ctypes.addressof(cell), ctypes.sizeof(cell)

    return variable
