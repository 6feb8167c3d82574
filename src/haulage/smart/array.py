"""SmartArray: where its elements are, and who takes them from it."""

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from typing import Any, Literal, SupportsIndex, overload

import numpy as np

from haulage._core.coherence import Key, Moving, know_only_read
from haulage.checks import flag, one_of
from haulage.errors import CaptureError
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.buffers.coherent import Whole, overwritten_in
from haulage.runtime.coherence import HOST, Coherence, Mode
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry import dtypes, layout
from haulage.runtime.geometry.ranges import Ranges
from haulage.runtime.memory import Block
from haulage.runtime.protocols import dlpack
from haulage.smart import creation
from haulage.smart.numpy_methods import NumpyMethods

# The storages that the host only reads, in the `with host('r')` that is entered.
_only_read: ContextVar[tuple[Coherence, ...]] = ContextVar("haulage_only_read", default=())
know_only_read(_only_read)


class SmartArray(NumpyMethods):
    """An array with a copy on the host and on each device that has used it.

    A kernel to which it is given finds it on its device; the result stays there, and comes to the
    host when someone looks: by an index, by NumPy or by `get`. Only what changed is moved, and only
    then. No call says what was written: writes through the array itself are known, and NumPy arrays
    that `get` and `host` give count as written as long as they or views of them live.

    It takes the place of a NumPy array: operators, NumPy's functions and ufuncs, and the methods of
    arrays work on the host's elements and give NumPy arrays and scalars. Slices, fields, transposes
    and reshapes are SmartArrays over the same storage, and kernels take them too. Functions that
    Numba compiles for the host (`numba.njit`, `jit`, `vectorize`) take it as an array; the host
    then counts as having been changed, but inside of `with a.host('r')`.

    Unlike a NumPy array:
        - `isinstance(a, np.ndarray)` is False; who has to have one is given `np.asarray(a)`, or
          `a.get()` to write to;
        - `repr(a)` says where the array is and moves nothing; `str(a)` shows the elements;
        - `a.copy()` is a NumPy array, `copy.copy(a)` a SmartArray;
        - `np.asarray(a)`, `a.diagonal()` and what else NumPy makes of it without a copy is
          read-only, and shows the elements as they were then, or later ones;
        - it gives no address: `ctypes`, `data`, `base` and the buffer protocol are those of what
          `get` returns. Nor can its memory be changed: `resize`, `setflags`, `a.shape = ...`;
        - what a function of Numba's returns or keeps of it is the host's array, as from `get`. One
          with declared signatures does not take it: give it `a.get()` or `np.asarray(a)`.

    Args:
        obj: an array of the host or a device, or what `np.asarray` takes; or None, and a new array
            is made, whose elements are not initialised.
        copy: False stands on the memory of `obj` itself, a NumPy array or a SmartArray. Whoever
            else writes to that memory, through what is no view of this array, has to call
            `mark_changed`.
        shape: of a new array: a number or a tuple of numbers.
        dtype: of a new array (None: float64); with `obj`, the dtype to convert to.
        order: 'C' or 'F'; None: the order of `obj`, 'C' for a new array.
        where: where it is current at first, as for `get`; or which memory the host's copy is in:
            'pinned' is moved faster, and 'mapped' and 'managed' are reached by the current device
            as well, so that nothing is moved at all.

    Raises:
        TypeError: neither `obj` nor `shape` is given, or both are; elements are Python objects.
        ValueError: `where` or `order` is unknown; with `copy=False`, `obj` would have to be copied.
        DeviceNotFound: `where` names a device that is not there.

    Attributes:
        shape, dtype, strides: as NumPy's.
        coherence: which replicas of its storage are current, and its last transfers with their
            causes. Views share it.
    """

    __slots__ = ()

    def __init__(
        self,
        obj: Any = None,
        copy: bool = True,
        shape: SupportsIndex | Sequence[SupportsIndex] | None = None,
        dtype: Any = None,
        order: str | None = None,
        where: str | Device = HOST,
    ) -> None:
        is_kind = isinstance(where, str) and where in creation.HOST_MEMORY
        place = HOST if is_kind else creation.place(where, creation.HOST_MEMORY)
        if order is not None:
            one_of(order, "SmartArray: order", ("C", "F"))
        copy = flag(copy, "SmartArray: copy")
        if (obj is None) == (shape is None):
            given = "neither" if obj is None else "both"
            raise TypeError(
                f"SmartArray: expected either an array or a shape, got {given}; "
                "write SmartArray(array) or SmartArray(shape=..., dtype=...)"
            )
        if obj is not None and not copy:
            if where in creation.HOST_MEMORY:
                raise ValueError(
                    f"SmartArray(copy=False, where={where!r}): it stands on the memory that is "
                    "there; leave one of the two out"
                )
            self._set(*creation.in_place(obj, dtype, order))
        else:
            there = not isinstance(place, str) and creation.is_on(place, obj, dtype)
            self._set(*creation.new(obj, shape, dtype, order, where, there))
        why = f"SmartArray(where={where!r})"
        if isinstance(place, str):
            self.coherence.acquire_host("r", why, self._part)
        elif obj is not None and copy and there:
            with overwritten_in(place.default_stream, self, why) as target:
                target.copy_to_device(obj)
        else:
            self._device_array(place, "r", place.default_stream, why)

    # ---- places -----------------------------------------------------------------------------

    @overload
    def get(self, where: Literal["host"] = "host", mode: Mode = "rw") -> np.ndarray: ...

    @overload
    def get(self, where: str | Device, mode: Mode = "rw") -> np.ndarray | DeviceNDArray: ...

    def get(self, where: str | Device = HOST, mode: Mode = "rw") -> np.ndarray | DeviceNDArray:
        """The array at one place, with its current elements.

        Args:
            where: 'host'; 'gpu' (or 'cuda', 'device') for the current device; or a device, as a
                `Device` or by a name such as 'cpu' (the CPU device) or 'nvidia:1'.
            mode: 'r' gives an array that cannot be written; 'w', on the host, one whose elements
                are not current, all of which will be written.

        Returns:
            A NumPy array on the host, a device array otherwise; the same memory each time.

            A NumPy array that can be written counts as written, whenever a device needs the
            elements, as long as it or a view of it lives. Once a kernel has written to the array it
            is out of date until the next `get`, or until the kernel's stream or device was waited
            for; who writes through it in between gets a CoherenceError.

            After writing to a device array call `mark_changed`. It stays where it is as long as you
            hold it or a view of it; one that nobody holds may make room for others, and be
            elsewhere the next time.

        Raises:
            ValueError: `where` or `mode` is unknown.
            DeviceNotFound: that device is not there.
            KernelError: a kernel that had to be waited for had failed.
            CoherenceError: a device and a NumPy array were written at the same time.
        """
        if where is HOST and mode == "rw":
            # As `_borrowed`, which is a call more.
            array = self._borrowed_at_once("get('host')")
            if array is not None:
                return array
        one_of(mode, "get: mode", ("r", "w", "rw"))
        place = creation.place(where)
        why = f"get({str(where)!r})" if mode != "w" else f"get({str(where)!r}, 'w')"
        if place == HOST:
            if mode == "r":
                return self._look(why)
            return self._borrowed(mode, why)
        if mode not in ("r", "rw"):
            raise ValueError(f"get({str(where)!r}, {mode!r}): on a device expected 'r' or 'rw'")
        return self._given_on(place, mode, why)

    @contextmanager
    def host(self, mode: Mode = "rw") -> Iterator[np.ndarray]:
        """`with a.host(mode) as array:` gives the NumPy array of the elements on the host.

        Args:
            mode: 'r': it cannot be written, and functions that Numba compiles for the host, if
                they are given the SmartArray inside of the `with`, only read it. 'rw': it is
                written in the `with`. 'w': all elements are written, so that they need not be
                brought to the host before; an exception leaves those that the host did not have as
                they were before, and the others as the body has written them. Who needs them in
                the `with`, as a kernel, has what was written until then, which an exception then
                takes back no more.

        Raises:
            ValueError: `mode` is unknown.
            KernelError: a kernel that had to be waited for had failed.
            CoherenceError: at the end: a device was written in the meantime, too.
        """
        why, part = f"host({mode!r})", self._part
        if mode == "r":
            array = self._look(why)
            token = _only_read.set((*_only_read.get(), self.coherence))
            try:
                yield array
            finally:
                _only_read.reset(token)
            return
        with self.coherence.host_view(mode, why, part) as flat:
            yield self._array(flat)

    def mark_changed(self, where: str | Device = HOST) -> None:
        """Say that the array which `get(where)` gave has been written to.

        Of device arrays it has to be said, and of memory that `copy=False` stands on; of NumPy
        arrays that `get` gave it is known.

        Raises:
            CoherenceError: another place was changed since that `get`, also through a NumPy array;
                the elements there would be lost.
            ValueError: `where` is unknown.
            DeviceNotFound: that device is not there.
        """
        self.coherence.mark_changed(creation.place(where), self._part)

    def _device_array(
        self,
        device: Device,
        mode: Mode,
        stream: Stream,
        why: str,
        touched: bool = True,
        ways: int = 0,
    ) -> DeviceNDArray:
        if self._key is None:
            self._key = Key(self._offset, self._shape, self._strides, self._dtype)
            self._own_bytes = self.nbytes
        part = self._part if touched else Ranges()
        return self.coherence.acquire_array(
            device, mode, stream, why, self._array_over, self._key, part, self._own_bytes, ways
        )

    def _given_on(self, device: Device, mode: Mode, why: str) -> DeviceNDArray:
        """The array on a device for the program, which can hand it on to other libraries."""
        array = self._device_array(device, "r", device.default_stream, why)
        known = self._given.get((device, mode))
        given = None if known is None else known()
        if given is None or given.block.generation != array.block.generation:
            block = self.coherence.hand_out(array.block, self._part, mode != "r")
            given = self._array_over(block)
            if mode == "r":
                given._protect()
            self._given[device, mode] = weakref.ref(given)
        return given

    def _array_over(self, block: Block) -> DeviceNDArray:
        pointer = block.device_ptr + self.coherence.start_in(block) + self._offset
        array = DeviceNDArray.__new__(DeviceNDArray)
        array._set(block, pointer, self._shape, self._strides, self._dtype, 0, False)
        return array

    # ---- the protocol of arrays that move themselves: see `runtime.buffers.coherent` ----------

    def __haulage_describe__(self) -> tuple[np.dtype, int, str, bool, bool]:
        if self._layout is None:
            letter = layout.layout_letter(self._shape, self._strides, self._dtype.itemsize)
            at = self._offset + self._skew if self.coherence.is_shared else self._offset
            is_aligned = at % self._dtype.alignment == 0 and (
                letter != "A" or dtypes.is_aligned(self._dtype, 0, self._shape, self._strides)
            )
            self._layout = self._dtype, len(self._shape), letter, False, is_aligned
        return self._layout

    def __haulage_acquire__(
        self, stream: Stream | None, why: str, mode: str, whole: Whole = False, ways: int = 2
    ) -> tuple[DeviceNDArray | np.ndarray, Callable[[bool], None]]:
        if stream is None:
            return self._acquired_on_host(why, bool(whole))
        if mode == "kept":
            array = self._device_array(stream.device, "r", stream, why)
            kept = self._array_over(self.coherence.hand_out(array.block, self._part, False))
            kept._note_export(kept=True)
            return kept, _nothing_to_do
        device, coherence, part = stream.device, self.coherence, self._part
        if device.capturing and stream.handle in device.capturing:
            raise CaptureError(
                f"{why}: a SmartArray is made current by each launch, which a graph does not do; "
                f"give it the array of get('{device}'). Then call get('{device}') before each "
                f"launch of the graph, and mark_changed('{device}') after it if it writes there"
            )
        used: Mode = "r" if mode in ("none", "r") else "rw"
        # What is there as it is needs no movement either way, so that nobody has to find out.
        if (
            whole
            and used == "rw"
            and part.nbytes == self.nbytes
            and (whole is True or (not coherence.is_at_rest_on(device, part) and whole()))
        ):
            used = "w"
        array = self._device_array(device, used, stream, why, mode != "none", ways)
        if used == "r":
            return array, _nothing_to_do

        def done(handed: bool) -> None:
            if handed or used != "w":
                coherence.release(device, used, stream, part)
            else:
                coherence.cancel(device, part)

        return array, done

    def _release(self, stream: Stream) -> None:
        """Say that work which writes to the elements has been handed to a stream."""
        self.coherence.release(stream.device, "rw", stream, self._part)

    def __haulage_shares__(self, other: Any) -> bool:
        # A SmartArray, or what stands on a device's replica, as what `get` gives.
        if isinstance(other, SmartArray):
            return other.coherence is self.coherence
        block = getattr(other, "block", None)
        return isinstance(block, Block) and self.coherence.has_replica_in(block)

    # ---- for Numba's compiled functions -----------------------------------------------------

    # Of this class too, where Numba, which makes the name anew each time, finds it first.
    _numba_type_ = Moving._numba_type_

    def _for_numba(self, why: str) -> np.ndarray:
        """The host's array for a function that Numba compiled, where it takes more than a look."""
        return self._look(why) if self._is_only_read() else self._borrowed("rw", why)

    def _type_for_numba(self) -> Any:
        """What `_numba_type_` is where it is not known yet, or the host only reads some arrays."""
        readonly = self._is_only_read()
        kind = self._typed.get(readonly)
        if kind is None:
            from haulage import numba_smart

            order = layout.layout_letter(self._shape, self._strides, self._dtype.itemsize)
            in_c_order = layout.c_strides(self._shape, self._dtype.itemsize)
            self._is_plain = not self._offset and self._strides == in_c_order
            kind = numba_smart.type_of(self._dtype, self.ndim, order, self._is_aligned(), readonly)
            self._typed[readonly] = kind
        return kind

    def _is_only_read(self) -> bool:
        return self.coherence in _only_read.get()

    # ---- for NumPy, other libraries and copies ----------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The current elements as a NumPy array: read-only, unless it is a copy."""
        view = self._look("NumPy (__array__)")
        kind = self._dtype if dtype is None else np.dtype(dtype)
        if copy is False and kind != self._dtype:
            raise ValueError(f"SmartArray of {self.dtype} cannot be seen as {kind} without a copy")
        if copy or kind != self._dtype:
            return view.astype(kind)
        return view

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface, of the current elements on the host, for reading only.

        Raises:
            AttributeError: it has no words for where the dtype's fields lie, or for a type of
                another package; NumPy then asks `__array__`.
        """
        if not dtypes.has_description(self._dtype):
            raise AttributeError(
                f"NumPy's array interface cannot tell the dtype {self._dtype}; use np.asarray(a)"
            )
        told = self._look("NumPy (__array_interface__)").__array_interface__
        # Who finds none takes the array itself for a buffer of its bytes, as Pillow does.
        return {**told, "strides": self._strides}

    def __dlpack__(self, *, dl_device: tuple[int, int] | None = None, **options: Any) -> Any:
        """The elements on the host, as NumPy gives them; or on the device that `dl_device` names,
        as the array of `get` for that device gives them. As long as somebody has them they count as
        written there.

        Raises:
            BufferError: DLPack cannot describe them, or there is no such device.
            CoherenceError: another library has them on another device, to write to them.
        """
        if dl_device is not None:
            dl_device = dlpack.pair(dl_device, "dl_device")
        if dl_device is None or dl_device == dlpack.HOST:
            if dl_device is not None:
                options["dl_device"] = dl_device
            return self.get().__dlpack__(**options)
        device = dlpack.device_at(dl_device)
        return self._given_on(device, "rw", "DLPack").__dlpack__(dl_device=dl_device, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's number of the host."""
        return dlpack.HOST

    @property
    def __cuda_array_interface__(self) -> Any:
        """There is none: nobody could tell when its memory is not used any more."""
        raise AttributeError(
            "a SmartArray has no __cuda_array_interface__, as it stands on the host's memory too; "
            "that of a.get('gpu') has one on NVIDIA's GPUs, and DLPack works on all"
        )

    def __reduce__(self) -> Any:
        elements = self._look("pickling it")
        # Only elements without gaps are pickled out of band.
        dense = elements.flags.c_contiguous or elements.flags.f_contiguous
        elements = elements if dense else elements.copy()
        # NumPy's pickles can lose a byte order that is not the machine's.
        made = _restored, (type(self), elements, HOST, self._dtype)
        return (*made, self.__dict__) if hasattr(self, "__dict__") else made

    def __copy__(self) -> "SmartArray":
        """A SmartArray of its own memory, where this one is current."""
        return self._copied(getattr(self, "__dict__", {}))

    def __deepcopy__(self, memo: dict[int, Any]) -> "SmartArray":
        return self._copied(deepcopy(getattr(self, "__dict__", {}), memo))

    def _copied(self, added: dict[str, Any]) -> "SmartArray":
        """A copy of the same class; `added` is what that has besides."""
        places = self.coherence.current(self._part)
        made = _restored(type(self), self, places[0] if places else HOST)
        for name, value in added.items():
            setattr(made, name, value)
        return made

    def __repr__(self) -> str:
        places = ", ".join(map(str, self.coherence.current(self._part))) or "nowhere"
        return f"<SmartArray shape={self.shape} dtype={self.dtype} current on {places}>"


def _nothing_to_do(done: bool) -> None:
    """What is called at the end of a use that needs no release."""


def made_on_device(array: DeviceNDArray, stream: Stream) -> SmartArray:
    """The SmartArray of a device array without gaps that work of `stream` has made: it is current
    on that device only. Nobody else uses the array or its memory."""
    name, grain = f"SmartArray {array.shape} {array.dtype}", array.dtype.itemsize or 1
    coherence = Coherence(array.nbytes, name, grain=grain)
    coherence.adopt(array.block, stream)
    made = SmartArray.__new__(SmartArray)
    made._set(coherence, 0, array.shape, array.strides, array.dtype, 0)
    return made


def _restored(
    kind: type[SmartArray],
    elements: Any,
    where: str | Device = HOST,
    dtype: np.dtype | None = None,
) -> SmartArray:
    made = kind.__new__(kind)
    SmartArray.__init__(made, elements, where=where, dtype=dtype)
    return made
