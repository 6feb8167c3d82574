"""Starting kernels: one short call of native code for each launch.

Called from Python, a driver's function for it takes each argument apart and puts it together anew;
here a launch is a block of bytes, of which only the stream and the arguments change, and the native
code reads the rest of it. It also sees to it that the right device is current. CUDA's driver and
HIP have functions of the same form for both.
"""

import ctypes
import functools
from collections.abc import Callable
from struct import Struct
from typing import Any

from haulage.backends.cpu_driver import loader
from haulage.backends.gpu_driver.calls import NOT_PERMITTED, Calls, named_stream
from haulage.backends.gpu_driver.contexts import Contexts

Dims = tuple[int, int, int]

# Function, handle of the device, the two functions of the driver; grid, block, dynamic shared
# bytes, what ends `extra`.
_HEADER = Struct("=4Q8I")

# What `start` gives where another device is current.
_ELSEWHERE = -1

# `extra` of cuLaunchKernel: (1, address of the arguments, 2, address of their size, 0), of
# hipModuleLaunchKernel with 3 at the end. A device's handle is a pointer with the one, an int with
# the other.
_IR = """
define i32 @start(ptr %stream, ptr %launch, i64 %bytes) {
entry:
  %context.at = alloca ptr
  store ptr null, ptr %context.at
  %size.at = alloca i64
  %extra = alloca [5 x ptr]
  %expected.at = getelementptr i8, ptr %launch, i64 8
  %launch.at = getelementptr i8, ptr %launch, i64 16
  %current.at = getelementptr i8, ptr %launch, i64 24
  %get.current = load ptr, ptr %current.at, align 1
  %asked = call i32 %get.current(ptr %context.at)
  %answered = icmp eq i32 %asked, 0
  br i1 %answered, label %compare, label %failed
failed:
  ret i32 %asked
compare:
  %context = load ptr, ptr %context.at
  %expected = load ptr, ptr %expected.at, align 1
  %right = icmp eq ptr %context, %expected
  br i1 %right, label %go, label %elsewhere
elsewhere:
  ret i32 -1
go:
  %function = load ptr, ptr %launch, align 1
  %launch.kernel = load ptr, ptr %launch.at, align 1
  %end.at = getelementptr i8, ptr %launch, i64 60
  %end.number = load i32, ptr %end.at, align 1
  %end = inttoptr i32 %end.number to ptr
DIMS
  %arguments = getelementptr i8, ptr %launch, i64 64
  %size = sub i64 %bytes, 64
  store i64 %size, ptr %size.at
  %extra.1 = getelementptr ptr, ptr %extra, i64 1
  %extra.2 = getelementptr ptr, ptr %extra, i64 2
  %extra.3 = getelementptr ptr, ptr %extra, i64 3
  %extra.4 = getelementptr ptr, ptr %extra, i64 4
  store ptr inttoptr (i64 1 to ptr), ptr %extra
  store ptr %arguments, ptr %extra.1
  store ptr inttoptr (i64 2 to ptr), ptr %extra.2
  store ptr %size.at, ptr %extra.3
  store ptr %end, ptr %extra.4
  %none = icmp eq i64 %size, 0
  %passed = select i1 %none, ptr null, ptr %extra
  %status = call i32 %launch.kernel(ptr %function, i32 %dim.0, i32 %dim.1, i32 %dim.2,
    i32 %dim.3, i32 %dim.4, i32 %dim.5, i32 %dim.6, ptr %stream, ptr null, ptr %passed)
  ret i32 %status
}
"""
_DIM = """  %dim.{number}.at = getelementptr i8, ptr %launch, i64 {at}
  %dim.{number} = load i32, ptr %dim.{number}.at, align 1"""


@functools.cache
def _native() -> tuple[Any, Callable[[int, bytes, int], int]]:
    """The native code's holder, and its function; letting go of the interpreter's lock, as a queue
    that is full makes the driver wait, for callbacks too."""
    dims = "\n".join(_DIM.format(number=number, at=32 + 4 * number) for number in range(7))
    code = loader.link_ir("gpu", ["start"], _IR.replace("DIMS", dims))
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_ssize_t)
    return code, prototype(code["start"])


class Launches:
    """Starts kernels. Safe to use from any thread."""

    def __init__(
        self, calls: Calls, contexts: Contexts, name: str, functions: tuple[int, int], end: int
    ) -> None:
        """By the driver's function `name`: its address and that of the one which tells the device
        that is current, and what ends its `extra`."""
        self._calls = calls
        self._contexts = contexts
        self._name = name
        self._functions = functions
        self._end = end

    def prepare(
        self, device: int, function: int, grid: Dims, block: Dims, shared_bytes: int
    ) -> tuple[bytes, Callable[[int, bytes], None]]:
        """What begins the bytes of such a launch, and starts it: see `Backend.prepare_launch`."""
        _, native = _native()
        last, again = self._calls.last, self._again
        handle = self._contexts.of(device)
        header = _HEADER.pack(
            function, handle, *self._functions, *grid, *block, shared_bytes, self._end
        )

        def start(stream: int, launch: bytes) -> None:
            status = native(stream, launch, len(launch))
            if status:
                again(device, stream, launch, status)
            last[stream] = function

        return header, start

    def start(
        self,
        device: int,
        function: int,
        grid: Dims,
        block: Dims,
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        """Start a kernel once."""
        header, start = self.prepare(device, function, grid, block, shared_bytes)
        start(stream, header + args)

    def _again(self, device: int, stream: int, launch: bytes, status: int) -> None:
        """After a launch that did not go."""
        if self._calls.inside.callback:
            status = NOT_PERMITTED
        elif status == _ELSEWHERE:
            self._contexts.activate(device)
            status = _native()[1](stream, launch, len(launch))
        if status:
            self._contexts.check_process()
            function, _, _, _, *dims, shared_bytes, _ = _HEADER.unpack_from(launch)
            grid, block = (dims[0], dims[1], dims[2]), (dims[3], dims[4], dims[5])
            size = len(launch) - _HEADER.size
            asked = self._asked(self._name, function, grid, block, shared_bytes, stream, size)
            raise self._calls.refused(asked, status)

    def _asked(
        self,
        call: str,
        function: int,
        grid: Dims,
        block: Dims,
        shared_bytes: int,
        stream: int,
        argument_bytes: int,
    ) -> str:
        """What an error says of a launch."""
        name = self._calls.names.get(function, f"{function:#x}")
        return (
            f"{call} of {name} with {grid} blocks of {block} threads, {shared_bytes} bytes of "
            f"dynamic shared memory and {argument_bytes} bytes of arguments in "
            f"{named_stream(stream)}"
        )
