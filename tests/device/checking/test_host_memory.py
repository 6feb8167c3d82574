"""The check of the host's memory: what is used or freed after it was freed, and leaks."""

import json
import subprocess
import sys

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.checking.session import Session
from haulage.memory import Driver, Pool, using_allocator
from haulage.runtime.process import runtime

pytestmark = pytest.mark.usefixtures("device")

N = 1000


@cuda.jit
def change(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = 2


@pytest.fixture
def check():
    """A session that checks memory."""
    session = Session(("memory",))
    session.begin()
    yield session
    session.end()


def only(session):
    (found,) = session.findings
    return found


def here(offset=0):
    """The line of the caller, or one near it."""
    return sys._getframe(1).f_lineno + offset


def use_in_a_launch(x):
    change[4, 256](x)


def use_in_a_copy(x):
    x.copy_to_host()


def use_of_an_element(x):
    x[3]


@pytest.mark.parametrize("use", [use_in_a_launch, use_in_a_copy, use_of_an_element])
@pytest.mark.parametrize("part", [slice(None), slice(10, 20)], ids=["array", "view"])
def test_a_closed_array_that_is_used_is_told_beside_the_error(check, use, part):
    x = cuda.device_array(N)
    made = here(-1)
    view = x[part]
    x.close()
    closed = here(-1)
    with pytest.raises(ValueError, match="given back by close"):
        use(view)
    found = only(check)
    assert found.kind == "freed"
    assert found.access.place.line == use.__code__.co_firstlineno + 1
    assert (found.access.what, found.other.what) == ("use", "free")
    assert (found.other.place.file, found.other.place.line) == (__file__, closed)
    assert found.allocated.line == made
    assert f"{8 * N} bytes" in found.message


def test_closing_again_is_no_mistake_but_freeing_again_is(check):
    x = cuda.device_array(N)
    x.close()
    x.close()
    assert not len(check.findings)
    memory = cuda.current_context().memalloc(64)
    memory.free()
    freed = here(-1)
    memory.free()
    found = only(check)
    assert (found.kind, found.access.what) == ("freed", "free")
    assert (found.access.place.line, found.other.place.line) == (freed + 2, freed)
    assert "freed twice" in found.message


class Pointer:
    """An array of another package's making, which keeps nothing alive."""

    def __init__(self, array):
        self.__cuda_array_interface__ = {
            "data": (int(array.device_pointer), False),
            "shape": array.shape,
            "typestr": array.dtype.str,
            "strides": None,
            "version": 3,
        }


@pytest.mark.in_order  # what is not kept for later may be anybody's once it is freed
def test_a_pointer_that_outlives_its_memory_is_found(check):
    keep = [cuda.device_array(N) for _ in range(4)]  # so that its memory is not given back further
    x = cuda.device_array(N)
    made = here(-1)
    pointer = Pointer(x)
    change[4, 256](pointer)
    assert not len(check.findings)
    del x
    freed = here(-1)
    change[4, 256](pointer)
    found = only(check)
    assert (found.kind, found.array, found.access.kernel) == ("freed", "x", "change")
    assert found.access.place.line == freed + 2
    assert (found.other.place.line, found.allocated.line) == (freed, made)
    cuda.synchronize()
    check.findings.clear()
    again = cuda.device_array(N)
    change[4, 256](again)
    assert not len(check.findings)
    assert keep


def test_arrays_that_are_used_as_they_should_be_are_silent(check):
    for _ in range(20):
        with cuda.device_array(N) as x:
            change[4, 256](x)
            assert x.copy_to_host()[1] == 2
        y = cuda.to_device(np.zeros(N))
        change[4, 256](y[::2])
        del y
    assert not len(check.findings)


def test_pinned_memory_goes_back_by_the_driver_that_is_watched(device):
    """What is not told to be gone is found wrong when NumPy has its addresses."""
    kept = cuda.pinned_array(1)  # now there is memory of this kind, before the check begins
    with haulage.check(only="memory") as result:
        gone = cuda.pinned_array(1 << 26, np.uint8)
        address = gone.ctypes.data
        memory = runtime.current.host_checker.memory
        assert memory.is_held(address)
        del gone
        haulage.memory.trim()
        assert not memory.is_held(address)
    assert len(result) == 0
    assert kept.size == 1


@pytest.mark.parametrize("allocator", [Driver, Pool])
def test_memory_that_an_allocator_gives_again_is_the_new_arrays(device, allocator):
    session = Session(("stream", "memory"))
    session.begin()
    with using_allocator(allocator()):
        for stream in (cuda.stream(), cuda.stream()) * 5:
            x = cuda.device_array(N, stream=stream)
            change[4, 256, stream](x)
            x.copy_to_device(np.zeros(N), stream=stream)
            del x
    session.end()
    assert not len(session.findings)


PROGRAM = """
import numpy as np
from haulage import cuda, roc

kept = cuda.device_array(100)
host, other = np.zeros(100), np.zeros(50)
roc.register(host)
with cuda.pinned(other):
    pass
"""


def test_host_memory_that_stays_pinned_is_a_leak_and_an_array_that_is_alive_is_none(tmp_path):
    path, report = tmp_path / "program.py", tmp_path / "report.json"
    path.write_text(PROGRAM)
    command = ["-m", "haulage", "check", "--only", "memory", "--json", report, path]
    ran = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 1, ran.stderr
    (found,) = json.loads(report.read_text())["findings"]
    assert (found["kind"], found["line"], found["access"]) == ("leak", 7, "pin")
    assert "a host array of 800 bytes" in found["message"]
