"""Reads of memory that nobody wrote, as `haulage check` finds them."""

import random

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.checking.session import Session

WAYS = ("regions", "coroutines")
RECORD = np.dtype([("flag", "i1"), ("value", "f8")], align=True)


def found(work, checks=("init",)):
    """What the check finds of what `work()` does."""
    session = Session(checks)
    session.begin()
    try:
        work()
    finally:
        session.end()
    return [each for each in session.findings if each.kind == "uninitialized"]


def elements(kernel, *args, grid=(1, 4), shared=0):
    """The elements that a launch reads and nobody wrote, in words."""

    def launch():
        kernel[(*grid, 0, shared)](*args)
        cuda.synchronize()

    return [each.element for each in found(launch)]


# ---- arrays of a thread's own -------------------------------------------------------------------


@cuda.jit
def of_constant_size(out, written):
    own = cuda.local.array(4, np.float32)
    for at in range(written):
        own[at] = at
    cuda.syncthreads()
    total = np.float32(0)
    for at in range(3):
        total += own[at]
    out[cuda.grid(1)] = total


def test_local_element_that_was_not_written(way):
    out = np.zeros(4, np.float32)
    assert elements(of_constant_size, out, 3) == []
    assert elements(of_constant_size, out, 2) == ["own[2]"]


def test_finding_says_where_and_which_thread():
    @cuda.jit
    def kernel(out):
        own = cuda.local.array((2, 3), np.int32)
        if cuda.threadIdx.x != 2:
            own[1, 2] = 1
        out[cuda.grid(1)] = own[1, 2]

    (finding,) = found(lambda: (kernel[2, 4](np.zeros(8)), cuda.synchronize()))
    first = kernel.py_func.__code__.co_firstlineno
    assert finding.access.place.line == first + 5
    assert finding.access.thread == (2, 0, 0)
    assert (finding.array, finding.index, finding.count) == ("own", (1, 2), 2)
    assert finding.allocated is None


def test_each_time_the_array_is_made_it_is_new():
    @cuda.jit
    def kernel(out):
        for at in range(3):
            own = cuda.local.array(2, np.int32)
            if at == 0:
                own[0] = 5
            out[0] += own[0]

    assert elements(kernel, np.zeros(1)) == ["own[0]"]


def test_array_of_a_device_function():
    @cuda.jit(device=True)
    def pick(at, both):
        inside = cuda.local.array(2, np.int32)
        inside[0] = 1
        if both:
            inside[1] = 2
        return inside[at]

    @cuda.jit
    def kernel(out, both):
        out[cuda.grid(1)] = pick(cuda.grid(1) % 2, both)

    assert elements(kernel, np.zeros(4), True) == []
    assert elements(kernel, np.zeros(4), False) == ["inside[1]"]


def test_views_atomics_and_sizes_known_at_run_time():
    @cuda.jit
    def kernel(out, size):
        own = cuda.local.array(size, np.int32, bound=8)
        part = own[1:3]
        part[0] = 7
        out[0] = part[0]
        out[1] = part[1]
        cuda.atomic.add(own, 3, 1)
        out[2] = own[3]

    assert elements(kernel, np.zeros(3), 5, grid=(1, 1)) == ["own[2]", "own[3]"]


def test_records_are_copied_with_the_bytes_of_no_field():
    @cuda.jit
    def kernel(out):
        one = cuda.local.array(4, RECORD)
        other = cuda.local.array(4, RECORD)
        one[0].flag = 1
        one[0].value = 2.0
        other[1] = one[0]
        other[2] = one[1]
        out[0] = other[1].value + other[1].flag
        out[1] = other[2].value

    assert elements(kernel, np.zeros(2), grid=(1, 1)) == ["other[2]"]


def test_math_that_gives_two_results_has_no_array_of_the_program():
    from haulage.cuda import libdevice

    @cuda.jit
    def kernel(out):
        sine, cosine = libdevice.sincos(0.5)
        fraction, exponent = libdevice.frexp(3.0)
        out[0] = sine + cosine + fraction + exponent

    assert elements(kernel, np.zeros(1), grid=(1, 1)) == []


def test_one_of_many_blocks_does_not_write():
    @cuda.jit
    def kernel(out, wanted):
        shared = cuda.shared.array(4, np.float64)
        own = cuda.local.array(2, np.float64)
        at = cuda.threadIdx.x
        shared[at] = at
        cuda.syncthreads()
        if wanted[cuda.blockIdx.x]:
            own[1] = shared[3 - at]
        out[cuda.grid(1)] = own[1]

    wanted = np.ones(20)
    assert elements(kernel, np.zeros(80), wanted, grid=(20, 4)) == []
    wanted[13] = 0
    assert elements(kernel, np.zeros(80), wanted, grid=(20, 4)) == ["own[1]"]


# ---- shared memory ------------------------------------------------------------------------------


def test_shared_element_that_was_not_written(way):
    @cuda.jit
    def kernel(out, written):
        first = cuda.shared.array((2, 2), np.float64)
        block = cuda.shared.array((2, 3), np.int32)
        at = cuda.threadIdx.x
        first[at % 2, at // 2] = 1
        if at < written:
            block[at % 2, at // 2] = at
        cuda.syncthreads()
        out[cuda.grid(1)] = block[at % 2, at // 2] + first[0, 0]

    assert elements(kernel, np.zeros(8), 4, grid=(2, 4)) == []
    assert elements(kernel, np.zeros(8), 3, grid=(2, 4)) == ["block[1, 1]"]


def test_dynamic_shared_memory():
    @cuda.jit
    def whole(out, count):
        block = cuda.shared.array(0, np.int32)
        at = cuda.threadIdx.x
        block[at] = at
        cuda.syncthreads()
        out[at] = block[(at + 1) % count]

    @cuda.jit
    def parts(out, rows):
        block = cuda.shared.array((rows, 2), np.int32)
        other = cuda.shared.array(rows, np.float64)
        at = cuda.threadIdx.x
        block[at, 0] = at
        other[at] = at
        cuda.syncthreads()
        out[at] = block[at, 0] + other[at] + (block[at, 1] if at == 2 else 0)

    assert elements(whole, np.zeros(4), 4, shared=64) == []
    assert elements(whole, np.zeros(4), 5, shared=64) == ["block[4]"]
    assert elements(parts, np.zeros(4), 4, shared=256) == ["block[2, 1]"]


# ---- memory of devices ---------------------------------------------------------------------------


@cuda.jit
def fill(target, start, stop, step):
    at = start + cuda.grid(1) * step
    if at < stop:
        target[at] = at


@cuda.jit
def add(target, source, start, stop):
    at = start + cuda.grid(1)
    if at < stop:
        target[at] = source[at] + 1


def test_elements_that_no_kernel_wrote():
    def work(written):
        source, target = cuda.device_array(8), cuda.device_array(8)
        fill[1, 8](source, 0, written, 1)
        add[1, 8](target, source, 0, 8)
        target.copy_to_host()

    assert found(lambda: work(8)) == []
    (finding,) = found(lambda: work(5))
    assert (finding.element, finding.index, finding.count) == ("source[5]", (5,), 3)
    assert finding.access.kernel == "add"
    assert finding.allocated.line == work.__code__.co_firstlineno + 1


def test_copies_to_the_host():
    def work(view, stream=0):
        array = cuda.device_array((4, 4), np.float32)
        array[1:3] = 1.0
        view(array).copy_to_host(stream=stream)

    assert found(lambda: work(lambda array: array[1:3])) == []
    (finding,) = found(lambda: work(lambda array: array))
    assert finding.access.what == "copy to the host"
    assert finding.access.place.line == work.__code__.co_firstlineno + 3
    assert finding.allocated.line == work.__code__.co_firstlineno + 1
    assert "32 of 64 bytes" in finding.message
    assert len(found(lambda: work(lambda array: array[:, 1]))) == 1
    assert len(found(lambda: work(lambda array: array, cuda.stream()))) == 1


def test_an_element_that_the_host_asks_for():
    def work():
        array = cuda.device_array(4)
        array[2] = 5
        assert array[2] == 5

    def wrong():
        array = cuda.device_array(4)
        array[2] = 5
        return array[1]

    assert found(work) == []
    assert len(found(wrong)) == 1


def test_a_copy_takes_along_what_is_not_written():
    def work():
        source, target, sums = cuda.device_array(8), cuda.to_device(np.ones(8)), np.zeros(8)
        fill[1, 8](source, 0, 4, 1)
        target[2:6].copy_to_device(source[2:6])
        add[1, 8](sums, target, 0, 4)
        add[1, 8](sums, target, 6, 8)
        add[1, 8](sums, target, 4, 6)

    (finding,) = found(work)
    assert (finding.element, finding.count) == ("source[4]", 2)


@pytest.mark.parametrize(
    "made",
    [
        lambda: cuda.to_device(np.zeros(8)),
        lambda: cuda.pinned_array(8),
        lambda: cuda.mapped_array(8),
        lambda: cuda.managed_array(8),
        lambda: haulage.SmartArray(np.zeros(8)),
        lambda: np.empty(8),
    ],
)
def test_what_is_taken_as_written(made):
    assert found(lambda: add[1, 8](np.zeros(8), made(), 0, 8)) == []


def test_memory_from_before_and_memory_of_others():
    before = cuda.device_array(8)

    def work():
        given = cuda.device_array(8)
        seen = np.from_dlpack(given)
        add[1, 8](np.zeros(8), given, 0, 8)
        add[1, 8](np.zeros(8), before, 0, 8)
        before.copy_to_host()
        assert len(seen) == 8

    assert found(work) == []


def test_memory_that_is_given_out_again_is_not_written():
    def work():
        for _ in range(2):
            array = cuda.device_array(8)
            fill[1, 8](array, 0, 8, 1)
            cuda.synchronize()
            address = array.device_pointer
            array.close()
        again = cuda.device_array(8)
        assert again.device_pointer == address
        add[1, 8](np.zeros(8), again, 0, 8)

    assert [each.element for each in found(work)] == ["source[0]"]


def test_graphs_are_not_followed():
    def work():
        array, sums = cuda.device_array(8), cuda.to_device(np.zeros(8))
        stream = cuda.stream()
        stream.begin_capture()
        fill[1, 8, stream](array, 0, 8, 1)
        stream.end_capture().launch(stream)
        stream.synchronize()
        add[1, 8](sums, array, 0, 8)
        cuda.synchronize()
        assert sums.copy_to_host().sum() == 36

    assert found(work) == []


def test_records_in_memory_of_devices():
    @cuda.jit
    def fields(records):
        at = cuda.grid(1)
        records[at].flag = 1
        if at < 3:
            records[at].value = 2

    @cuda.jit
    def copies(target, source):
        target[cuda.grid(1)] = source[cuda.grid(1)]

    def work(read):
        records, others = cuda.device_array(4, RECORD), cuda.device_array(4, RECORD)
        fields[1, 4](records)
        copies[1, read](others, records)
        others[:read].copy_to_host()

    assert found(lambda: work(3)) == []
    (finding,) = found(lambda: work(4))
    assert finding.element == "source[3].value"


def test_captured_arrays_and_pointers():
    kept = cuda.to_device(np.arange(8.0))

    @cuda.jit
    def kernel(target):
        target[cuda.grid(1)] = kept[cuda.grid(1)]

    def work():
        target = cuda.device_array(8)
        kernel[1, 8](target)
        target.copy_to_host()

    assert found(work) == []


def test_kernels_of_the_library():
    total = cuda.reduce(lambda a, b: a + b)
    double = cuda.vectorize(["float64(float64)"])(lambda a: 2 * a)

    def work(count):
        array = cuda.device_array(100)
        fill[1, 128](array, 0, count, 1)
        assert np.isfinite(total(double(array)))

    assert found(lambda: work(100)) == []
    assert found(lambda: work(50)) != []


# ---- random programs ---------------------------------------------------------------------------

_SIZE = 24


class _Program:
    """Copies, fills, views and kernels, and what of each array is written by a plain model."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self.arrays = [cuda.device_array(_SIZE, np.float32) for _ in range(3)]
        self.written = [np.zeros(_SIZE, bool) for _ in range(3)]

    def _range(self):
        start = self._random.randrange(_SIZE)
        return start, self._random.randint(start + 1, _SIZE)

    def step(self):
        number, other = self._random.sample(range(3), 2)
        array, written = self.arrays[number], self.written[number]
        start, stop = self._range()
        step = self._random.choice([1, 1, 2, 3])
        what = self._random.randrange(7)
        if what == 0:
            array[start:stop:step] = 1.0
            written[start:stop:step] = True
        elif what == 1:
            array[start:stop] = np.ones(stop - start, np.float32)
            written[start:stop] = True
        elif what == 2:
            fill[1, 32](array, start, stop, step)
            written[start:stop:step] = True
        elif what == 3:
            array[start:stop].copy_to_device(self.arrays[other][start:stop])
            written[start:stop] = self.written[other][start:stop]
        elif what == 4:
            self.arrays[number] = cuda.device_array(_SIZE, np.float32)
            self.written[number] = np.zeros(_SIZE, bool)
        elif what == 5 and self.written[other][start:stop].all():
            add[1, 32](array, self.arrays[other], start, stop)
            written[start:stop] = True
        elif what == 6 and written[start:stop:step].all():
            array[start:stop:step].copy_to_host()

    def read_what_is_not_written(self):
        """Whether it could: some element has to be so."""
        numbers = [at for at in range(3) if not self.written[at].all()]
        if not numbers:
            return None
        number = self._random.choice(numbers)
        at = int(self._random.choice(np.flatnonzero(~self.written[number])))
        if self._random.random() < 0.5:
            add[1, 1](np.zeros(_SIZE), self.arrays[number], at, at + 1)
            return at
        self.arrays[number][at : at + 1].copy_to_host()
        return -1


def _run(seed):
    """A random program that reads nothing but what it has written."""
    program = _Program(seed)
    for _ in range(20):
        program.step()
    return program


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed):
    planted = []
    for number in range(1000 * seed, 1000 * seed + 25):
        assert found(lambda number=number: _run(number)) == []
        findings = found(
            lambda number=number: planted.append(_run(number).read_what_is_not_written())
        )
        read = planted[-1]
        assert len(findings) == (read is not None)
        if read is not None and read >= 0:
            assert findings[0].element == f"source[{read}]"
    assert sum(read is not None for read in planted) > 10


def _kernel(seed, missing, tmp_path):
    """A random kernel that reads all of an array of its own, of which one element may be missing;
    and how many elements there are."""
    chance = random.Random(seed)
    size, dtype = chance.choice([3, 5, 8]), chance.choice(["np.float32", "np.int64"])
    lines = [
        "from haulage import cuda",
        "import numpy as np",
        "@cuda.jit",
        "def kernel(x, y):",
        "    i, t = cuda.grid(1), cuda.threadIdx.x",
    ]
    form = seed % 4
    if form == 3:
        lines += [
            f"    own = cuda.shared.array({size}, {dtype})",
            f"    if t != {missing} and t < {size}:",
            "        own[t] = x[i]",
            "    cuda.syncthreads()",
            f"    if t < {size}:",
            f"        y[i] = own[(t + {chance.randrange(size)}) % {size}]",
        ]
    else:
        lines.append(f"    own = cuda.local.array({size}, {dtype})")
        if form == 0:
            lines += [f"    own[{at}] = {at}" for at in range(size) if at != missing]
        else:
            only = " or i != 3" if form == 2 else ""
            lines += [
                f"    for at in range({size}):",
                f"        if at != {missing}{only}:",
                "            own[at] = x[i] + at",
            ]
        lines += ["    cuda.syncthreads()"] * chance.randrange(2)
        lines += ["    total = 0.0", f"    for at in range({size}):", "        total += own[at]"]
        lines.append("    y[i] = total")
    path = tmp_path / f"kernel_{seed}_{missing}.py"
    path.write_text("\n".join(lines))
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space["kernel"], size


@pytest.mark.parametrize("seed", range(8))
def test_random_kernels(seed, tmp_path):
    whole, size = _kernel(seed, -1, tmp_path)
    assert elements(whole, np.ones(16), np.zeros(16), grid=(2, 8)) == []
    missing = random.Random(seed).randrange(size)
    partial, _ = _kernel(seed, missing, tmp_path)
    assert elements(partial, np.ones(16), np.zeros(16), grid=(2, 8)) == [f"own[{missing}]"]


# ---- how findings name elements -----------------------------------------------------------------


def test_fields_of_records_and_places_that_allocate():
    @cuda.jit
    def kernel(records):
        records[1].value = cuda.threadIdx.x

    with haulage.check(only="race", raises=False) as result:
        records = cuda.to_device(np.zeros(3, RECORD))
        kernel[1, 2](records)
    (finding,) = result
    assert (finding.element, finding.index) == ("records[1].value", (1,))
    assert finding.allocated.file == __file__
    assert "records[1].value" in str(result)


def test_records_of_many_bytes_are_checked_by_parts():
    wide = np.dtype([("values", "f4", (100,)), ("last", "f8")], align=True)

    @cuda.jit
    def kernel(target, source):
        at = cuda.threadIdx.x
        target[at if at < 3 else 0] = source[at]

    session = Session(["race"])
    session.begin()
    kernel[1, 3](np.zeros(4, wide), np.zeros(4, wide))
    cuda.synchronize()
    assert not list(session.findings)
    kernel[1, 4](np.zeros(4, wide), np.zeros(4, wide))
    session.end()
    (finding,) = session.findings
    assert finding.element == "target[0].values[0]"


# ---- kernels that are not checked ----------------------------------------------------------------


def test_what_a_kernel_writes_that_runs_as_python():
    @cuda.jit
    def fill(x):
        i = cuda.grid(1)
        if i == x.size:
            breakpoint()
        x[i] = i

    def launch():
        x = cuda.device_array(8)
        fill[2, 4](x)
        np.testing.assert_array_equal(x.copy_to_host(), np.arange(8))

    assert found(launch) == []
