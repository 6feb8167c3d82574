"""Handles of shared memory with changed numbers: each is refused, or opens within the memory."""

import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.errors import Unsupported
from haulage.runtime.exchange.ipc import IpcArrayHandle, IpcHandle

pytestmark = pytest.mark.usefixtures("device")

SOURCE = Path(haulage.__path__[0]).parent


@pytest.fixture(autouse=True)
def _needs_ipc(device):
    try:
        cuda.to_device(np.zeros(1)).get_ipc_handle()
    except Unsupported as error:
        pytest.skip(str(error))


def flipped_bytes(raw):
    for bit in range(8 * len(raw)):
        changed = bytearray(raw)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def flipped(number):
    return [number ^ 1 << bit for bit in range(64)] + [-number - 1, 1 << 64, 1 << 200]


def replaced(numbers):
    for axis, number in enumerate(numbers):
        for changed in flipped(number):
            yield (*numbers[:axis], changed, *numbers[axis + 1 :])


def variants(handle):
    """(what was changed, a function that makes such a handle), one bit at a time."""
    memory = handle.handle
    parts = {
        "base": None,
        "handle": memory.handle,
        "size": memory.size,
        "source_info": memory.device,
        "offset": memory.offset,
    }
    array = {"shape": handle.shape, "strides": handle.strides, "dtype": handle.dtype}

    def made(name, value):
        if name in parts:
            return IpcArrayHandle(IpcHandle(**{**parts, name: value}), **array)
        return IpcArrayHandle(IpcHandle(**parts), **{**array, name: value})

    names = [each.decode("latin1") for each in flipped_bytes(memory.device.encode())]
    kinds = [each.decode("latin1") for each in flipped_bytes(handle.dtype.str.encode())]
    changed = {
        "handle": flipped_bytes(memory.handle),
        "size": flipped(memory.size),
        "offset": flipped(memory.offset),
        "source_info": names,
        "shape": replaced(handle.shape),
        "strides": replaced(handle.strides),
        "dtype": kinds,
    }
    for name, values in changed.items():
        for value in values:
            yield name, lambda name=name, value=value: made(name, value)


OPENER = """
import faulthandler, pickle, sys
faulthandler.enable()
sys.path[:0] = eval(sys.argv[2])
import numpy as np
from haulage import cuda
from haulage.errors import HaulageError
from test_changed_ipc_handles import variants

handle, byte = pickle.loads(bytes.fromhex(sys.argv[1]))
count = opened = 0
for name, make in variants(handle):
    count += 1
    try:
        changed = make()
        array = changed.open()
    except (HaulageError, ValueError, TypeError) as error:
        assert str(error), name
        continue
    opened += 1
    seen = np.frombuffer(array.copy_to_host().tobytes(), np.uint8)
    assert (seen == byte).all(), f"{name}: {changed} shows other memory"
    changed.close()
print(count, opened)
"""


def opened_by_another(handle, byte):
    """How many changed handles another process opened, of how many."""
    sent = pickle.dumps((handle, byte)).hex()
    paths = [str(SOURCE), str(Path(__file__).parent), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", OPENER, sent, repr(paths)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [int(number) for number in done.stdout.split()[-2:]]


@pytest.mark.parametrize("size", [60, 9000])
def test_a_flipped_bit_is_refused_or_stays_in_the_memory(size):
    neighbours = [cuda.to_device(np.full((4, size // 4), 0x0202, np.uint16)) for _ in range(3)]
    array = cuda.to_device(np.full((4, size // 4), 0x0101, np.uint16))
    neighbours += [cuda.to_device(np.full((4, size // 4), 0x0202, np.uint16)) for _ in range(3)]
    count, opened = opened_by_another(array[1:, 3:].get_ipc_handle(), 1)
    assert count > 900
    assert 0 < opened < count // 4
    assert all((each.copy_to_host() == 0x0202).all() for each in neighbours)


def openings(handle):
    """In another process: what opening says."""
    try:
        handle.open()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "opened"


def test_parts_that_do_not_belong_together_are_refused():
    array = cuda.to_device(np.arange(10))
    small = array.get_ipc_handle().handle
    large = cuda.to_device(np.arange(100_000)).get_ipc_handle().handle
    wrong = {
        "exported has 80": IpcHandle(None, small.handle, 81, small.device),
        "exported has 80 ": IpcHandle(None, small.handle, 80, small.device, 1),
        "exported has 80  ": IpcHandle(None, small.handle, large.size, small.device),
        "no IPC handle": IpcHandle(None, small.handle[:40], 80, small.device),
        "no IPC handle ": IpcHandle(None, small.handle + b"\0", 80, small.device),
        "exported has 0": IpcHandle(None, b"", 80, small.device),
    }
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        told = pool.map(openings, wrong.values())
    for expected, said in zip(wrong, told, strict=True):
        assert expected.strip() in said, expected


@pytest.mark.parametrize(
    ("size", "offset", "error", "expected"),
    [
        (-1, 0, ValueError, "bytes of size -1: expected a whole number from 0"),
        (80, -8, ValueError, "bytes of offset -8: expected"),
        ("80", 0, TypeError, "bytes of size '80': expected a whole number"),
        (80, 1.5, TypeError, "bytes of offset 1.5: expected a whole number"),
    ],
)
def test_what_is_no_number_of_bytes_makes_no_handle(size, offset, error, expected):
    known = cuda.to_device(np.arange(10)).get_ipc_handle().handle
    with pytest.raises(error, match=expected):
        IpcHandle(None, known.handle, size, known.device, offset)
