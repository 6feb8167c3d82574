"""How other libraries get at a device array: DLPack and the CUDA array interface."""

from typing import Any

import numpy as np

from haulage.checks import flag
from haulage.runtime import memory
from haulage.runtime.arrays.copying import DeviceNDArrayBase
from haulage.runtime.devices import ordering
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream, recording_handle
from haulage.runtime.geometry import layout
from haulage.runtime.protocols import dlpack
from haulage.runtime.protocols.cuda_array_interface import number_of, stream_numbered

# DLPack's number for a consumer that wants no waiting.
_NO_ORDER = -1


class Exchange(DeviceNDArrayBase):
    """A device array that other libraries can use where it is."""

    __slots__ = ()

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's type and number of the device: kDLCPU 1, kDLCUDA 2 or kDLROCM 10."""
        return dlpack.place_of(self.device)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule over the elements, after the array API standard.

        On the CPU it waits for the work that uses the array. The memory lives as long as the
        consumer holds it, also if the array is closed.

        Args:
            stream: GPUs: the consumer's stream, whose later work then waits for the array's; -1: no
                waiting. The CPU has none: None.
            max_version: the newest DLPack that the consumer takes; None: one before 1.0.
            dl_device: where it is wanted: the array's device, or (1, 0) for the host. Memory of the
                host that a GPU reaches can be asked for as that, too: kDLCUDAHost 3, kDLROCMHost 11
                or kDLCUDAManaged 13, with the number of the device.
            copy: True always copies, False never.

        Raises:
            BufferError: DLPack cannot describe the array, or it is wanted elsewhere.
            KernelError: threads of a kernel that was waited for had failed.
            ValueError: the array is closed, or there is no such stream.
        """
        self.block.use()
        own = dlpack.place_of(self.device)
        place = own if dl_device is None else dlpack.pair(dl_device, "dl_device")
        versioned = max_version is not None and dlpack.pair(max_version, "max_version")[0] >= 1
        copy = None if copy is None else flag(copy, "copy")
        dlpack.check_dtype(self.dtype)
        if dlpack.is_called(self, place):
            consumer = _consumer_stream(self.device, stream)
            if copy:
                return dlpack.export(self._copied(), place, versioned, True)
            dlpack.check_export(self, versioned)
            held = self._note_export()
            self._settle(consumer)
            return dlpack.export(self, place, versioned, False, held)
        if place != dlpack.HOST:
            raise BufferError(
                f"{self!r} was asked for on {dlpack.describe(place)}: expected "
                f"{dlpack.describe(own)} or, as a copy, {dlpack.describe(dlpack.HOST)}"
            )
        if copy is False:
            raise BufferError(f"{self!r} cannot be given to the host without a copy")
        if stream is not None:
            raise ValueError(f"stream {stream!r}: for a tensor on the host expected None")
        self._settle(self.device.default_stream)
        return dlpack.export_host(self.copy_to_host(), versioned)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface, version 3; on NVIDIA's devices only.

        Its stream is the one that the array is bound to. Of an array that is bound to none it is
        the default stream as long as there is work that uses the array, and then None.
        """
        if not self.device.protocols.cuda:
            raise AttributeError(
                f"{self!r} has no __cuda_array_interface__, which is for NVIDIA's devices; "
                "DLPack works on all"
            )
        self.block.use()
        # Who is given the description holds this array.
        self._note_export(kept=True)
        stream = self._stream(0)
        described = {
            "version": 3,
            "shape": self.shape,
            "strides": None if self.is_c_contiguous() else self.strides,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "data": (self.device_pointer if self.size else 0, self.readonly),
            "stream": number_of(stream) if self.stream or not self._is_settled() else None,
        }
        self._settle(stream)
        return described

    @property
    def _numba_type_(self) -> Any:
        """What `numba.typeof` gives for it: the type that it has as an argument of a kernel."""
        from haulage import numba_bridge  # lazily: it imports Numba

        return numba_bridge.numba_type(self._code_key)

    def _host_elements(self) -> np.ndarray:
        """The elements as a NumPy array without gaps for pickling: where the device's memory is the
        host's that memory itself, once the work that uses it is done; else a copy.

        It cannot be changed where it is the memory itself, which it keeps alive. Elements that
        Python's buffer protocol has no words for are given as bytes.

        Raises:
            KernelError: threads of a kernel that was waited for had failed.
            ValueError: the array is closed.
        """
        self.block.use()
        on_host = self.device.properties.host_memory_is_device_memory
        if on_host and self.nbytes and self.is_c_contiguous():
            held = self._note_export(readonly=True)
            self._settle(self.device.default_stream)
            host = dlpack.seen_by_host(self, held)
        else:
            host = self.copy_to_host()
        is_raw = self.dtype.kind in "mM" or self.dtype.names is not None
        return host.view(f"V{self.dtype.itemsize}") if is_raw and self.nbytes else host

    def _note_export(self, kept: bool = False, readonly: bool | None = None) -> object:
        """What another library is to hold besides the block, see `Block.note_export`."""
        readonly = self.readonly if readonly is None else readonly
        low, high = layout.extent(self.shape, self.strides, self.dtype.itemsize)
        start = self.device_pointer - self.block.device_ptr
        return self.block.note_export(start + low, start + high, readonly, kept)

    def _users(self) -> tuple[Stream, ...]:
        return self.block.users()

    def _is_settled(self) -> bool:
        return all(stream.idle() for stream in self._users())

    def _settle(self, consumer: Stream | None) -> None:
        """See to it that work which uses the array is done before work of the consumer's.

        The consumer is the host where the device's memory is the host's. None: it needs nothing.
        """
        if consumer is None:
            return
        on_host = self.device.properties.host_memory_is_device_memory
        for stream in self._users():
            if on_host:
                stream.finish()
            elif stream.device is not self.device:
                ordering.after(consumer, stream)
            elif recording_handle(stream) != consumer.handle and not stream.idle():
                ordering.order(self.device, consumer.handle, recording_handle(stream))

    def _copied(self) -> "Exchange":
        """A new array with the same elements, without gaps; they are there when this returns."""
        self._settle(self.device.default_stream)
        strides = layout.dense_strides(self.shape, self.strides, self.dtype.itemsize)
        low, high = layout.extent(self.shape, strides, self.dtype.itemsize)
        block = memory.allocate(self.device, high - low)
        kind = type(self)
        made = kind.__new__(kind)
        made._set(block, block.device_ptr, self.shape, strides, self.dtype, 0, False)
        made._write_device(self, self.shape, strides, self.strides, self.device.default_stream)
        return made


def _consumer_stream(device: Device, number: int | None) -> Stream | None:
    """The stream that a consumer names, by DLPack's numbers; None if it wants no waiting."""
    if device.properties.host_memory_is_device_memory:
        if number is not None:
            raise ValueError(f"stream {number!r}: {device} has none for DLPack, expected None")
        return device.default_stream
    return None if number == _NO_ORDER else stream_numbered(device, number)
