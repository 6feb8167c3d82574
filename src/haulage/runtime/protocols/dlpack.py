"""DLPack tensors out of device memory and into it.

NumPy is the machine that makes and takes capsules: its destructors are native, so they may be
called from any thread, while an exception is under way and at the interpreter's end, which Python
functions behind ctypes may not. It never looks at the elements; so an array at a device's address
serves as well, and only the device is written into the structure here.
"""

import operator
from typing import Any, NamedTuple

import numpy as np

from haulage._core.exchange import check_said, has_unsaid
from haulage.backends.base import MANAGED, MAPPED, PINNED
from haulage.errors import DeviceNotFound
from haulage.runtime.buffers.strided import Strided
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import find
from haulage.runtime.geometry import layout
from haulage.runtime.process import runtime
from haulage.runtime.protocols.dlpack_structs import (
    BFLOAT,
    BOOL,
    COMPLEX,
    CPU,
    CUDA,
    CUDA_HOST,
    CUDA_MANAGED,
    FLOAT,
    INT,
    IS_COPIED,
    MAJOR,
    MINOR,
    READ_ONLY,
    ROCM,
    ROCM_HOST,
    UINT,
    DLDevice,
    DLManagedTensorVersioned,
    inside,
)

Place = tuple[int, int]

HOST: Place = (CPU, 0)

# Memory that the host addresses; the device number says nothing about these.
_ON_HOST = {CPU, CUDA_HOST, ROCM_HOST, CUDA_MANAGED}

_NAMES = {
    CPU: "kDLCPU",
    CUDA: "kDLCUDA",
    CUDA_HOST: "kDLCUDAHost",
    ROCM: "kDLROCM",
    ROCM_HOST: "kDLROCMHost",
    CUDA_MANAGED: "kDLCUDAManaged",
}
_KINDS = {INT: "i", UINT: "u", FLOAT: "f", COMPLEX: "c", BOOL: "b"}
_BYTES = {"b": {1}, "i": {1, 2, 4, 8}, "u": {1, 2, 4, 8}, "f": {2, 4, 8}, "c": {8, 16}}


# ---- places -----------------------------------------------------------------------------------


def place_of(device: Device) -> Place:
    """What DLPack calls a device: (type, number).

    Raises:
        BufferError: it has no name for it.
    """
    if device.protocols.memory is None:
        raise BufferError(
            f"DLPack has no name for the memory of {device}; copy_to_host gives an array that it "
            "can describe"
        )
    return device.protocols.memory, device.id


def pair(given: Any, what: str) -> Place:
    """Two whole numbers, as DLPack names a place, or its version.

    Raises:
        TypeError: they are none.
    """
    try:
        first, second = given
        return operator.index(first), operator.index(second)
    except (TypeError, ValueError):
        raise TypeError(f"{what} {given!r}: expected a tuple of two whole numbers") from None


def device_at(place: Place) -> Device:
    """The device of Haulage's that DLPack calls so.

    Raises:
        BufferError: there is none.
    """
    answers = []
    for kind, driver in runtime.current.drivers.items():
        if driver.protocols.memory == place[0]:
            try:
                return find(f"{kind}:{int(place[1])}", "dl_device")
            except DeviceNotFound as error:
                answers.append(str(error))
    told = "; ".join(answers) or "expected the host or a device"
    raise BufferError(f"nothing can be given on {describe(place)}: {told}")


def is_called(array: Strided, place: Place) -> bool:
    """Whether the memory of an array, where it is, can be said to be at `place`."""
    own = place_of(array.device)
    called = array.device.protocols
    also = {PINNED: called.pinned, MAPPED: called.pinned, MANAGED: called.managed}
    return place in (own, (also.get(array.block.kind), own[1]))


def reaches(device: Device, place: Place) -> bool:
    """Whether kernels of `device` can use memory at `place` where it is."""
    called = device.protocols
    if place == (called.memory, device.id):
        return True
    return place[0] in (_ON_HOST if called.memory == CPU else (called.pinned, called.managed))


def on_host(place: Place) -> bool:
    """Whether the host can address memory at `place`."""
    return place[0] in _ON_HOST


def moves_to(device: Device, place: Place) -> bool:
    """Whether memory at `place`, though the host addresses it, is as good as the device's own."""
    return place[0] == device.protocols.managed


def describe(place: Place) -> str:
    """A place in words, for messages."""
    return f"{_NAMES.get(place[0], f'device type {place[0]}')}:{place[1]}"


# ---- out --------------------------------------------------------------------------------------


class _Exported:
    """What NumPy's array of an export stands on; it keeps the block and `held` alive."""

    __slots__ = ("__array_interface__", "block", "held")

    def __init__(self, array: Strided, place: Place, held: object) -> None:
        block = array.block
        block.exposed = True
        self.block = block
        self.held = held
        pointer = array.device_pointer
        if on_host(place):
            pointer += block.host_ptr - block.device_ptr
        # NumPy takes an address of 0 for none given.
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": array.shape,
            "typestr": array.dtype.str,
            "strides": array.strides,
            "data": (pointer or 1, array.readonly),
        }


def export(array: Strided, place: Place, versioned: bool, copied: bool, held: object = None) -> Any:
    """A capsule over the elements of `array`, which holds its block.

    Args:
        array: device memory, which has passed `check_dtype` and `check_export`.
        place: where the capsule says that it is, of which `is_called` holds.
        versioned: whether the consumer takes DLPack 1.0's structure.
        copied: whether the capsule is the only user of the memory.
        held: what it holds besides.
    """
    return _capsule(np.asarray(_Exported(array, place, held)), place, versioned, copied)


def seen_by_host(array: Strided, held: object) -> np.ndarray:
    """The elements of an array in memory of the host's, as a NumPy array over that memory that
    cannot be written, and holds its block and `held`."""
    exported = _Exported(array, HOST, held)
    # Not all dtypes have words for NumPy's interface.
    raw = f"|V{array.dtype.itemsize}"
    address, _ = exported.__array_interface__["data"]
    exported.__array_interface__ |= {"typestr": raw, "data": (address, True)}
    return np.asarray(exported).view(array.dtype)


def export_host(host: np.ndarray, versioned: bool) -> Any:
    """A capsule over a host array that nobody else uses, of a dtype that passed `check_dtype`."""
    return _capsule(host, HOST, versioned, copied=True)


def _capsule(memory: np.ndarray, place: Place, versioned: bool, copied: bool) -> Any:
    capsule = memory.__dlpack__(max_version=(MAJOR, MINOR) if versioned else None)
    managed = inside(capsule)
    managed.dl_tensor.device = DLDevice(*place)
    if not memory.size:
        managed.dl_tensor.data = None
    if isinstance(managed, DLManagedTensorVersioned) and copied:
        managed.flags |= IS_COPIED
    return capsule


def check_dtype(dtype: np.dtype) -> None:
    """Raise BufferError if DLPack has no such elements."""
    if dtype.itemsize not in _BYTES.get(dtype.kind, ()) or not dtype.isnative:
        raise BufferError(
            f"DLPack has no dtype {dtype}: expected bool, integers, floats of 16 to 64 bits or "
            "complex numbers, in native byte order; export a view of such a dtype"
        )


def check_export(array: Strided, versioned: bool) -> None:
    """Raise BufferError if DLPack cannot describe an array's strides, or that it is read-only."""
    if array.readonly and not versioned:
        raise BufferError(
            f"{array!r} is read-only, which DLPack before 1.0 cannot say; "
            "ask with max_version=(1, 0) or copy=True"
        )
    for n, stride in zip(array.shape, array.strides, strict=True):
        if n > 1 and stride % array.dtype.itemsize:
            raise BufferError(
                f"strides {array.strides} are not multiples of the {array.dtype.itemsize} bytes of "
                "an element, as DLPack needs them; ask with copy=True"
            )


# ---- in ---------------------------------------------------------------------------------------


class Tensor(NamedTuple):
    """A tensor taken from its producer; `owner` gives it back when it dies."""

    place: Place
    pointer: int  # of element (0, ..., 0)
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes
    dtype: np.dtype
    readonly: bool
    owner: Any

    def as_numpy(self) -> np.ndarray:
        """The same elements as a NumPy array; BufferError if the host does not address them."""
        if not on_host(self.place):
            raise BufferError(
                f"the exporter gave memory at {describe(self.place)}, which the host cannot address"
            )
        return np.asarray(_Taken(self))


class _Taken:
    """What a NumPy array over another library's tensor stands on; it holds the tensor."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, tensor: Tensor) -> None:
        self.owner = tensor.owner
        self.__array_interface__ = {
            "version": 3,
            "shape": tensor.shape,
            "typestr": tensor.dtype.str,
            "strides": tensor.strides,
            "data": (tensor.pointer or 1, tensor.readonly),
        }


class _Once:
    """Hands one capsule to `np.from_dlpack`."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **asked: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> Place:
        return HOST


def place_asked(exporter: Any) -> Place:
    """Where an exporter says that its tensor is.

    Raises:
        TypeError: it does not say so as the protocol asks.
    """
    if isinstance(exporter, type):
        raise TypeError(f"{exporter!r}: a class; expected an object with __dlpack__")
    try:
        place = exporter.__dlpack_device__()
    except AttributeError:
        if _is_traced(exporter):
            raise TypeError(
                f"{type(exporter).__name__} object: a value that JAX traces has no elements yet; "
                "call what needs them by jax.pure_callback"
            ) from None
        raise TypeError(
            f"{type(exporter).__name__} object has __dlpack__ but no __dlpack_device__; "
            "DLPack needs both"
        ) from None
    except TypeError:
        # So JAX's arrays answer whose memory was donated or deleted.
        if hasattr(exporter, "is_deleted") and exporter.is_deleted():
            raise ValueError(
                f"{type(exporter).__name__} object that was deleted or donated: it has no memory"
            ) from None
        raise
    return pair(place, f"__dlpack_device__ of a {type(exporter).__name__} gave")


def _is_traced(exporter: Any) -> bool:
    """Whether it is what JAX gives in the place of an array to a function that it traces."""
    return any(
        kind.__name__ == "Tracer" and kind.__module__.partition(".")[0] in ("jax", "jaxlib")
        for kind in type(exporter).__mro__
    )


def tensor_of(
    exporter: Any, stream: int | None = None, copy: bool | None = None, to: Place | None = None
) -> Tensor:
    """The tensor of an exporter, for whose arguments and errors see `ask` and `take`.

    Before DLPack 1.0 a capsule could not say that its memory must not be written to. For memory of
    the host NumPy's array of the exporter says it then.
    """
    capsule = ask(exporter, stream, copy, to)
    says_it = isinstance(inside(capsule), DLManagedTensorVersioned)
    tensor = take(capsule)
    if says_it or not on_host(tensor.place) or not _is_read_only_for_numpy(exporter):
        return tensor
    return tensor._replace(readonly=True)


def _is_read_only_for_numpy(exporter: Any) -> bool:
    if not hasattr(exporter, "__array__"):
        return False
    try:
        return not np.asarray(exporter).flags.writeable
    except Exception:  # what a library raises that gives NumPy no arrays is its own affair
        return False


def ask(
    exporter: Any, stream: int | None = None, copy: bool | None = None, to: Place | None = None
) -> Any:
    """A capsule from an exporter, in the newest version that both know.

    Args:
        exporter: an object with `__dlpack__`.
        stream: the consumer's, as DLPack numbers them; None where there are none.
        copy: False forbids a copy.
        to: where the tensor is wanted, if not where it is.

    Raises:
        BufferError: the exporter cannot.
    """
    options: dict[str, Any] = {} if stream is None else {"stream": stream}
    newer: dict[str, Any] = {"max_version": (MAJOR, MINOR)}
    if has_unsaid(type(exporter)):
        check_said(exporter)
    if copy is not None:
        newer["copy"] = copy
    if to is not None:
        newer["dl_device"] = to
    try:
        return exporter.__dlpack__(**options, **newer)
    except TypeError as error:
        # Exporters from before DLPack 1.0 know `stream` only, and never copy.
        if to is not None:
            raise BufferError(
                f"{type(exporter).__name__} object cannot give its DLPack tensor on another "
                f"device: {error}"
            ) from error
        return exporter.__dlpack__(**options)


def take(capsule: Any) -> Tensor:
    """Consume a capsule.

    Raises:
        BufferError: it is none, was consumed already, or its elements have no NumPy dtype. It is
            left as it was then.
    """
    managed = inside(capsule)
    held = managed.dl_tensor
    dtype = numpy_dtype(held.dtype.code, held.dtype.bits, held.dtype.lanes)
    place = held.device.device_type, held.device.device_id
    shape = tuple(held.shape[: held.ndim])
    steps = tuple(held.strides[: held.ndim]) if held.strides else None
    strides = byte_strides(shape, steps, dtype.itemsize)
    pointer = (held.data or 0) + held.byte_offset
    flags = managed.flags if isinstance(managed, DLManagedTensorVersioned) else 0
    # NumPy takes what the host addresses; the producer finds its structure as it was afterwards.
    held.device = DLDevice(*HOST)
    try:
        owner = np.from_dlpack(_Once(capsule))
    finally:
        held.device = DLDevice(*place)
    return Tensor(place, pointer, shape, strides, dtype, bool(flags & READ_ONLY), owner)


def byte_strides(
    shape: tuple[int, ...], steps: tuple[int, ...] | None, itemsize: int
) -> tuple[int, ...]:
    """Strides in bytes of those that DLPack counts in elements; None: in C order."""
    if steps is None:
        return layout.c_strides(shape, itemsize)
    return tuple(step * itemsize for step in steps)


def numpy_dtype(code: int, bits: int, lanes: int) -> np.dtype:
    """The dtype that is DLPack's.

    Raises:
        BufferError: NumPy has none.
    """
    kind = _KINDS.get(code, "")
    if bits % 8 or bits // 8 not in _BYTES.get(kind, ()) or lanes != 1:
        name = "bfloat16" if code == BFLOAT else f"type code {code} with {bits} bits"
        raise BufferError(
            f"a DLPack tensor of {name} and {lanes} lanes has no NumPy dtype; "
            "convert it where it comes from"
        )
    return np.dtype(f"{kind}{bits // 8}")
