"""What the native path can make: a plan for each shape and dtype that was asked for before."""

from typing import Any

import numpy as np

from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.devices import registry
from haulage.runtime.devices.device import Device
from haulage.runtime.memory import classes
from haulage.runtime.memory.block import Block
from haulage.runtime.native import fields
from haulage.runtime.native.machine import Machine
from haulage.runtime.process import runtime

# Types whose dtype is always the same.
_TYPES = frozenset({bool, int, float, complex, *np.sctypeDict.values()})

# Names of dtypes are found by identity. A name that is written in the program is one object, or one
# in each module; of one that is put together anew each time these are learnt, which are few.
_MOST_OF_A_NAME = 4
_names: dict[str, list[str]] = {}


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
    if block.device is _unchosen_device():
        machine.note_device(block.device)
    machine.note_surroundings()
    code, place = block.call_site[0][0], fields.slot_of(axes, dtype)
    code_place = fields.place_of_code(code)
    if machine.codes.has(code_place, lambda other: other is code) and machine.plans.has(
        place, lambda other: _is_of(other, axes, dtype, block)
    ):
        # Known, but Python had to make it, as for a caller in Haulage: it may be so each time.
        return
    machine.codes.put(code_place, code, lambda other: other is code)
    plan = _plan(machine, axes, dtype, made)
    machine.plans.put(place, plan, lambda other: _of_same(plan, other))


def _is_constant(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype.names is None
    if type(dtype) is str:
        same = _names.setdefault(dtype, [])
        if not any(each is dtype for each in same):
            if len(same) == _MOST_OF_A_NAME:
                return False
            same.append(dtype)
        return True
    return isinstance(dtype, type) and dtype in _TYPES


def _is_of(plan: tuple[Any, ...], axes: tuple[int, ...], dtype: Any, block: Block) -> bool:
    """Whether a plan is of this shape and dtype, and takes memory where `block` has its own."""
    assert block.pool is not None
    numbers, free, of, device, *_ = plan
    return (
        of is dtype
        and device is block.device
        and free is block.pool.free[classes.class_of(block.nbytes)]
        and fields.shape(numbers) == axes
    )


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


def _unchosen_device() -> Device | None:
    """The device that is meant as neither this thread nor the process chose one; None: one did."""
    now = runtime.current
    if now.entered.get() is None and now.selected.get() is None:
        return registry.current_device() if runtime.current.chosen is None else None
    return None
