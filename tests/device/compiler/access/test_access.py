"""`kernel.access`: what kernels do with their arguments, and which launches write all of them."""

import enum
import re
import textwrap

import numpy as np
import pytest

from device.compiler.access import access_checks
from haulage import SmartArray, cuda, roc
from haulage.errors import LaunchError

# In this way of running threads, code for the CPU is made soonest.
WAYS = ("scalar",)

pytestmark = pytest.mark.usefixtures("device", "way")

SIGNATURE = "void(float64[::1], float64[::1], float64[:, ::1], int64, uint8)"


def made(lines, **names):
    """A kernel of these lines; its parameters are `x`, `y`, `m` of two axes, `n` and `k`."""
    known = {"cuda": cuda, "roc": roc, "np": np, **names}
    exec("def program(x, y, m, n, k):\n" + textwrap.indent(textwrap.dedent(lines), "    "), known)
    return cuda.jit(known["program"])


def said(lines, **names):
    return {name: str(each) for name, each in made(lines, **names).access(SIGNATURE).items()}


# ---- read, written, both, not touched --------------------------------------------------------


@cuda.jit(device=True)
def store(array, index, value):
    array[index] = value


@cuda.jit(device=True)
def part(array):
    return array[2:]


@cuda.jit(device=True)
def downwards(array, index):
    if index > 0:
        array[index] = 1
        downwards(array, index - 1)


MODES = {
    "pass": "none",
    "y[0] = x.size + len(x) + x.shape[0] + x.ndim + x.strides[0] + x.itemsize": "none",
    "if x is y: pass": "none",
    "y[0] = x[3]": "r",
    "print(x[1])": "r",
    "y[0] = x[2:][1] + x[::2][0]": "r",
    "y[0] = x.reshape((2, 4))[1, 1]": "r",
    "y[0] = x.view(np.int64)[0]": "r",
    "z = x if n > 2 else y\nm[0, 0] = z[0]": "r",
    "for each in (x, y):\n    m[0, 0] = each[0]": "r",
    "y[0] = part(x)[0]": "r",
    "for value in x:\n    y[0] = value": "r",
    "x[0] = 1": "w",
    "x[:] = 1": "w",
    "part(x)[0] = 1": "w",
    "store(x, 3, 1.0)": "w",
    "x.view(np.int64)[0] = 1": "w",
    "x[n] = y[0]": "w",
    "z = x if n > 2 else y\nz[0] = 1": "w",
    "downwards(x, n)": "w",
    "x[0] += 1": "rw",
    "x[0] = x[1]": "rw",
    "x[2:] = x[:-2]": "rw",
    "store(x, 3, x[0])": "rw",
    "x[0] = 1\ny[0] = x[1]": "rw",
    "y[0] = x[0]\nx[0] = 1": "rw",
    "if n:\n    x[0] = 1\nelse:\n    y[0] = x[0]": "rw",
    "cuda.atomic.add(x, 0, 1)": "rw",
    "y[0] = cuda.atomic.exch(x, 0, 1.0)": "rw",
}


def test_arrays_are_read_or_written():
    """Each by lines of its own, in one kernel."""
    parameters = [f"x{number}" for number in range(len(MODES))]
    names = {"np": np, "cuda": cuda, "store": store, "part": part, "downwards": downwards}
    text = f"def program({', '.join(parameters)}, y, m, n):\n"
    for number, lines in enumerate(MODES):
        text += textwrap.indent(re.sub(r"\bx\b", f"x{number}", lines), "    ") + "\n"
    exec(text, names)
    arrays = "float64[::1], " * (len(MODES) + 1)
    found = cuda.jit(names["program"]).access(f"void({arrays}float64[:, ::1], int64)")
    modes = {lines: found[f"x{number}"].mode for number, lines in enumerate(MODES)}
    assert modes == MODES
    assert list(found) == [*parameters, "y", "m"]


def test_a_loop_over_one_tuple_counts_for_each_array_of_it():
    names = said("for each in (x, y):\n    each[0] = m[0, 0]")
    assert names == {"x": "w", "y": "w", "m": "r"}


def test_arrays_in_tuples_are_told_apart():
    @cuda.jit
    def kernel(pair, n, deep):
        i = cuda.grid(1)
        if i < pair[1].size:
            pair[1][i] = pair[0][i] * n
        deep[1][0][i] += 1

    array = np.zeros(4)
    kernel[1, 4]((array, array.copy()), 2, (1, (array.copy(),)))
    found = kernel.access()
    assert {name: each.mode for name, each in found.items()} == {
        "pair[0]": "r",
        "pair[1]": "w",
        "deep[1][0]": "rw",
    }
    read, written = found.arguments[0]
    assert (read, written) == (found["pair[0]"], found["pair[1]"])
    assert found.arguments[1] is None
    assert found.arguments[2] == (None, (found["deep[1][0]"],))
    assert written.overwrites(1, 4, ((array, array), 2, (1, (array,))))
    assert not written.overwrites(1, 3, ((array, array), 2, (1, (array,))))
    assert str(written) == "w, all of it if the grid has at least pair[1].size threads"


def test_records_are_arguments_with_memory():
    kind = np.dtype([("a", np.int32), ("b", np.float64)])

    @cuda.jit
    def kernel(one, other, many):
        one.b = other.a
        many[0].a += 1

    records = np.zeros(2, kind)
    kernel[1, 1](records[0], records[1], records.copy())
    assert {name: each.mode for name, each in kernel.access().items()} == {
        "one": "w",
        "other": "r",
        "many": "rw",
    }


def test_what_has_no_memory_is_not_listed():
    class Colour(enum.IntEnum):
        RED = 1

    @cuda.jit
    def kernel(nothing, number, colour, kind, flag, half, *rest):
        x, y = rest
        x[0] = kind(y[0] + number.real + colour + flag + half)

    x = np.zeros(2)
    kernel[1, 1](None, 2j, Colour.RED, np.float32, True, np.float16(2), x, np.ones(2))
    assert x[0] == 5
    assert repr(kernel.access()) == "{'rest[0]': 'w', 'rest[1]': 'r'}"


# ---- wholly overwritten ----------------------------------------------------------------------

GRID = "w, all of it if the grid has at least x.size threads"
HAND = "i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x\n"
PLACE = "i, j = cuda.grid(2)\n"
TWO = "w, all of it if the grid has at least m.shape[0] threads along {} and m.shape[1] {} along {}"

# Lines -> what is said of the one array that is written, x or m.
WHOLES = {
    "i = cuda.grid(1)\nif i < x.size:\n    x[i] = y[i]": GRID,
    "i = cuda.grid(1)\nif i < len(x):\n    x[i] = n": GRID,
    "i = cuda.grid(1)\nif not i >= x.shape[0] and i >= 0:\n    x[i] = 1": GRID,
    "i = cuda.grid(1)\nif (i <= x.size - 1) & (-1 < i):\n    x[i] = 1": GRID,
    "i = cuda.grid(1)\nif i >= n:\n    return\nx[i] = 1": f"{GRID} and n >= x.size",
    "i = cuda.grid(1)\nif i + 1 < n:\n    x[i] = 1": f"{GRID} and n - 1 >= x.size",
    "i = cuda.grid(1)\nif n > i:\n    x[i] = 1": f"{GRID} and n >= x.size",
    "i = cuda.grid(1)\nif i < y.size:\n    x[i] = y[i]": f"{GRID} and y.shape[0] >= x.size",
    "x[cuda.grid(1)] = 1": GRID,
    "i = cuda.grid(1)\nif i >= x.size:\n    return\nz = x\nfor j in range(n):\n    y[0] = j\n"
    "z[i] = 2": GRID,
    HAND + "if i < x.size:\n    x[i] = 1": GRID,
    "i = roc.get_global_id(0)\nif i < x.size:\n    x[i] = 1": GRID,
    "i = roc.get_group_id(0) * roc.get_local_size(0) + roc.get_local_id(0)\n"
    "if i < x.size:\n    x[i] = 1": GRID,
    "i = cuda.grid(1)\nif i < x.size:\n    if y[i] > 0:\n        x[i] = 1\n"
    "    else:\n        x[i] = y[i]": GRID,
    "i = cuda.grid(1)\nif i < x.size:\n    if 0 < i < x.size - 1:\n        x[i] = y[i]\n"
    "    else:\n        x[i] = 0": GRID,
    "i = cuda.grid(1)\nif i == 3:\n    x[0] = 1\nif i < x.size:\n    x[i] = 1": GRID,
    "if cuda.threadIdx.y == 0:\n    x[cuda.threadIdx.x] = 1":
    "w, all of it if each block has at least x.size threads",
    "x[cuda.blockIdx.x] = 1": "w, all of it if the grid has at least x.size blocks",
    "x[cuda.grid(2)[1]] = 1": "w, all of it if the grid has at least x.size threads along y",
    "for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):\n    x[i] = y[i]": "w, all of it",
    "for i in range(cuda.grid(1), n, cuda.gridsize(1)):\n    x[i] = 1":
    "w, all of it if n >= x.size",
    "i = cuda.grid(1)\nwhile i < x.size:\n    x[i] = 1\n    i += cuda.gridsize(1)": "w, all of it",
    HAND + "while i < n:\n    if y[i] > 0:\n        x[i] = 1\n    else:\n        x[i] = 2\n"
    "    i += cuda.blockDim.x * cuda.gridDim.x": "w, all of it if n >= x.size",
    "i = cuda.threadIdx.x\nwhile True:\n    if i >= x.size:\n        break\n"
    "    x[i] = 1\n    i = i + cuda.blockDim.x": "w, all of it",
    "for i in range(x.size):\n    x[i] = 1": "w, all of it",
    PLACE + "if i < m.shape[0] and j < m.shape[1]:\n    m[i, j] = 1":
    TWO.format("x", "", "y").replace("1]  ", "1] threads "),
    PLACE + "if j >= m.shape[0] or i >= m.shape[1]:\n    return\nm[j, i] = 1":
    TWO.format("y", "", "x").replace("1]  ", "1] threads "),
    PLACE + "rows, columns = m.shape\nif i < rows:\n    if j < columns:\n        m[i, j] = 1":
    TWO.format("x", "", "y").replace("1]  ", "1] threads "),
    "i = cuda.grid(1)\nif i < m.shape[0]:\n    for j in range(m.shape[1]):\n        m[i, j] = 1":
    "w, all of it if the grid has at least m.shape[0] threads along x",
    "i, j = cuda.grid(2)\na, b = cuda.gridsize(2)\nfor p in range(i, m.shape[0], a):\n"
    "    for q in range(j, m.shape[1], b):\n        m[p, q] = 1": "w, all of it",
    "for p in range(cuda.blockIdx.x, m.shape[0], cuda.gridDim.x):\n    q = cuda.threadIdx.x\n"
    "    while q < m.shape[1]:\n        m[p, q] = 1\n        q += cuda.blockDim.x": "w, all of it",
}  # fmt: skip

LAUNCHES = ((2, 4), (9, 4))
LAUNCHES_OF_TWO = (((2, 2), (4, 4)), ((1, 1), (4, 4)))


def arguments(size, n, rows=3):
    random = np.random.default_rng(0)
    return (
        *(random.normal(size=size), random.normal(size=size)),
        *(random.normal(size=(rows, 5)), n, np.uint8(1)),
    )


@pytest.mark.parametrize("lines", WHOLES)
def test_a_launch_overwrites_an_array(lines):
    kernel = made(lines)
    name = "m" if "m[" in lines else "x"
    assert str(kernel.access(SIGNATURE)[name]) == WHOLES[lines]
    launches = LAUNCHES_OF_TWO if "grid(2)" in lines else LAUNCHES
    found = {
        access_checks.check(kernel, grid, block, arguments(*sizes)) != []
        for grid, block in launches
        for sizes in ((9, 8, 3), (9, 9, 3), (3, 9, 20))
    }
    # Loops come to all elements whatever the grid is.
    assert found == ({True, False} if " if " in WHOLES[lines] else {True})


# A number of which the square is 0 in 64 bits.
WRAPPED = "k = 4294967296 + 0 * x.size\n"

# What is not overwritten wholly, or not surely so.
MISSES = {
    "the guard is one short": "i = cuda.grid(1)\nif i < x.size - 1:\n    x[i] = 1",
    "a guard below": "i = cuda.grid(1)\nif i > 0 and i < x.size:\n    x[i] = 1",
    "another guard": "i = cuda.grid(1)\nj = i * 2\nif j < x.size:\n    x[i] = 1",
    "a guard by the value": "i = cuda.grid(1)\nif i < x.size and y[i] > 0:\n    x[i] = 1",
    "the other side of the guard": "i = cuda.grid(1)\nif i >= x.size:\n    x[i - x.size] = 1",
    "unequal": "i = cuda.grid(1)\nif i != 3 and i < x.size:\n    x[i] = 1",
    "a return before": "i = cuda.grid(1)\nif y[i] > 0:\n    return\nif i < x.size:\n    x[i] = 1",
    "an index that is one more": "i = cuda.grid(1)\nif i < x.size - 1:\n    x[i + 1] = 1",
    "an index that is one less": "i = cuda.grid(1) - 1\nif 0 <= i < x.size:\n    x[i] = 1",
    "a negative index": "i = cuda.grid(1)\nif i < x.size - 1:\n    x[-i] = 1",
    "every second": "i = 2 * cuda.grid(1)\nif i < x.size:\n    x[i] = 1",
    "halved": "i = cuda.grid(1)\nif i < x.size:\n    x[i // 2] = 1",
    "a view with a step": "z = x[::2]\ni = cuda.grid(1)\nif i < z.size:\n    z[i] = 1",
    "a part": "z = x[1:]\ni = cuda.grid(1)\nif i < z.size:\n    z[i] = 1",
    "one of two arrays": "z = x if n > 5 else y\ni = cuda.grid(1)\nif i < z.size:\n    z[i] = 1",
    "a constant index": "x[0] = 1",
    "an index from memory": "i = cuda.grid(1)\nif i < x.size:\n    x[int(y[i]) % 2] = 1",
    "a narrow index": "i = np.int8(cuda.grid(1))\nif i < x.size:\n    x[i] = 1",
    "a float is compared": "i = cuda.grid(1)\nif i < y[0]:\n    x[i] = 1",
    "read before": "i = cuda.grid(1)\nif i < x.size:\n    y[0] = x[i]\n    x[i] = 1",
    "read behind": "i = cuda.grid(1)\nif i < x.size:\n    x[i] = 1\n    y[0] = x[i - 1]",
    "kept as it is": "i = cuda.grid(1)\nif i < x.size:\n    if y[i] > 0:\n        x[i] = x[i]\n"
    "    else:\n        x[i] = 1",
    "kept by another name": "i = cuda.grid(1)\nz = x\nif i < x.size:\n    x[i] = z[i]\nx[0] = 1",
    "given to a function": "i = cuda.grid(1)\nif i < x.size:\n    x[i] = 1\nstore(x, 0, 1.0)",
    "added to": "i = cuda.grid(1)\nif i < x.size:\n    x[i] += 1",
    "an error before": "i = cuda.grid(1)\nif y[i] == 77:\n    raise ValueError\n"
    "if i < x.size:\n    x[i] = 1",
    "an assertion": "i = cuda.grid(1)\nassert n > 0\nif i < x.size:\n    x[i] = 1",
    "a barrier": "i = cuda.grid(1)\nif i < x.size:\n    cuda.syncthreads()\n    x[i] = 1",
    "lanes that wait": "i = cuda.grid(1)\nif i < x.size:\n"
    "    x[i] = cuda.ballot_sync(0xffffffff, 1)",
    "in a function": "i = cuda.grid(1)\nif i < x.size:\n    store(x, i, 1.0)",
    "a step that is too long": "for i in range(cuda.grid(1), x.size, cuda.gridsize(1) + 1):\n"
    "    x[i] = 1",
    "a start that is too late": "for i in range(cuda.grid(1) + 1, x.size, cuda.gridsize(1)):\n"
    "    x[i] = 1",
    "an end that is too early": "for i in range(cuda.grid(1), x.size - 1, cuda.gridsize(1)):\n"
    "    x[i] = 1",
    "the step of a block": "for i in range(cuda.threadIdx.x, x.size, cuda.gridsize(1)):\n"
    "    x[i] = 1",
    "a break": "for i in range(x.size):\n    x[i] = 1\n    if y[i] > 0:\n        break",
    "a continue": "for i in range(x.size):\n    if y[i] > 0:\n        continue\n    x[i] = 1",
    "the next is asked too early": "i = cuda.threadIdx.x\n"
    "while i + cuda.blockDim.x < x.size:\n    x[i] = 1\n    i += cuda.blockDim.x",
    "counted before": "i = cuda.threadIdx.x\nwhile i < x.size - cuda.blockDim.x:\n"
    "    i += cuda.blockDim.x\n    x[i] = 1",
    "counted twice": "i = cuda.threadIdx.x\nwhile i < x.size:\n    x[i] = 1\n"
    "    i += cuda.blockDim.x\n    if y[0] > 0:\n        i += cuda.blockDim.x",
    "behind the loop": "i = 0\nfor i in range(x.size):\n    y[0] = 1\nx[i] = 1",
    "a loop that may have no turn": "i = cuda.grid(1)\nif i < x.size:\n"
    "    for j in range(n - 8):\n        x[i] = j",
    "an iterator that goes on": "for i in range(n):\n    for j in range(m.shape[1]):\n"
    "        m[i, j] = 1\n        if y[j] > 0:\n            return",
    "a diagonal": "i = cuda.grid(1)\nif i < m.shape[0] and i < m.shape[1]:\n    m[i, i] = 1",
    "a diagonal of loops": "j = 0\nfor i in range(m.shape[0]):\n    m[i, j] = 1\n    j += 1",
    "axes that are guarded the other way": PLACE
    + "if j < m.shape[0] and i < m.shape[1] and i < m.shape[0] - 1:\n    m[i, j] = 1",
    "a size that wraps around": WRAPPED
    + "i = cuda.grid(1)\nif i < x.size + k * k - 5:\n    x[i] = 1",
    "a number below that wraps around": WRAPPED
    + "i = cuda.grid(1)\nif i < 10 - k * k:\n    return\nx[i] = 1",
    "equal when it has wrapped around": WRAPPED
    + "i = cuda.grid(1)\nif y[i] > 0 and i + k * k == i:\n    return\nx[i] = 1",
    "an end that wraps around": WRAPPED
    + "for i in range(cuda.grid(1), x.size + k * k - 5, cuda.gridsize(1)):\n    x[i] = 1",
    "one axis": PLACE + "if i < m.shape[0]:\n    m[i, 0] = 1",
    "a row": "i = cuda.grid(1)\nif i < m.shape[0] - 1:\n    m[i] = 1",
    "an outer loop with a break": "for i in range(m.shape[0]):\n    j = 0\n"
    "    while j < m.shape[1]:\n        m[i, j] = 1\n        j += 1\n"
    "    if y[i] > 0:\n        break",
}


@pytest.mark.parametrize("name", MISSES)
def test_an_array_that_is_not_surely_overwritten(name):
    found = made(MISSES[name], store=store).access(SIGNATURE)
    assert [str(each) for each in found.values() if each.wholes] == []


@pytest.mark.parametrize(("grid", "block"), [(1, 8), ((1, 1), (3, 5))])
def test_some_are_right_to_be_told_so(grid, block):
    """These launches do leave something, so that who guessed otherwise would lose it."""
    for name in ("the guard is one short", "an index that is one more", "every second", "a break"):
        kernel = made(MISSES[name])
        values = np.ones(8), np.ones(8), np.ones((3, 5)), 8, np.uint8(1)
        assert not access_checks.truly_overwritten(kernel, grid, block, values, 0), name


def test_scalars_are_taken_as_the_kernel_has_them():
    kernel = made("i = cuda.grid(1)\nif i < k:\n    x[i] = 1")
    access = kernel.access(SIGNATURE)["x"]
    x = np.zeros(8)
    assert access.overwrites(1, 8, (x, x, x, 0, 8))
    assert not access.overwrites(1, 8, (x, x, x, 0, 7))
    # 8 bits: 256 is 0.
    assert not access.overwrites(1, 8, (x, x, x, 0, 256))
    assert not access.overwrites(1, 8, (x, x, x, 0, 8.5))


def test_an_empty_array_is_overwritten_by_all():
    access = made("x[cuda.grid(1)] = 1").access(SIGNATURE)["x"]
    assert access.overwrites(1, 1, (np.zeros(0), None, None, 0, 0))


def test_elements_of_several_parts_are_written_by_one_statement_only():
    @cuda.jit
    def kernel(record, field, number):
        i = cuda.grid(1)
        if i < field.size:
            record[i].a = 1
            field[i] = 1
            number[i] = 1j

    kind = np.dtype([("a", np.int8), ("b", np.int8)])
    kernel[1, 4](np.zeros(4, kind), np.zeros(4, np.int16), np.zeros(4, np.complex64))
    assert {name: bool(each.wholes) for name, each in kernel.access().items()} == {
        "record": False,
        "field": True,
        "number": True,
    }


def test_debug_kernels_may_stop_before():
    def kernel(x, y):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = 1 // y[0]

    signature = "void(int64[:], int64[:])"
    assert cuda.jit(kernel).access(signature)["x"].wholes
    assert not cuda.jit(kernel, debug=True, opt=False).access(signature)["x"].wholes


# ---- asking ----------------------------------------------------------------------------------


def test_one_signature_needs_no_name():
    kernel = made("x[0] = y[0]")
    with pytest.raises(LaunchError, match=r"access\(\) without a signature .*nothing yet"):
        kernel.access()
    told = kernel.access(SIGNATURE)
    assert repr(told) == "{'x': 'w', 'y': 'r', 'm': 'none'}"
    assert kernel.access() is told
    kernel.compile(SIGNATURE.replace("float64", "float32"))
    with pytest.raises(LaunchError, match="compiled for one"):
        kernel.access()


def test_a_signature_has_types_not_values():
    kernel = made("x[0] = y[0]")
    for array in (np.zeros(3), cuda.to_device(np.zeros(3)), SmartArray(np.zeros(3))):
        for signature in (array, (array, array, array, array, 3)):
            with pytest.raises(TypeError, match=type(array).__name__ + r".*numba\.typeof"):
                kernel.access(signature)
            with pytest.raises(TypeError, match=r"numba\.typeof"):
                kernel.compile(signature)


def test_a_signature_has_as_many_arguments_as_the_kernel():
    with pytest.raises(LaunchError, match="takes 5 arguments"):
        made("pass").access("void(float64[:])")


def test_launches_of_what_was_asked_for_compile_nothing_more():
    kernel = made("i = cuda.grid(1)\nif i < x.size:\n    x[i] = 1")
    told = kernel.access(SIGNATURE)
    kernel[1, 8](*arguments(8, 8))
    assert kernel.access(SIGNATURE) is told


def test_kept_kernels_have_it_without_being_compiled(tmp_path, monkeypatch):
    from haulage.compiler.cache.kept import KeptBody

    monkeypatch.setenv("HAULAGE_CACHE_DIR", str(tmp_path))

    def kernel(x, y, n):
        for i in range(cuda.grid(1), n, cuda.gridsize(1)):
            x[i] = y[i]

    signature = "void(float32[:], float32[:], int32)"
    first = cuda.jit(kernel, cache=True).access(signature)
    assert str(first["x"]) == "w, all of it if n >= x.size"
    made_again = pytest.fail
    monkeypatch.setattr(KeptBody, "body", property(lambda self: made_again("compiled again")))
    again = cuda.jit(kernel, cache=True).access(signature)
    assert again.arguments == first.arguments
    assert repr(again) == repr(first)
    x = np.zeros(4, np.float32)
    assert again["x"].overwrites(1, 1, (x, x, 4))
    assert not again["x"].overwrites(1, 1, (x, x, 3))
