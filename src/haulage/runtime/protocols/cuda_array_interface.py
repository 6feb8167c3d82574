"""The CUDA array interface: descriptions of memory, and how it and DLPack number streams."""

import operator
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import external_stream
from haulage.runtime.geometry import dtypes, layout

NAME = "__cuda_array_interface__"

# How both protocols number CUDA's streams that have no handle of their own.
_OF_DEFAULT_STREAMS = (0, 1, 2)


class Description(NamedTuple):
    """What a description says; `stream` is the number of the stream of its owner, or None."""

    pointer: int  # of element (0, ..., 0)
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes
    dtype: np.dtype
    readonly: bool
    stream: int | None


def read(desc: Any) -> Description:
    """What the dictionary of the interface says, of versions 0 to 3.

    Raises:
        ValueError, TypeError: it is not right.
        NotImplementedError: it has a mask.
    """
    if not isinstance(desc, Mapping):
        raise TypeError(f"{desc!r} is no description of the CUDA array interface: expected a dict")
    for key in ("shape", "typestr", "data", "version"):
        if key not in desc:
            raise ValueError(f"the CUDA array interface {desc!r} has no {key!r}")
    if desc["version"] not in (0, 1, 2, 3):
        raise ValueError(
            f"version {desc['version']!r} of the CUDA array interface: expected 0, 1, 2 or 3"
        )
    if desc.get("mask") is not None:
        raise NotImplementedError(
            "Masked arrays are not supported: hand over the elements and the mask as two arrays"
        )
    dtype = _dtype(desc)
    shape = layout.normalise_shape(desc["shape"])
    given = desc.get("strides")
    strides = layout.c_strides(shape, dtype.itemsize) if given is None else _strides(given, shape)
    pointer, readonly = _data(desc["data"])
    if pointer == 0 and 0 not in shape:
        raise ValueError(f"the CUDA array interface has address 0 for shape {shape}")
    if dtype.subdtype is not None:
        dtype, inner = dtype.subdtype
        shape, strides = shape + inner, strides + layout.c_strides(inner, dtype.itemsize)
    return Description(pointer, shape, strides, dtype, readonly, desc.get("stream"))


def names_stream(desc: Any) -> bool:
    """Whether a description says something of streams, as since version 3."""
    return not isinstance(desc, Mapping) or "stream" in desc


def _dtype(desc: Any) -> np.dtype:
    dtype = dtypes.check_dtype(desc["typestr"])
    parts = desc.get("descr")
    if dtype.kind != "V" or parts is None:
        return dtype
    fields = dtypes.check_dtype([tuple(part) for part in parts])
    if fields.itemsize != dtype.itemsize:
        raise ValueError(
            f"descr {parts!r} takes {fields.itemsize} bytes, typestr {desc['typestr']!r} "
            f"{dtype.itemsize}"
        )
    # A description of one part without a name is the typestr once more.
    return dtype if fields.names == ("f0",) and parts[0][0] == "" else fields


def _strides(given: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = layout.whole_numbers(given)
    if len(strides) != len(shape):
        raise ValueError(f"strides {strides} do not fit shape {shape}: expected one for each axis")
    return strides


def _data(given: Any) -> tuple[int, bool]:
    try:
        pointer, readonly = given
        return operator.index(pointer or 0), bool(readonly)
    except (TypeError, ValueError):
        raise TypeError(
            f"data {given!r} of the CUDA array interface: expected (address, read-only)"
        ) from None


# ---- numbers of streams -------------------------------------------------------------------------


def stream_numbered(device: Device, number: int | None) -> Stream:
    """The stream that DLPack and the CUDA array interface mean by a number.

    None means the default stream; see `Protocols.default_streams` for its numbers.

    Raises:
        TypeError, ValueError: they have no such number.
        DeviceError: the device has no stream with that handle.
    """
    if number is None:
        return device.default_stream
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"stream {number!r}: expected a whole number or None")
    named = device.protocols.default_streams
    if number < 0 or (number in _OF_DEFAULT_STREAMS and number not in named):
        raise ValueError(
            f"stream {number} of {device}: expected {list(named)} for its default streams, or a "
            "stream's handle"
        )
    if number == named[0]:
        return device.default_stream
    return external_stream(device, number)


def number_of(stream: Stream) -> int | None:
    """What DLPack and the CUDA array interface call a stream; the opposite of `stream_numbered`."""
    if stream.device.properties.host_memory_is_device_memory:
        return None
    if stream.handle:
        return stream.handle
    return stream.device.protocols.default_streams[0]
