"""`print` in kernels."""

import enum
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

from haulage import cuda, roc
from haulage.errors import CompileError

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


@pytest.fixture
def printed(capsys):
    """Waits for the device; the lines that came to standard output."""

    def lines():
        cuda.synchronize()
        return capsys.readouterr().out.splitlines()

    return lines


@pytest.mark.ptx_always
@pytest.mark.parametrize("words", [cuda, roc], ids=["cuda", "roc"])
def test_lines_of_values_and_strings(words, way, printed):
    @words.jit
    def kernel(x):
        i = x[0]
        print(i, i * 1.5, "is {} and %d", i > 2, "")
        print()
        print("only words")

    kernel[1, 1](cuda.to_device(np.array([3])))
    assert printed() == ["3 4.5 is {} and %d True ", "", "only words"]
    assert printed() == []


VALUES = [
    *(np.dtype(name).type(-5) for name in ("i1", "i2", "i4", "i8")),
    *(np.iinfo(name).max for name in ("u1", "u2", "u4", "u8")),
    np.float32(0.1),
    0.1,
    np.float32("inf"),
    float("nan"),
    -0.0,
    np.complex64(1.5 - 2j),
    0.1 + 2j,
    True,
    False,
    -(2**63),
]


@pytest.mark.ptx_always
@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}({value})")
def test_values_look_as_in_python(value, way, printed):
    @cuda.jit
    def kernel(value):
        print("<", value, ">")

    kernel[1, 1](value)
    assert printed() == ["< " + str(value) + " >"]


def test_literals(way, printed):
    @cuda.jit
    def kernel():
        print(7, 2.5, True, "x", 1j)

    kernel[1, 1]()
    assert printed() == ["7 2.5 True x 1j"]


class Point(NamedTuple):
    x: float
    name: None
    inner: tuple


TUPLES = [
    *((), (7,), (1, 2, 3), ((1, (2.5, True)), (4,)), (None, 1 + 2j, ())),
    Point(1.5, None, (np.float32(0.1).item(), 3)),
]


@pytest.mark.parametrize("value", TUPLES, ids=str)
def test_tuples_look_as_in_python(value, way, printed):
    @cuda.jit
    def kernel(value):
        print("<", value, (2, value), ">", None)

    kernel[1, 1](value)
    assert printed() == [f"< {value} {(2, value)} > None"]


def test_places_of_threads_look_as_tuples(way, printed):
    @cuda.jit
    def kernel():
        place = cuda.threadIdx
        print(place, "of", cuda.blockDim)

    kernel[1, (2, 1, 2)]()
    places = sorted((x, 0, z) for x in range(2) for z in range(2))
    assert sorted(printed()) == [f"{place} of (2, 1, 2)" for place in places]


class Color(enum.IntEnum):
    RED = 1
    BLUE = 2


def test_members_of_an_int_enum(way, printed):
    @cuda.jit
    def kernel(color):
        print(Color.RED, color)

    kernel[1, 1](Color.BLUE)
    assert printed() == ["1 2"]


def test_every_thread_prints_in_its_own_order(way, printed):
    @cuda.jit
    def kernel():
        i = cuda.grid(1)
        for k in range(3):
            if i % 2 == 0:
                print(i, k)

    kernel[10, 64]()
    found = [tuple(map(int, line.split())) for line in printed()]
    assert sorted(found) == [(i, k) for i in range(0, 640, 2) for k in range(3)]
    for i in range(0, 640, 2):
        assert [k for thread, k in found if thread == i] == [0, 1, 2]


@pytest.mark.ptx_always
def test_prints_around_barriers(way, printed):
    @cuda.jit
    def kernel(x):
        room = cuda.shared.array(32, np.int64)
        t = cuda.threadIdx.x
        for step in range(x[0]):
            room[t] = t + step
            cuda.syncthreads()
            print(step, room[31 - t])
            cuda.syncthreads()

    kernel[1, 32](cuda.to_device(np.array([2])))
    lines = printed()
    assert sorted(lines[:32]) == sorted(f"0 {31 - t}" for t in range(32))
    assert sorted(lines[32:]) == sorted(f"1 {32 - t}" for t in range(32))


def test_printing_changes_no_result(way, printed):
    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        x[i] = 2 * x[i]
        if x[i] == 20:
            print("twenty at", i)
        x[i] += 1

    x = cuda.to_device(np.arange(1000))
    kernel[10, 100](x)
    assert printed() == ["twenty at 10"]
    np.testing.assert_array_equal(x.copy_to_host(), 2 * np.arange(1000) + 1)


def test_functions_that_a_kernel_calls_print(way, printed):
    @cuda.jit(device=True)
    def tell(value):
        print("told", value)
        return value

    def plain(value):
        print("plainly", value)

    @cuda.jit
    def kernel():
        plain(tell(5))

    kernel[1, 1]()
    assert printed() == ["told 5", "plainly 5"]


@cuda.jit(device=True)
def count_down(value):
    print("count", value)
    if value == 0:
        return value
    return count_down(value - 1)


def test_functions_that_call_themselves_print(way, printed):
    @cuda.jit
    def kernel(x):
        x[0] = count_down(x[0])

    kernel[1, 1](cuda.to_device(np.array([2])))
    assert printed() == ["count 2", "count 1", "count 0"]


def test_what_is_printed_comes_with_the_wait_for_it(way, capsys):
    @cuda.jit
    def kernel(x):
        print("here")
        x[0] = 1

    stream = cuda.stream()
    x = cuda.to_device(np.zeros(1), stream)
    waits = [
        lambda event: stream.synchronize(),
        lambda event: event.synchronize(),
        lambda event: x.copy_to_host(stream=stream),
        lambda event: x.copy_to_host(),
    ]
    for wait in waits:
        kernel[1, 1, stream](x)
        event = cuda.event()
        event.record(stream)
        wait(event)
        stream.synchronize()
        assert capsys.readouterr().out == "here\n"
    kernel[1, 1](np.zeros(1))
    assert capsys.readouterr().out == "here\n"


def test_prints_of_a_debug_kernel_come_before_its_failure(way, capsys):
    @cuda.jit(debug=True)
    def kernel(x):
        print("before")
        x[0] = 1 // x[0]
        print("after")

    with pytest.raises(ZeroDivisionError):
        kernel[1, 1](cuda.to_device(np.zeros(1, np.int64)))
    assert capsys.readouterr().out == "before\n"


@pytest.mark.ptx_always
def test_lines_without_room_are_counted(device, way, printed):
    @cuda.jit
    def kernel():
        print("line", cuda.grid(1))

    kernel[256, 1024]()
    lines = printed()
    # A MiB of 16 bytes a line.
    assert len(lines) == 65536 + 1
    assert f"{256 * 1024 - (len(lines) - 1)} more prints found no room" in lines[-1]
    kernel[1, 2]()
    assert sorted(printed()) == ["line 0", "line 1"]


def test_what_cannot_be_printed_is_refused(device):
    @cuda.jit
    def array(x):
        print("x is", x)

    @cuda.jit
    def ended(x):
        print(x[0], end="")

    x = cuda.to_device(np.zeros(40))
    with pytest.raises(CompileError, match=r"print, argument 2: expected a number.*array"):
        array[1, 1](x)
    with pytest.raises(CompileError, match="keyword"):
        ended[1, 1](x)


def test_a_line_of_more_values_than_cudas_printf_takes(way, printed):
    many = cuda.jit(
        eval("lambda x: print(" + ", ".join(f"x[{place}]" for place in range(70)) + ")")
    )
    many[1, 1](cuda.to_device(np.arange(70)))
    assert printed() == [" ".join(map(str, range(70)))]


@pytest.mark.parametrize("wait", ["", "cuda.synchronize()"])
def test_a_program_that_ends_shows_all(device, tmp_path, wait):
    program = tmp_path / "program.py"
    program.write_text(
        f"""
from haulage import cuda

@cuda.jit
def kernel():
    print("in", cuda.threadIdx.x)

kernel[1, 2]()
{wait}
"""
    )
    ended = subprocess.run(
        [sys.executable, program],
        # In the adversarial mode a kernel that nobody waits for never runs.
        env={**os.environ, "HAULAGE_DEVICE": str(device), "HAULAGE_ADVERSARY": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "in 0\nin 1\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_prints_its_own_lines_only(device, capfd):
    if device.kind != "cpu":
        pytest.skip(f"{device} cannot be used in a forked child")

    @cuda.jit
    def kernel(value):
        print("value", value)

    kernel[1, 1](1)
    child = os.fork()
    if not child:
        try:
            kernel[1, 1](2)
            cuda.synchronize()
            sys.stdout.flush()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    cuda.synchronize()
    assert capfd.readouterr().out.splitlines() == ["value 2", "value 1"]
