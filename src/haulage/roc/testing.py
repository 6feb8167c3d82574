"""`roc.test()`: whether copies and kernels work on the current device."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from haulage import roc
from haulage.errors import HaulageError

_ITEMS = 256
_WAVE = 64


@roc.jit
def _scaled(out: Any, x: Any, factor: Any) -> None:
    i = roc.get_global_id(0)
    if i < out.size:
        out[i] = factor * x[i]


@roc.jit
def _turned_round(x: Any) -> None:
    room = roc.shared.array(_ITEMS, np.int32)
    item, i = roc.get_local_id(0), roc.get_global_id(0)
    room[item] = x[i]
    roc.barrier(roc.CLK_LOCAL_MEM_FENCE)
    x[i] = room[_ITEMS - 1 - item]


@roc.jit
def _counted(counts: Any, x: Any) -> None:
    roc.atomic.add(counts, x[roc.get_global_id(0)], 1)


@roc.jit
def _sines(out: Any, x: Any) -> None:
    i = roc.get_global_id(0)
    out[i] = math.sin(x[i])


@roc.jit
def _handed_on(out: Any, x: Any) -> None:
    i = roc.get_global_id(0)
    out[i] = roc.ds_permute((roc.get_local_id(0) + 1) % _WAVE, x[i])
    roc.wavebarrier()


def _copies() -> tuple[Any, Any]:
    x = np.arange(1000.0).reshape(20, 50)[::2, ::-1]
    return roc.to_device(x).copy_to_host(), x


def _a_kernel() -> tuple[Any, Any]:
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    _scaled.forall(1000)(out, x, np.float32(3))
    return out, 3 * x


def _a_kernel_in_a_stream() -> tuple[Any, Any]:
    x, out = roc.coarsegrain_array(1000), roc.coarsegrain_array(1000)
    x[:], out[:] = np.arange(1000), 0
    with roc.stream().auto_synchronize() as stream:
        there, result = roc.to_device(x, stream=stream), roc.device_array(1000)
        _scaled[4, 256, stream](result, there, 3.0)
        result.copy_to_host(out, stream=stream)
    return out, 3 * np.arange(1000)


def _barriers() -> tuple[Any, Any]:
    x = np.arange(4 * _ITEMS, dtype=np.int32).reshape(4, _ITEMS)
    there = roc.to_device(x.ravel())
    _turned_round[4, _ITEMS](there)
    return there.copy_to_host().reshape(x.shape), x[:, ::-1]


def _atomics() -> tuple[Any, Any]:
    x, counts = np.arange(1024) * 7 % 10, np.zeros(10, np.int64)
    _counted[4, 256](counts, x)
    return counts, np.bincount(x)


def _mathematics() -> tuple[Any, Any]:
    x, out = np.linspace(-3, 3, 256), np.zeros(256)
    _sines[4, 64](out, x)
    return np.round(out, 12), np.round(np.sin(x), 12)


def _wavefronts() -> tuple[Any, Any]:
    x, out = np.arange(2 * _WAVE, dtype=np.int32), np.zeros(2 * _WAVE, np.int32)
    _handed_on[1, 2 * _WAVE](out, x)
    return out, np.roll(x.reshape(2, _WAVE), 1, axis=1).ravel()


_CHECKS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "copies": _copies,
    "a kernel": _a_kernel,
    "a kernel in a stream": _a_kernel_in_a_stream,
    "shared memory and barriers": _barriers,
    "atomics": _atomics,
    "mathematics": _mathematics,
    "wavefronts": _wavefronts,
}


def test() -> bool:
    """Run some copies and kernels on the current device, and print a line for each.

    Wavefronts are left out on NVIDIA's GPUs, which have none.

    Returns:
        Whether all gave what NumPy gives.
    """
    device = roc.get_current_device()
    print(f"{device}: {device.name}")
    checks = dict(_CHECKS)
    if device.properties.architecture.startswith("sm_"):
        del checks["wavefronts"]
    outcomes = {name: _outcome(check) for name, check in checks.items()}
    for name, outcome in outcomes.items():
        print(f"  {name}: {outcome or 'right'}")
    return not any(outcomes.values())


def _outcome(check: Callable[[], tuple[Any, Any]]) -> str:
    """What went wrong, '' if nothing did."""
    try:
        got, expected = check()
    except HaulageError as error:
        return f"{type(error).__name__}: {error}"
    wrong = np.count_nonzero(got != expected)
    return f"{wrong} of {expected.size} elements are wrong" if wrong else ""
