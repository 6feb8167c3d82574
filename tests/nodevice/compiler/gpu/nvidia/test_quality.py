"""What matters for speed is in the PTX of kernels: which instructions, how many, and no others."""

import importlib
import re

import numba
import numpy as np
import pytest

import haulage
from haulage import cuda

ONE = "float32[::1]"
# The benchmarks' kernels by their file, with what they are called with.
BENCHMARKS = {
    "elementwise": {
        "saxpy": f"void(float32, {ONE}, {ONE}, {ONE})",
        "stencil": "void(float32[:,::1], float32[:,::1])",
        "black_scholes": f"void({ONE}, {ONE}, {ONE}, {ONE}, {ONE})",
        "mandelbrot": f"void({ONE}, {ONE}, int32[:,::1])",
    },
    "matrices": {
        "matmul": "void(float32[:,::1], float32[:,::1], float32[:,::1])",
        "matmul_naive": "void(float32[:,::1], float32[:,::1], float32[:,::1])",
        "transpose": "void(float32[:,::1], float32[:,::1])",
        "nbody": "void(float32[:,::1], float32[:,::1])",
    },
    "blocks": {
        "reduce_tree": f"void({ONE}, {ONE})",
        "reduce_warp": f"void({ONE}, {ONE})",
        "scan": f"void({ONE}, {ONE})",
    },
    "histograms": {
        "histogram_shared": "void(uint8[::1], int32[::1])",
        "histogram_global": "void(uint8[::1], int32[::1])",
    },
}


def ptx(kernel, signature, architecture="sm_90"):
    return haulage.compile(kernel, signature, architecture).asm


def loads(text):
    """(loads of what stays as it is, other loads) from global memory."""
    return (
        len(re.findall(r"\bld\.global\.nc\.", text)),
        len(re.findall(r"\bld\.global\.(?!nc)", text)),
    )


@pytest.mark.parametrize(
    ("file", "name"), [(file, name) for file, kernels in BENCHMARKS.items() for name in kernels]
)
def test_the_benchmarks_read_by_the_read_only_path_and_need_no_local_memory(file, name):
    module = importlib.import_module(f"haulage.cli.bench.kernels.{file}")
    text = ptx(getattr(module, name), BENCHMARKS[file][name])
    read_only, other = loads(text)
    assert read_only > 0
    assert other == 0
    assert ".local" not in text
    # Every address is known to be global or shared.
    assert not re.findall(r"(?m)^\s*(?:@%p\d+ )?(?:ld|st|atom|red)\.(?!global|shared|param)", text)


def test_what_is_also_written_is_not_read_only():
    def saxpy(x, y, a):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = a * x[i] + y[i]

    assert loads(ptx(saxpy, f"void({ONE}, {ONE}, float32)")) == (1, 1)


def test_two_results_of_the_same_values():
    def both(x, y, total, product):
        i = cuda.grid(1)
        if i < x.size:
            a, b = x[i], y[i]
            total[i] = a + b
            product[i] = a * b

    assert loads(ptx(both, f"void({ONE}, {ONE}, {ONE}, {ONE})")) == (2, 0)


def vectors(text, words="ld.global.nc"):
    """How many elements wide accesses are, widest first."""
    found = re.findall(rf"\b{re.escape(words)}\.v(\d)\.", text)
    return sorted(map(int, found), reverse=True)


def test_neighbouring_elements_are_one_access():
    def fours(x, out):
        i = cuda.grid(1)
        for k in range(4):
            out[4 * i + k] = 2 * x[4 * i + k]

    def pairs(x, out):
        i = cuda.grid(1)
        out[2 * i] = x[2 * i + 1]
        out[2 * i + 1] = x[2 * i]

    def rows(x, out):
        i = cuda.grid(1)
        total = np.float32(0)
        for k in range(4):
            total += x[i, k]
        out[i] = total

    def bytes_(x, out):
        i = cuda.grid(1)
        for k in range(16):
            out[16 * i + k] = x[16 * i + k] ^ 255

    text = ptx(fours, f"void({ONE}, {ONE})")
    assert vectors(text) == vectors(text, "st.global") == [4]
    text = ptx(pairs, "void(float64[::1], float64[::1])")
    assert vectors(text) == vectors(text, "st.global") == [2]
    assert vectors(ptx(rows, f"void(float32[:,::1], {ONE})")) == [4]
    text = ptx(bytes_, "void(uint8[::1], uint8[::1])")
    assert vectors(text) == vectors(text, "st.global") == [4]
    # Elements that are not side by side, and ones of which it is not known where they begin.
    assert vectors(ptx(fours, "void(float32[:], float32[:])")) == []


def test_a_number_that_moves_an_address_is_not_taken_for_a_multiple():
    def moved(x, out, by):
        i = cuda.grid(1)
        for k in range(4):
            out[4 * i + k] = x[4 * i + k + by]

    text = ptx(moved, f"void({ONE}, {ONE}, uint32)")
    assert vectors(text) == []
    assert vectors(text, "st.global") == [4]


def test_complex_numbers_and_records_are_one_access():
    def turned(x, out):
        i = cuda.grid(1)
        out[i] = x[i] * 1j

    def moved(particles, dt):
        i = cuda.grid(1)
        particles[i].x += dt * particles[i].vx
        particles[i].y += dt * particles[i].vy

    text = ptx(turned, "void(complex64[::1], complex64[::1])")
    assert vectors(text) == vectors(text, "st.global") == [2]
    kind = numba.from_dtype(np.dtype([(name, np.float32) for name in ("x", "y", "vx", "vy")]))
    text = ptx(moved, (numba.types.Array(kind, 1, "C"), numba.float32))
    assert 4 in vectors(text, "ld.global") or vectors(text, "ld.global") == [2, 2]


def test_loops_over_a_threads_own_array_need_no_local_memory():
    def solved(matrices, out):
        i = cuda.grid(1)
        a = cuda.local.array((3, 3), np.float64)
        for r in range(3):
            for c in range(3):
                a[r, c] = matrices[i, r, c]
        for p in range(3):
            for r in range(p + 1, 3):
                factor = a[r, p] / a[p, p]
                for c in range(p, 3):
                    a[r, c] -= factor * a[p, c]
        out[i] = a[0, 0] * a[1, 1] * a[2, 2]

    def multiplied(a, b, out):
        i = cuda.grid(1)
        x = cuda.local.array((6, 6), np.float32)
        y = cuda.local.array((6, 6), np.float32)
        for r in range(6):
            for c in range(6):
                x[r, c] = a[i, r, c]
                y[r, c] = b[i, r, c]
        for r in range(6):
            for c in range(6):
                total = np.float32(0)
                for k in range(6):
                    total += x[r, k] * y[k, c]
                out[i, r, c] = total

    def in_order(x, out):
        i = cuda.grid(1)
        a = cuda.local.array(16, np.float32)
        for r in range(16):
            a[r] = x[i, r]
        for r in range(16):
            for c in range(15 - r):
                if a[c] > a[c + 1]:
                    a[c], a[c + 1] = a[c + 1], a[c]
        for r in range(16):
            out[i, r] = a[r]

    cube, square = "float32[:,:,::1]", "float32[:,::1]"
    assert ".local" not in ptx(solved, "void(float64[:,:,::1], float64[::1])")
    assert ".local" not in ptx(multiplied, f"void({cube}, {cube}, {cube})")
    assert ".local" not in ptx(in_order, f"void({square}, {square})")


def test_an_array_that_a_kernel_captures_is_read_as_global_memory():
    table = cuda.to_device(np.arange(16, dtype=np.float32))

    def looked_up(keys, out):
        i = cuda.grid(1)
        out[i] = table[keys[i]]

    def filled(x):
        i = cuda.grid(1)
        table[i] = x[i]

    assert loads(ptx(looked_up, f"void(int32[::1], {ONE})")) == (2, 0)
    text = ptx(filled, f"void({ONE})")
    assert loads(text) == (1, 0)
    assert "st.global.b32" in text


def test_a_loop_that_also_writes_has_a_version_for_arrays_that_lie_apart():
    def doubled(x, out):
        for k in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            out[k] = 2 * x[k]

    def filled(x, out):
        i, j = cuda.grid(2)
        for k in range(x.shape[2]):
            out[i, j, k] = x[i, j, k]

    read_only, other = loads(ptx(doubled, f"void({ONE}, {ONE})"))
    assert read_only == other > 1
    text = ptx(filled, "void(float32[:,:,::1], float32[:,:,::1])")
    assert vectors(text) == vectors(text, "st.global") == [4, 4]
    # Whether rows begin at multiples of 16 bytes is decided by the last axes alone.
    assert len(re.findall(r"and\.b64 .*, 3;", text)) == 2
    # To find where these end would take longer than is gained.
    assert loads(ptx(filled, "void(float32[:,:,:], float32[:,:,:])"))[0] == 0


def test_many_loads_between_stores_have_such_a_version_too():
    def blurred(image, out):
        x, y = cuda.grid(2)
        for channel in range(3):
            total = 0
            for dx in range(3):
                total += image[y, x + dx, channel]
            out[y, x, channel] = total // 3

    image = "uint8[:,:,::1]"
    read_only, other = loads(ptx(blurred, f"void({image}, {image})"))
    assert read_only == other == 9


def test_a_short_condition_is_a_predicate():
    def clipped(x, low, high):
        i = cuda.grid(1)
        if i < x.size:
            value = x[i]
            if value < low:
                value = low
            if value > high:
                value = high
            x[i] = value

    text = ptx(clipped, f"void({ONE}, float32, float32)")
    assert len(re.findall(r"\bbra\b", text)) == 1
    assert len(re.findall(r"\bselp\b|\b(?:min|max)\.f32", text)) == 2


def test_what_a_store_may_come_before_is_loaded_in_its_place():
    # x and first may be one array, and y and second.
    def swap(x, y, first, second):
        i = cuda.grid(1)
        a, b = x[i], y[i]
        first[i] = b
        second[i] = a

    def after(x, out, total):
        i = cuda.grid(1)
        out[i] = 0
        total[i] = x[i]

    assert loads(ptx(swap, f"void({ONE}, {ONE}, {ONE}, {ONE})")) == (0, 2)
    assert loads(ptx(after, f"void({ONE}, {ONE}, {ONE})")) == (0, 1)


def test_a_store_in_a_loop_that_needs_a_value_in_some_turns_only():
    def spread(x, out, n):
        i = cuda.grid(1)
        value = x[i]
        for k in range(n):
            out[64 * k + i] = value if k > 5 else np.float32(0)

    def repeated(x, out, n):
        i = cuda.grid(1)
        value = x[i]
        for k in range(n):
            out[64 * k + i] = value

    assert loads(ptx(spread, f"void({ONE}, {ONE}, int64)")) == (0, 1)
    assert loads(ptx(repeated, f"void({ONE}, {ONE}, int64)")) == (1, 0)


def test_tiles_of_any_matrices_are_read_only():
    def multiplied(a, b, c):
        at = cuda.shared.array((16, 16), np.float32)
        bt = cuda.shared.array((16, 16), np.float32)
        j, i = cuda.grid(2)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        total = np.float32(0)
        for start in range(0, a.shape[1], 16):
            at[y, x] = a[i, start + x] if i < a.shape[0] and start + x < a.shape[1] else 0
            bt[y, x] = b[start + y, j] if j < b.shape[1] and start + y < b.shape[0] else 0
            cuda.syncthreads()
            for k in range(16):
                total += at[y, k] * bt[k, x]
            cuda.syncthreads()
        if i < c.shape[0] and j < c.shape[1]:
            c[i, j] = total

    square = "float32[:,:]"
    assert loads(ptx(multiplied, f"void({square}, {square}, {square})")) == (2, 0)


def test_a_value_that_decides_a_condition_or_an_address_is_read_first():
    def chosen(x, out):
        i = cuda.grid(1)
        if x[i] > 0:
            out[i] = 1

    def placed(keys, out, ones):
        i = cuda.grid(1)
        key = keys[i]
        out[key] = 1
        ones[key] = 1

    assert loads(ptx(chosen, f"void({ONE}, {ONE})")) == (1, 0)
    assert loads(ptx(placed, f"void(int32[::1], {ONE}, {ONE})")) == (1, 0)


def test_the_shared_memory_between_a_load_and_a_store_needs_its_barrier():
    def with_barrier(x, out):
        room = cuda.shared.array(64, np.float32)
        t = cuda.threadIdx.x
        room[t] = x[t]
        cuda.syncthreads()
        out[t] = room[63 - t]

    def without(x, out, total):
        room = cuda.shared.array(64, np.float32)
        t = cuda.threadIdx.x
        room[t] = x[t]
        out[t] = 0
        cuda.syncthreads()
        total[t] = room[63 - t]

    assert loads(ptx(with_barrier, f"void({ONE}, {ONE})")) == (1, 0)
    assert loads(ptx(without, f"void({ONE}, {ONE}, {ONE})")) == (0, 1)


def test_what_others_hand_over_while_a_kernel_runs_is_read_when_the_program_says():
    def fenced(x, out):
        i = cuda.grid(1)
        cuda.threadfence()
        out[i] = x[i]

    def fetched(flag, x, out):
        while cuda.ldcv(flag, 0) == 0:
            pass
        out[cuda.grid(1)] = x[cuda.grid(1)]

    def met(x, out):
        cuda.cg.this_grid().sync()
        out[cuda.grid(1)] = x[cuda.grid(1)]

    def last(count, x, out):
        if cuda.atomic.add(count, 0, 1) == 99:
            out[0] = x[0]

    assert loads(ptx(fenced, f"void({ONE}, {ONE})"))[0] == 0
    assert loads(ptx(fetched, f"void(int32[::1], {ONE}, {ONE})"))[0] == 0
    assert loads(ptx(met, f"void({ONE}, {ONE})"))[0] == 0
    assert loads(ptx(last, f"void(int32[::1], {ONE}, {ONE})"))[0] == 0


def test_a_quotient_and_its_remainder_are_one_division() -> None:
    def kernel(x, y):
        i = cuda.grid(1)
        row, column = i // x.shape[1], i % x.shape[1]
        y[row, column] = x[row, column]

    text = haulage.compile(kernel, "void(float32[:, ::1], float32[:, ::1])", "sm_90").asm
    # In 64 bits, and in 32 where both numbers have no more.
    assert re.findall(r"\b(?:div|rem)\.\w+", text) == ["div.s64", "div.u32"]


def test_what_llvm_has_unrolled_the_assembler_does_not():
    def totals(x, out):
        i = cuda.grid(1)
        total = np.float32(0)
        for k in range(i, x.size, cuda.gridsize(1)):
            total += x[k]
        out[i] = total

    def products(x, out):
        tile = cuda.shared.array(64, np.float32)
        tile[cuda.threadIdx.x] = x[cuda.grid(1)]
        cuda.syncthreads()
        total = np.float32(0)
        for k in range(cuda.threadIdx.x):
            total += tile[k] * tile[63 - k]
        out[cuda.grid(1)] = total

    def turns(text):
        """(loads in a turn, whether it is marked) of each loop of one block."""
        found = re.findall(r"(?ms)^(\$L__BB\w+):(.*?)bra(?:\.uni)? \t\1;", text)
        blocks = [body for _, body in found if "$L__BB" not in body.split("@%p")[0]]
        return {(body.count("ld."), '.pragma "nounroll"' in body) for body in blocks}

    # With what is left over, one at a time.
    assert turns(ptx(totals, f"void({ONE}, {ONE})")) == {(8, True), (1, True)}
    # Loads of shared memory are quick, and take no registers for their addresses.
    assert {
        marked for loads, marked in turns(ptx(products, f"void({ONE}, {ONE})")) if loads > 2
    } == {False}
