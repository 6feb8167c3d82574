"""What a copy is told to be, and through which files it goes."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage._core.copies import SMALL
from haulage.runtime.buffers.copy import NOTHING, TO_DEVICE, TO_HOST, WITHIN, Copy

PACKAGE = Path(haulage.__file__).parent
PAGE = (Path(__file__).parents[4] / "docs" / "design.md").read_text(encoding="utf-8")


def walk(name):
    """The files that the page names on the walk from a call to the copy."""
    _, _, behind = PAGE.partition(f"### `{name}`, from the call to the copy\n")
    section = re.split(r"^#", behind, maxsplit=1, flags=re.M)[0]
    return re.findall(r"^\d\. `([\w/]+\.py)`", section, re.M)


def files_on_the_way(monkeypatch, call):
    """The files of Haulage's that have called others when a copy reaches the back end.

    Small ones do not, see `haulage._core.copies`.
    """
    seen = []
    kind = type(haulage.cuda.current_context().device.backend)
    true_copy = kind.copy

    def copy(backend, *args):
        frame = sys._getframe(1)
        while frame is not None:
            file = Path(frame.f_code.co_filename)
            if file.is_relative_to(PACKAGE):
                seen.append(file.relative_to(PACKAGE).as_posix())
            frame = frame.f_back
        return true_copy(backend, *args)

    monkeypatch.setattr(kind, "copy", copy)
    call()
    monkeypatch.undo()
    return set(seen)


@pytest.mark.parametrize("name", ["to_device", "copy_to_host"])
def test_the_walk_of_a_copy_has_few_files_which_are_there(name):
    files = walk(name)
    assert 0 < len(files) <= 8
    assert [file for file in files if not (PACKAGE / file).is_file()] == []


def test_to_device_goes_by_the_files_of_its_walk(monkeypatch):
    passed = files_on_the_way(monkeypatch, lambda: cuda.to_device(np.zeros(SMALL)))
    assert "api/arrays.py" in passed
    assert "runtime/buffers/transfer.py" in passed
    assert passed <= {*walk("to_device")}


def test_copy_to_host_goes_by_the_files_of_its_walk(monkeypatch):
    array = cuda.to_device(np.zeros(SMALL))
    passed = files_on_the_way(monkeypatch, array.copy_to_host)
    assert "runtime/buffers/transfer.py" in passed
    assert passed <= {*walk("copy_to_host")}


def to_device(array, host, steps=None):
    steps = host.strides if steps is None else steps
    stream = array.device.default_stream
    return Copy.to_device(stream, array, array.strides, host, steps, array.shape)


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_without_gaps_has_one_axis(order):
    host = np.zeros((4, 5, 6), "f4", order=order)
    copy = to_device(cuda.device_array((4, 5, 6), "f4", order=order), host)
    assert copy.direction is TO_DEVICE
    assert (copy.shape, copy.target.strides, copy.source.strides) == ((120,), (4,), (4,))
    assert copy.is_dense
    assert copy.nbytes == 480


def test_axes_are_merged_as_far_as_both_sides_allow():
    host = np.zeros((4, 5, 12), "f4")[:, :, ::2]
    copy = to_device(cuda.device_array((4, 5, 6), "f4"), host)
    assert (copy.shape, copy.target.strides, copy.source.strides) == ((120,), (4,), (8,))
    assert not copy.is_dense


def test_an_axis_that_the_target_repeats_is_written_once():
    whole = cuda.device_array(3, "f8")
    array = cuda.devicearray.DeviceNDArray((4, 3), (0, 8), "f8", gpu_data=whole.gpu_data)
    copy = to_device(array, np.zeros(3), (0, 8))
    assert copy.shape == (3,)
    assert copy.nbytes == 96
    assert copy.written_nbytes == 24
    assert not copy.is_dense
    with pytest.raises(ValueError, match="cannot write 4 values to axis 0 of the target"):
        to_device(array, np.zeros((4, 3)))


@pytest.mark.parametrize("shape", [0, (3, 0), (0, 3)])
def test_a_copy_of_nothing_has_no_axes_of_its_own(shape):
    assert to_device(cuda.device_array(shape), np.zeros(shape)).shape == NOTHING


def test_each_constructor_knows_its_direction():
    array, host = cuda.device_array(3), np.zeros(3)
    stream = array.device.default_stream
    ends = array, array.strides
    up = Copy.to_device(stream, *ends, host, host.strides, (3,))
    down = Copy.to_host(stream, host, host.strides, *ends, (3,), False)
    there = Copy.within(stream, *ends, *ends, (3,))
    assert [each.direction for each in (up, down, there)] == [TO_DEVICE, TO_HOST, WITHIN]
    assert up.on_device == down.on_device == up.target == down.source
    assert up.on_host == down.on_host
    with pytest.raises(AttributeError):
        up.shape = (2,)


def test_a_part_of_each_element_is_copied_on_its_own():
    kind = np.dtype(
        {"names": ["x", "y"], "formats": ["i4", "f4"], "offsets": [4, 20], "itemsize": 32}
    )
    array = cuda.device_array(3, kind)
    copy = to_device(array, np.zeros(3, kind))
    assert copy.parts == ((4, 4), (20, 4))
    assert copy.nbytes == 24
    part = copy.of_part(20, 4)
    assert part.target.address == copy.target.address + 20
    assert (part.itemsize, part.parts, part.written_nbytes) == (4, None, 12)
