"""Reads of memory that nobody wrote, as `haulage check` finds them."""

import numpy as np

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
    assert "the element is records[1].value" in str(result)


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
