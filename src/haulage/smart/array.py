"""The class of SmartArrays: what they stand on, and where they are."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, SupportsIndex, overload

import numpy as np

from haulage.errors import CaptureError
from haulage.platforms import PLATFORMS
from haulage.runtime.arrays import layout, transfer
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.coherence import HOST, Coherence, Mode, Place
from haulage.runtime.device import Device, current_device, find
from haulage.runtime.memory import Block
from haulage.runtime.stream import Stream
from haulage.smart.numpy_like import NumpyLike

# Names for the current device, whatever its kind.
_GPU = ("gpu", "cuda", "device")


class SmartArray(NumpyLike):
    """An array with a copy on the host and on each device that has used it.

    A kernel to which it is given finds it on its device and counts as having changed it; the result
    stays there, and comes to the host when someone looks: by `get`, by an index or by NumPy. Reads
    through these need no call of `mark_changed`, nor do writes through the array itself, such as
    `a[...] = values`, `a += 1`, `a.sort()` and `np.add(x, y, out=a)`; writing to what `get`
    returned does.

    It takes the place of a NumPy array: operators, NumPy's functions and ufuncs, and the methods of
    arrays work on the host's elements and give NumPy arrays and scalars. Functions that Numba
    compiles for the host (`numba.njit`, `jit`, `vectorize`) take it as an array too; the host then
    counts as having been changed.

    Unlike a NumPy array:
        - views, such as `a[2:4]`, `a.T` and `a.reshape(...)`, are NumPy arrays that are read-only,
          so that `a[2:4] += 1` is an error; write `a[2:4] = a[2:4] + 1`. They show the elements as
          they were when they were made, or later ones. `a.flags` cannot be set either;
        - `repr(a)` says where the array is and moves nothing; `str(a)` shows the elements;
        - `a.copy()` is a NumPy array, `copy.copy(a)` a SmartArray;
        - it gives no address: `ctypes`, `data`, `base`, the buffer protocol and DLPack are those
          of what `get` returns. Nor can its memory be changed: `resize`, `setflags`;
        - what a function of Numba's returns or keeps of it, in a list for instance, is the host's
          array, as from `get`. A function with declared signatures does not take it: give it
          `a.get()`, and call `a.mark_changed()` if it writes. One that only reads is best given
          `np.asarray(a)`, which leaves the copies on devices current.

    Args:
        obj: an array or what `np.asarray` takes; or None, and a new array is made, whose elements
            are not initialised.
        copy: False stands on the memory of `obj` itself, a NumPy array or a SmartArray. Whoever
            else writes to that memory has to call `mark_changed`.
        shape: of a new array: a number or a tuple of numbers.
        dtype: of a new array (None: float64); with `obj`, the dtype to convert to.
        order: 'C' or 'F'; None: the order of `obj`, 'C' for a new array.
        where: where it is current at first; as for `get`.

    Raises:
        TypeError: neither `obj` nor `shape` is given, or both are; elements are Python objects.
        ValueError: `where` or `order` is unknown; with `copy=False`, `obj` would have to be copied.
        DeviceNotFound: `where` names a device that is not there.

    Attributes:
        shape, dtype, strides: as NumPy's. The elements lie without gaps in every place.
        coherence: which copies are current, and its last transfers with their causes.
    """

    __slots__ = (
        "__weakref__",
        "_aligned",
        "_dtype",
        "_shape",
        "_strides",
        "_typed",
        "coherence",
    )

    def __init__(
        self,
        obj: Any = None,
        copy: bool = True,
        shape: SupportsIndex | Sequence[SupportsIndex] | None = None,
        dtype: Any = None,
        order: str | None = None,
        where: str | Device = HOST,
    ) -> None:
        place = _place(where)
        if order not in (None, "C", "F"):
            raise ValueError(f"SmartArray: order {order!r}: expected 'C', 'F' or None")
        if (obj is None) == (shape is None):
            given = "neither" if obj is None else "both"
            raise TypeError(
                f"SmartArray: expected either an array or a shape, got {given}; "
                "write SmartArray(array) or SmartArray(shape=..., dtype=...)"
            )
        self._aligned = True
        self._typed: Any = None
        if shape is not None:
            self._set(layout.normalise_shape(shape), transfer.check_dtype(dtype), order or "C")
            self.coherence = Coherence(self.nbytes, self._name())
        elif copy:
            self._copy(obj, dtype, order)
        else:
            self._adopt(obj, dtype, order)
        if place == HOST:
            self.coherence.acquire_host("r", "SmartArray(where='host')")
        else:
            self._device_array(place, "r", place.default_stream, f"SmartArray(where={where!r})")

    # ---- what it stands on ------------------------------------------------------------------

    def _set(
        self, shape: tuple[int, ...], dtype: np.dtype, order: str | None, like: Any = None
    ) -> None:
        self._shape = shape
        self._dtype = dtype
        if order is None:
            self._strides = layout.dense_strides(shape, like, dtype.itemsize)
        else:
            self._strides = layout.order_strides(shape, dtype.itemsize, order)

    def _copy(self, obj: Any, dtype: Any, order: str | None) -> None:
        source = np.asarray(obj)
        kind = transfer.check_dtype(source.dtype if dtype is None else dtype)
        self._set(source.shape, kind, order, source.strides)
        flat = np.empty(self.nbytes, np.uint8)
        self._array(flat)[...] = source
        self.coherence = Coherence(self.nbytes, self._name(), flat)

    def _adopt(self, obj: Any, dtype: Any, order: str | None) -> None:
        if not isinstance(obj, np.ndarray | SmartArray):
            raise ValueError(
                f"SmartArray(copy=False) of a {type(obj).__name__}: only the memory of a NumPy "
                "array or a SmartArray can be used in place; leave copy=False out"
            )
        kind = transfer.check_dtype(obj.dtype if dtype is None else dtype)
        ordered = order is None or obj.strides == layout.order_strides(
            obj.shape, obj.dtype.itemsize, order
        )
        if kind != obj.dtype or not ordered:
            raise ValueError(
                f"SmartArray(copy=False) cannot make dtype {kind}, order {order!r} of an array of "
                f"dtype {obj.dtype} with strides {obj.strides}; leave copy=False out"
            )
        if isinstance(obj, SmartArray):
            self._shape, self._dtype, self._strides = obj.shape, obj.dtype, obj.strides
            self._aligned, self.coherence = obj._aligned, obj.coherence
            return
        flags = obj.flags
        if not flags.writeable or not (flags.c_contiguous or flags.f_contiguous):
            what = "has gaps" if flags.writeable else "is read-only"
            raise ValueError(
                f"SmartArray(copy=False): the array {what}, so that results cannot come back to "
                "it; leave copy=False out"
            )
        self._set(obj.shape, kind, "C" if flags.c_contiguous else "F")
        self._aligned = flags.aligned
        self.coherence = Coherence(self.nbytes, self._name(), _bytes_of(obj))

    def _name(self) -> str:
        return f"SmartArray {self.shape} {self.dtype}"

    def _array(self, room: np.ndarray) -> np.ndarray:
        return np.ndarray(self._shape, self._dtype, buffer=room, strides=self._strides)

    def _look(self, why: str) -> np.ndarray:
        flat = self.coherence.acquire_host("r", why)
        # Not by a flag, which whoever has the view could set again.
        return self._array(np.frombuffer(flat.data.toreadonly(), np.uint8))

    @contextmanager
    def _writing(self, why: str, whole: bool = False) -> Iterator[np.ndarray]:
        coherence = self.coherence
        # What is overwritten as a whole need not come to the host before. Should that fail in its
        # midst, the host's copy is out of date as before.
        mode: Mode = "w" if whole and not coherence.is_current(HOST) else "rw"
        array = self._array(coherence.acquire_host(mode, why))
        try:
            yield array
        except BaseException:
            if mode == "rw":
                coherence.release(HOST, mode)
            raise
        coherence.release(HOST, mode)

    def _device_array(self, device: Device, mode: Mode, stream: Stream, why: str) -> DeviceNDArray:
        return self.coherence.acquire_array(device, mode, stream, why, self._array_over)

    def _array_over(self, block: Block) -> DeviceNDArray:
        return DeviceNDArray(self._shape, self._strides, self._dtype, 0, block)

    # ---- places -----------------------------------------------------------------------------

    @overload
    def get(self, where: Literal["host"] = "host") -> np.ndarray: ...

    @overload
    def get(self, where: str | Device) -> np.ndarray | DeviceNDArray: ...

    def get(self, where: str | Device = HOST) -> np.ndarray | DeviceNDArray:
        """The array at one place, with its current elements.

        Args:
            where: 'host'; 'gpu' (or 'cuda', 'device') for the current device; or a device, as a
                `Device` or by a name such as 'cpu' (the CPU device) or 'nvidia:1'.

        Returns:
            A NumPy array on the host, a device array otherwise; the same memory each time, whose
            elements are current until a kernel or an assignment changes another place. After
            writing to it call `mark_changed`. A device array stays where it is as long as you hold
            it or a view of it; one that nobody holds may make room for others, and be elsewhere
            the next time.

        Raises:
            ValueError: `where` is unknown.
            DeviceNotFound: that device is not there.
            KernelError: a kernel that had to be waited for had failed.
        """
        place = _place(where)
        if place == HOST:
            return self._array(self.coherence.acquire_host("r", "get('host')"))
        return self._device_array(place, "r", place.default_stream, f"get({str(where)!r})")

    def mark_changed(self, where: str | Device = HOST) -> None:
        """Say that the array which `get(where)` gave has been written to.

        Raises:
            CoherenceError: another place was changed since that `get`; the elements there would be
                lost.
            ValueError: `where` is unknown.
            DeviceNotFound: that device is not there.
        """
        self.coherence.mark_changed(_place(where))

    def __haulage_argument__(
        self, stream: Stream, why: str
    ) -> tuple[DeviceNDArray, Callable[[], None]]:
        """For a launch: the array on the stream's device, and what is to be called once the kernel
        has been handed to the stream. The kernel may read and write it."""
        device, coherence = stream.device, self.coherence
        if stream.handle in device.capturing:
            raise CaptureError(
                f"{why}: a SmartArray is made current by each launch, which a graph does not do; "
                f"give it the array of get('{device}'), and call mark_changed('{device}') after "
                "each launch of the graph"
            )
        array = self._device_array(device, "rw", stream, why)
        coherence.account.launched(self.nbytes)
        return array, lambda: coherence.release(device, "rw", stream)

    def __haulage_host__(self) -> np.ndarray:
        """For a function that Numba compiled for the host, which may read and write: the array."""
        flat = self.coherence.acquire_host("rw", "a function compiled by Numba")
        # Before it runs: should it fail in its midst, what it has written counts.
        self.coherence.release(HOST, "rw")
        return self._array(flat)

    @property
    def _numba_type_(self) -> Any:
        """Where Numba looks for the type of a value that it does not know; imports Numba."""
        if self._typed is None:
            from haulage import numba_smart

            order = layout.layout_letter(self._shape, self._strides, self._dtype.itemsize)
            self._typed = numba_smart.type_of(self._dtype, self.ndim, order, self._aligned)
        return self._typed

    # ---- an array on the host ---------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return self._shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""
        return self._strides

    @property
    def dtype(self) -> np.dtype:
        """What an element is."""
        return self._dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The current elements as a NumPy array: read-only, unless it is a copy."""
        view = self._look("NumPy (__array__)")
        kind = self._dtype if dtype is None else np.dtype(dtype)
        if copy is False and kind != self._dtype:
            raise ValueError(f"SmartArray of {self.dtype} cannot be seen as {kind} without a copy")
        if copy or kind != self._dtype:
            return view.astype(kind)
        return view

    def __reduce__(self) -> Any:
        return SmartArray, (self.__array__(copy=True),)

    def __repr__(self) -> str:
        places = ", ".join(map(str, self.coherence.current())) or "nowhere"
        return f"<SmartArray shape={self.shape} dtype={self.dtype} current on {places}>"


def _place(where: Any) -> Place:
    if isinstance(where, Device):
        return where
    if isinstance(where, str):
        if where == HOST:
            return HOST
        if where in _GPU:
            return current_device()
        if where.partition(":")[0] in PLATFORMS:
            return find(where, "where")
    kinds = ", ".join(map(repr, PLATFORMS))
    raise ValueError(
        f"where={where!r}: expected 'host', 'gpu' for the current device, or a device: {kinds}, "
        "with a number if wished as in 'nvidia:1'"
    )


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """The memory of a contiguous array as an array of bytes with one axis."""
    if not array.nbytes:
        return np.empty(0, np.uint8)
    plain = np.asarray(array)
    return (plain if plain.flags.c_contiguous else plain.T).reshape(-1).view(np.uint8)
