"""What the native path can make: a plan for each shape and dtype that was asked for before."""

from typing import Any

import numpy as np

from haulage.runtime import device as devices
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.memory import classes
from haulage.runtime.memory.block import Block
from haulage.runtime.native import fields
from haulage.runtime.native.machine import Machine

# Types whose dtype is always the same.
_TYPES = frozenset({bool, int, float, complex, *np.sctypeDict.values()})


def learn(machine: Machine, shape: Any, dtype: Any, made: DeviceNDArray) -> None:
    """Let `machine` make by itself what Python has just made for `shape` and `dtype`, in the usual
    layout and stream, if it is one of the plain cases."""
    axes = (shape,) if type(shape) is int else shape
    block = made.block
    if not (
        _is_constant(dtype)
        and type(axes) is tuple
        and axes == made.shape
        and all(type(axis) is int for axis in axes)
        and len(axes) <= fields.MOST_AXES
        and type(made) is DeviceNDArray
        and _is_plain(block)
    ):
        return
    code = block.mark[0][0]
    machine.codes.put(fields.place_of_code(code), code, lambda other: other is code)
    if block.device is _unchosen_device():
        machine.note_device(block.device)
    machine.note_surroundings()
    plan = _plan(machine, axes, dtype, made)
    machine.plans.put(fields.slot_of(axes, dtype), plan, lambda other: _of_same(plan, other))


def _is_constant(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype.names is None
    return type(dtype) is str or (isinstance(dtype, type) and dtype in _TYPES)


def _is_plain(block: Block) -> bool:
    """Whether it is of a size class, of the default stream, and has been used for nothing yet."""
    return (
        block.pool is not None
        and block.release is None
        and block.home is block.device.default_stream
        and 0 < block.nbytes <= classes.LARGEST
        and block.host_ptr in (0, block.device_ptr)
        and len(block.pool.counters) == fields.LEVELS
        and not (block.streams or block.closed or block.exposed or block.of_others)
    )


def _plan(
    machine: Machine, axes: tuple[int, ...], dtype: Any, made: DeviceNDArray
) -> tuple[Any, ...]:
    block = made.block
    pool = block.pool
    assert pool is not None
    of_block = {slot.name: getattr(block, slot.name) for slot in machine.block_slots}
    # It comes from the list of free ones.
    of_block["used_before"] = True
    of_block["device_ptr"] = None
    of_block["host_ptr"] = None if block.host_ptr else 0
    of_array = {slot.name: getattr(made, slot.name) for slot in machine.array_slots}
    of_array["block"] = of_array["device_pointer"] = None
    cells = tuple(counter.cells for counter in pool.counters)
    return (
        fields.numbers(block.nbytes, axes, [each.buffer_info()[0] for each in cells]),
        pool.free[classes.class_of(block.nbytes)],
        dtype,
        block.device,
        cells,
        *of_block.values(),
        *of_array.values(),
    )


def _of_same(plan: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two plans are of the same shape, dtype and device."""
    numbers, _, dtype, device, *_ = plan
    ours, theirs = (fields.shape(each) for each in (numbers, other[0]))
    return ours == theirs and other[2] is dtype and other[3] is device


def _unchosen_device() -> devices.Device | None:
    """The device that is meant as neither this thread nor the process chose one; None: one did."""
    if devices._in_context.get() is None and devices._selected.get() is None:
        return devices.current_device() if devices._of_process is None else None
    return None
