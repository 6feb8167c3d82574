"""Atomic words on every type, in every kind of memory; results compared with plain Python."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from haulage import cuda, roc
from haulage.errors import CompileError, KernelError

INTS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
UNSIGNED = ["u1", "u2", "u4", "u8"]
FLOATS = ["f2", "f4", "f8"]

# Word: (the types it takes, what it makes of an old value and its operand).
WORDS = {
    "add": (INTS + FLOATS, lambda old, value: old + value),
    "sub": (INTS + FLOATS, lambda old, value: old - value),
    "max": (INTS + FLOATS, max),
    "min": (INTS + FLOATS, min),
    "nanmax": (INTS + FLOATS, np.fmax),
    "nanmin": (INTS + FLOATS, np.fmin),
    "and_": (INTS, lambda old, value: old & value),
    "or_": (INTS, lambda old, value: old | value),
    "xor": (INTS, lambda old, value: old ^ value),
    "inc": (UNSIGNED, lambda old, value: 0 if old >= value else old + 1),
    "dec": (UNSIGNED, lambda old, value: value if old == 0 or old > value else old - 1),
    "exch": (INTS + FLOATS, lambda old, value: value),
}
CASES = [(word, kind) for word, (kinds, _) in WORDS.items() for kind in kinds]

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


def kernel_of(word):
    """A kernel that applies an atomic word once per element."""
    operation = getattr(cuda.atomic, word)

    @cuda.jit
    def each(array, values, old):
        i = cuda.grid(1)
        old[i] = operation(array, i, values[i])

    return each


def in_order(word, start, values):
    """(end, old values) of an atomic word applied for one value after another."""
    apply = WORDS[word][1]
    kind = np.asarray(values).dtype
    now, olds = kind.type(start), []
    with np.errstate(over="ignore"):
        for value in values:
            olds.append(now)
            now = kind.type(apply(now, value))
    return now, olds


def of_kind(kind, seed, count=64):
    random = np.random.default_rng(seed)
    if kind in FLOATS:
        return random.integers(-50, 50, count).astype(kind) / 4
    limits = np.iinfo(kind)
    numbers = random.integers(limits.min, limits.max, count, np.dtype(kind), endpoint=True)
    numbers[:4] = [limits.min, limits.max, 0, 1]
    return numbers


@pytest.mark.parametrize(("word", "kind"), CASES)
def test_each_word_on_each_type_gives_the_old_value_and_writes_the_new_one(way, word, kind):
    start, values = of_kind(kind, 1), of_kind(kind, 2)[::-1].copy()
    array, old = cuda.to_device(start), cuda.device_array(64, kind)
    kernel_of(word)[2, 32](array, cuda.to_device(values), old)
    expected = [in_order(word, a, [b])[0] for a, b in zip(start, values, strict=True)]
    np.testing.assert_array_equal(array.copy_to_host(), np.array(expected, kind))
    np.testing.assert_array_equal(old.copy_to_host(), start)


# ---- many threads on one element ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "kind"),
    [case for case in CASES if case[0] in ("add", "sub", "max", "min", "nanmax", "nanmin", "xor")],
)
def test_words_whose_order_does_not_matter_agree_with_any_order(way, word, kind):
    operation = getattr(cuda.atomic, word)

    @cuda.jit
    def all_on_one(array, values):
        operation(array, (0, -1), values[cuda.grid(1)])

    start, values = of_kind(kind, 4)[0], of_kind(kind, 3, 2048)
    if kind == "f2":
        # Whole numbers whose sums, below 2048, are exact in each order.
        start, values = np.round(start / 4), np.round(values / 8)
        assert abs(start) + np.abs(values.astype("f8")).sum() < 2048
    array = cuda.to_device(np.full((1, 3), start))
    all_on_one[16, 128](array, cuda.to_device(values))
    end, _ = in_order(word, start, values)
    assert array.copy_to_host()[0, 2] == end
    assert (array.copy_to_host()[0, :2] == start).all()


@pytest.mark.ptx_always
@pytest.mark.parametrize("kind", UNSIGNED)
def test_counters_that_wrap_give_each_number_equally_often(way, kind):
    @cuda.jit
    def tickets(counter, up, down):
        cuda.atomic.add(up, cuda.atomic.inc(counter, 0, 9), 1)
        cuda.atomic.add(down, cuda.atomic.dec(counter, 1, 9), 1)

    counter = cuda.to_device(np.zeros(2, kind))
    up, down = cuda.to_device(np.zeros(10, "i4")), cuda.to_device(np.zeros(10, "i4"))
    tickets[10, 64](counter, up, down)
    assert up.copy_to_host().tolist() == [64] * 10
    assert down.copy_to_host().tolist() == [64] * 10
    assert counter.copy_to_host().tolist() == [0, 0]


@pytest.mark.ptx_always
@pytest.mark.parametrize("kind", INTS + FLOATS)
def test_exchanges_hand_each_value_on_once(way, kind):
    @cuda.jit
    def hand_on(array, values, seen):
        i = cuda.grid(1)
        seen[i] = cuda.atomic.exch(array, 0, values[i])

    values = np.arange(1, 97).astype(kind)
    array, seen = cuda.to_device(np.zeros(1, kind)), cuda.device_array(96, kind)
    hand_on[3, 32](array, cuda.to_device(values), seen)
    everything = np.append(seen.copy_to_host(), array.copy_to_host())
    assert sorted(everything) == list(range(97))


# ---- arrays that are only added to --------------------------------------------------------------


@cuda.jit
def count_and_look(x, h, seen):
    i = cuda.grid(1)
    cuda.atomic.add(h, i, 1)
    seen[i] = x[i]


@pytest.mark.ptx_always
def test_threads_see_what_they_added_through_another_name_of_the_array(way):
    x, seen = cuda.to_device(np.arange(64)), cuda.device_array(64, np.int64)
    count_and_look[2, 32](x, x, seen)
    assert seen.copy_to_host().tolist() == list(range(1, 65))
    # The other array may overlap it from either side, and backwards.
    whole = cuda.to_device(np.arange(128))
    count_and_look[2, 32](whole[96:32:-1], whole[33:], seen)
    back = np.arange(96, 32, -1)
    # Threads in between may have counted already, so what is seen is that or one more.
    assert set((seen.copy_to_host() - back).tolist()) <= {0, 1}
    assert whole.copy_to_host().tolist() == [i + (33 <= i < 97) for i in range(128)]


@cuda.jit
def count_steps(x, h, steps):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        value, count = x[i], 0
        while value > 1:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            count += 1
            cuda.atomic.add(steps, count % 3, 1)
        cuda.atomic.add(h, count % 7, 1)


def test_arrays_are_added_to_in_loops_that_threads_leave_at_different_times(way):
    def count(value):
        return 0 if value < 2 else 1 + count(value // 2 if value % 2 == 0 else 3 * value + 1)

    counts = [count(value) for value in range(200)]
    h, steps = cuda.to_device(np.zeros(7, np.int32)), cuda.to_device(np.zeros(3, np.int64))
    count_steps[2, 32](cuda.to_device(np.arange(200)), h, steps)
    assert h.copy_to_host().tolist() == np.bincount(np.array(counts) % 7).tolist()
    made = np.concatenate([np.arange(1, each + 1) for each in counts]).astype(int)
    assert steps.copy_to_host().tolist() == np.bincount(made % 3).tolist()


@cuda.jit
def add_and_limit(one, other):
    i = cuda.grid(1)
    cuda.atomic.add(one, i, 5)
    cuda.atomic.max(other, i, 7)
    cuda.atomic.add(one, i, 5)


def test_a_thread_changes_an_array_by_two_names_and_operations_in_its_order(way):
    x = cuda.to_device(np.zeros(64, np.int64))
    add_and_limit[2, 32](x, x)
    assert set(x.copy_to_host().tolist()) == {12}


def test_host_threads_and_streams_add_to_one_array_at_once(way):
    @cuda.jit
    def bins(x, h, total):
        i = cuda.grid(1)
        cuda.atomic.add(h, x[i] % 10, 1)
        cuda.atomic.sub(total, 0, x[i])

    x = np.random.default_rng(5).integers(0, 100, 4096)
    h, total, d_x = (
        cuda.to_device(np.zeros(10, int)),
        cuda.to_device(np.zeros(1)),
        cuda.to_device(x),
    )
    bins[1, 64](d_x, h, total)

    def launch(_):
        stream = cuda.stream()
        for _ in range(5):
            bins[64, 64, stream](d_x, h, total)
        stream.synchronize()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(launch, range(4)))
    expected = 20 * np.bincount(x % 10, minlength=10) + np.bincount(x[:64] % 10, minlength=10)
    assert h.copy_to_host().tolist() == expected.tolist()
    assert total.copy_to_host()[0] == -20 * x.sum() - x[:64].sum()


def test_what_was_added_before_a_fault_is_there(way):
    @cuda.jit
    def stops(h):
        i = cuda.grid(1)
        cuda.atomic.add(h, i % 4, 1)
        if i == 70:
            raise ValueError
        cuda.atomic.add(h, i % 4, 1)

    h = cuda.to_device(np.zeros(4, "i4"))
    stops[4, 32](h)
    with pytest.raises(KernelError):
        cuda.synchronize()
    assert h.copy_to_host().tolist() == [64, 64, 63, 64]


@pytest.mark.parametrize("size", [0, 1, 2047, 2048, 2049, 5000])
def test_arrays_of_any_size_are_added_to(way, size):
    @cuda.jit
    def spread(h):
        i = cuda.grid(1)
        if h.size > 0:
            cuda.atomic.add(h, i % h.size, 0.5)

    h = cuda.to_device(np.full(size, -0.0))
    spread[64, 128](h)
    there = h.copy_to_host()
    assert there.tolist() == [(8192 // size + (i < 8192 % size)) / 2 for i in range(size)]


@pytest.mark.parametrize("kind", INTS)
def test_bits_and_extremes_are_merged(way, kind):
    @cuda.jit
    def extremes(x, low, high, some, all_of):
        i = cuda.grid(1)
        cuda.atomic.min(low, i % 3, x[i])
        cuda.atomic.max(high, i % 3, x[i])
        cuda.atomic.or_(some, i % 3, x[i])
        cuda.atomic.and_(all_of, i % 3, x[i])

    x = of_kind(kind, 9, 510)
    x[::3] |= 16
    start = of_kind(kind, 10, 12)[4:7]
    outs = [cuda.to_device(start) for _ in range(4)]
    extremes[6, 85](cuda.to_device(x), *outs)
    words = (np.minimum, np.maximum, np.bitwise_or, np.bitwise_and)
    for out, word in zip(outs, words, strict=True):
        expected = [word.reduce(x[k::3], initial=start[k]) for k in range(3)]
        assert out.copy_to_host().tolist() == expected


# ---- compare and swap ---------------------------------------------------------------------------


@pytest.mark.ptx_always
@pytest.mark.parametrize("kind", INTS + FLOATS)
def test_cas_writes_only_where_it_finds_the_old_value(way, kind):
    @cuda.jit
    def swap(array, grid, seen):
        i = cuda.grid(1)
        seen[i, 0] = cuda.atomic.cas(array, i, 3, 100 + i)
        seen[i, 1] = cuda.atomic.cas(grid, (i // 4, i % 4), 3, 100 + i)

    start = np.arange(8).astype(kind) % 4
    array, grid = cuda.to_device(start), cuda.to_device(start.reshape(2, 4))
    seen = cuda.device_array((8, 2), kind)
    swap[1, 8](array, grid, seen)
    expected = np.where(start == 3, 100 + np.arange(8), start)
    np.testing.assert_array_equal(array.copy_to_host(), expected)
    np.testing.assert_array_equal(grid.copy_to_host().ravel(), expected)
    np.testing.assert_array_equal(seen.copy_to_host(), np.stack([start, start], axis=1))


@pytest.mark.parametrize("kind", INTS + FLOATS)
def test_compare_and_swap_lets_one_thread_win(way, kind):
    @cuda.jit
    def race(gate, winners):
        if cuda.atomic.compare_and_swap(gate, 7, 1) == 7:
            cuda.atomic.add(winners, 0, 1)

    gate, winners = cuda.to_device(np.array([7, 7], kind)), cuda.to_device(np.zeros(1, "i4"))
    race[4, 32](gate, winners)
    assert gate.copy_to_host().tolist() == [1, 7]
    assert winners.copy_to_host()[0] == 1


@pytest.mark.ptx_always
def test_compare_and_swap_builds_other_atomics(way):
    @cuda.jit
    def multiply(array, factor):
        old = array[0]
        while True:
            found = cuda.atomic.cas(array, 0, old, old * factor)
            if found == old:
                break
            old = found

    array = cuda.to_device(np.ones(1, np.uint64))
    multiply[4, 10](array, 3)
    assert array.copy_to_host()[0] == pow(3, 40, 2**64)


@pytest.mark.ptx_always
@pytest.mark.parametrize("kind", FLOATS)
def test_floats_are_swapped_where_their_bits_are_the_same(way, kind):
    @cuda.jit
    def swap(array, old, seen):
        i = cuda.grid(1)
        seen[i] = cuda.atomic.cas(array, i, old[i], 9)

    start = np.array([np.nan, 0.0, -0.0, np.inf], kind)
    old = np.array([np.nan, -0.0, -0.0, np.inf], kind)
    array, seen = cuda.to_device(start), cuda.device_array(4, kind)
    swap[1, 4](array, cuda.to_device(old), seen)
    np.testing.assert_array_equal(array.copy_to_host(), [9, 0, 9, 9])
    assert seen.copy_to_host().tobytes() == start.tobytes()


# ---- NaN ----------------------------------------------------------------------------------------


@pytest.mark.ptx_always
@pytest.mark.parametrize("kind", FLOATS)
def test_a_nan_stays_or_counts_as_missing(way, kind):
    @cuda.jit
    def extremes(array, value):
        i = cuda.threadIdx.x
        cuda.atomic.max(array, (0, i), value)
        cuda.atomic.min(array, (1, i), value)
        cuda.atomic.nanmax(array, (2, i), value)
        cuda.atomic.nanmin(array, (3, i), value)

    start = np.tile(np.array([np.nan, 2, -np.inf, np.inf], kind), (4, 1))
    array = cuda.to_device(start)
    extremes[1, 4](array, np.nan)
    np.testing.assert_array_equal(array.copy_to_host(), start)
    extremes[1, 4](array, 5.0)
    expected = [
        [np.nan, 5, 5, np.inf],
        [np.nan, 2, -np.inf, 5],
        [5, 5, 5, np.inf],
        [5, 2, -np.inf, 5],
    ]
    np.testing.assert_array_equal(array.copy_to_host(), expected)


# ---- kinds of memory ----------------------------------------------------------------------------


@pytest.mark.ptx_always
@pytest.mark.parametrize("kind", ["i4", "u8", "f4", "f8"])
def test_atomics_work_on_shared_and_local_and_dynamic_memory(way, kind):
    element = np.dtype(kind).type

    @cuda.jit
    def totals(out):
        fixed = cuda.shared.array(2, element)
        given = cuda.shared.array(0, element)
        own = cuda.local.array(2, element)
        t = cuda.threadIdx.x
        own[1] = 1
        if t == 0:
            fixed[1] = given[1] = 0
        cuda.syncthreads()
        cuda.atomic.add(own, 1, t)
        cuda.atomic.add(fixed, 1, own[1])
        cuda.atomic.max(given, 1, own[1])
        cuda.syncthreads()
        out[cuda.grid(1)] = fixed[1] * 100 + given[1]

    out = cuda.device_array(64, kind)
    totals[2, 32, 0, 16](out)
    assert (out.copy_to_host() == (32 * 33 // 2) * 100 + 32).all()


def _all_words(words):
    """A kernel that applies each of `words` twice to elements of a shared array."""
    lines = [
        "def kernel(start, values, old, end, tickets):",
        f"    room = cuda.shared.array(({len(words)}, 32), start.dtype)",
        "    counter = cuda.shared.array(1, np.int32)",
        "    t = cuda.threadIdx.x",
        f"    for k in range({len(words)}):",
        "        room[k, t] = start[t]",
        "    if t == 0:",
        "        counter[0] = 0",
        "    cuda.syncthreads()",
        "    tickets[t] = cuda.atomic.add(counter, 0, 1)",
    ]
    for k, word in enumerate(words):
        call = f"cuda.atomic.{word}(room, ({k}, 31 - t), values[t])"
        lines += [f"    old[{k}, t] = {call}", f"    {call}"]
    lines += [
        "    cuda.syncthreads()",
        f"    for k in range({len(words)}):",
        "        end[k, t] = room[k, t]",
    ]
    names = {"cuda": cuda, "np": np}
    exec("\n".join(lines), names)
    return cuda.jit(names["kernel"])


@pytest.mark.parametrize("kind", INTS + FLOATS)
def test_each_word_works_in_shared_memory(way, kind):
    words = [word for word, (kinds, _) in WORDS.items() if kind in kinds]
    start, values = of_kind(kind, 5, 32), of_kind(kind, 6, 32)
    old, end = (cuda.device_array((len(words), 32), kind) for _ in range(2))
    tickets = cuda.device_array(32, "i4")
    _all_words(words)[1, 32](cuda.to_device(start), cuda.to_device(values), old, end, tickets)
    for k, word in enumerate(words):
        both = [
            in_order(word, first, [value, value])
            for first, value in zip(start[::-1], values, strict=True)
        ]
        np.testing.assert_array_equal(old.copy_to_host()[k], start[::-1], word)
        np.testing.assert_array_equal(end.copy_to_host()[k], [now for now, _ in both][::-1], word)
    assert sorted(tickets.copy_to_host()) == list(range(32))


@pytest.mark.parametrize("kind", ["i2", "f4", "f8"])
def test_cas_works_in_shared_memory(way, kind):
    element = np.dtype(kind).type

    @cuda.jit
    def swap(found, end):
        room = cuda.shared.array(4, element)
        t = cuda.threadIdx.x
        if t < 4:
            room[t] = t
        cuda.syncthreads()
        # One of eight threads finds what it looks for.
        found[t] = cuda.atomic.cas(room, t % 4, t % 4, 100 + t)
        cuda.syncthreads()
        end[t] = room[t % 4]

    found, end = cuda.device_array(32, kind), cuda.device_array(32, kind)
    swap[1, 32](found, end)
    for place in range(4):
        seen = list(found.copy_to_host()[place::4])
        last = end.copy_to_host()[place]
        assert seen.count(place) == 1
        assert seen.count(last) == 7
        assert last == 100 + place + 4 * seen.index(place)


@pytest.mark.parametrize("make", ["mapped_array", "managed_array", "pinned_array"])
def test_atomics_work_on_memory_that_the_host_sees(way, make):
    @cuda.jit
    def count(x):
        cuda.atomic.add(x, 0, 1)

    x = getattr(cuda, make)(1, dtype=np.int32)
    x[0] = 0
    count[3, 50](x)
    cuda.synchronize()
    assert x[0] == 150


def test_atomics_work_on_fields_of_records_and_arrays_in_them(way):
    @cuda.jit
    def count(array, record):
        i = cuda.grid(1) % 2
        cuda.atomic.add(array["n"], i, 1)
        cuda.atomic.max(array.x, i, cuda.grid(1))
        cuda.atomic.sub(array[i].v, 2, 1)
        cuda.atomic.add(record.v, (1,), 0.5)

    dtype = np.dtype([("x", "f8"), ("n", "i4"), ("v", "f4", (3,))], align=True)
    array, record = cuda.to_device(np.zeros(2, dtype)), cuda.to_device(np.zeros(1, dtype))
    count[2, 32](array, record[0])
    there = array.copy_to_host()
    assert there["n"].tolist() == [32, 32]
    assert there["x"].tolist() == [62, 63]
    assert there["v"].tolist() == [[0, 0, -32]] * 2
    assert record.copy_to_host()["v"].tolist() == [[0, 32, 0]]


@pytest.mark.ptx_always
@pytest.mark.parametrize("kind", ["c8", "c16"])
def test_atomics_work_on_the_parts_of_complex_numbers(way, kind):
    @cuda.jit
    def add(total, values):
        i = cuda.grid(1)
        cuda.atomic.add(total.real, (0, 1), values[i].real)
        cuda.atomic.add(total.imag, (0, 1), values[i].imag)
        cuda.atomic.max(total.imag, (0, 0), values[i].imag)

    values = (np.arange(64) + 1j * np.arange(64)[::-1]).astype(kind)
    total = cuda.to_device(np.zeros((1, 2), kind))
    add[2, 32](total, cuda.to_device(values))
    np.testing.assert_array_equal(total.copy_to_host(), [[63j, values.sum()]])


def test_atomics_work_on_strided_arrays(way):
    @cuda.jit
    def count(array):
        cuda.atomic.add(array, (cuda.threadIdx.x, -1), 1)

    host = cuda.to_device(np.zeros((4, 6), np.int32))
    count[5, 2](host[::2, ::3])
    expected = np.zeros((4, 6))
    expected[::2, 3] = 5
    np.testing.assert_array_equal(host.copy_to_host(), expected)


def test_values_become_what_the_array_holds(way):
    @cuda.jit
    def mixed(ints, floats):
        cuda.atomic.add(ints, 0, 2.75)
        cuda.atomic.add(ints, np.uint8(1), True)
        cuda.atomic.add(floats, 0, 3)
        cuda.atomic.max(floats, 1, np.int8(4))

    ints, floats = cuda.to_device(np.zeros(2, "i4")), cuda.to_device(np.zeros(2, "f4"))
    mixed[1, 1](ints, floats)
    assert ints.copy_to_host().tolist() == [2, 1]
    assert floats.copy_to_host().tolist() == [3, 4]


@roc.jit
def of_roc(array, old):
    i = roc.get_global_id(0)
    old[i] = roc.atomic.add(array, i % 2, i)
    roc.atomic.max(array, 2, i)
    roc.atomic.inc(array, 3, 20)


def test_atomics_of_the_other_vocabulary(way):
    array, old = roc.to_device(np.zeros(4, np.uint32)), roc.device_array(32, np.uint32)
    of_roc[2, 16](array, old)
    i = np.arange(32)
    assert array.copy_to_host().tolist() == [i[::2].sum(), i[1::2].sum(), 31, 32 % 21]
    assert len(set(old.copy_to_host()[2::2])) == 15


def test_an_index_worked_out_of_signed_and_unsigned_numbers_is_a_whole_number(way):
    @cuda.jit
    def count(bins, keys):
        # To Numba the second one is a float64.
        cuda.atomic.add(bins, (cuda.threadIdx.x % 2, keys[cuda.grid(1)] % bins.shape[1]), 1)

    keys = np.random.default_rng(8).integers(0, 2**52, 256, np.uint64)
    bins = cuda.to_device(np.zeros((2, 5), "i4"))
    count[2, 128](bins, cuda.to_device(keys))
    expected = [np.bincount((keys[k::2] % 5).astype(int), minlength=5) for k in range(2)]
    assert bins.copy_to_host().tolist() == np.array(expected).tolist()


# ---- what they refuse ---------------------------------------------------------------------------

REFUSED = [
    ("atomic.add(x.flat, 0, 1)", "f4", "expected an array"),
    ("atomic.add(x, 0, 1)", "c8", "atomic.add.*array: expected elements that are signed ints"),
    ("atomic.add(x, 0, 1)", "?", "got bool"),
    ("atomic.add(x, 0, 1j)", "f4", "value: expected a real number; got complex128"),
    ("atomic.add(x, 1j, 1)", "f4", "expected int indices; got complex128"),
    ("atomic.add(x, (0, 1), 1)", "f4", "2 indices for an array of 1 dim"),
    ("atomic.and_(x, 0, 1)", "f4", r"atomic.and_.*signed ints, unsigned ints; got float32"),
    ("atomic.inc(x, 0, 1)", "i4", r"atomic.inc.*expected elements that are unsigned ints; got int"),
    ("atomic.dec(x, 0, 1)", "f8", r"atomic.dec.*unsigned ints; got float64"),
    ("atomic.cas(x, 0, 1, 2)", "c8", "atomic.cas: array: expected elements that are ints or fl"),
    ("atomic.cas(x, 0, 1j, 2)", "i4", "atomic.cas: old: expected a real number"),
    ("atomic.compare_and_swap(x, 0, 1j)", "i4", "compare_and_swap: value: expected a real"),
    ("atomic.compare_and_swap(x.reshape(2, 1), 0, 1)", "i4", "array: expected one dimension; got"),
    ("atomic.add(TABLE, 0, 1)", "i4", "the array is read-only"),
]
TABLE = np.zeros(3, np.int32)


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED, ids=[case[0] for case in REFUSED])
def test_what_atomics_do_not_take_is_named(call, kind, message):
    names = {"cuda": cuda, "TABLE": TABLE}
    exec(f"def kernel(x):\n    cuda.{call}\n", names)
    with pytest.raises(CompileError, match=message):
        cuda.jit(names["kernel"])[1, 1](cuda.to_device(np.zeros(2, kind)))
