"""In which loops threads wait for a write of another one, and which loops go on by themselves."""

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.compiler.simt.coroutines import spin_loops

L, F = "int64[::1]", "float64[::1]"
CALL = "call void @haulage.yield()"


def _yields(kernel, types):
    code = haulage.compile(kernel, f"void({', '.join(types)})", block=64)
    return code.stages["clean"].count(CALL)


# ---- loops that wait -------------------------------------------------------------------------


def plain_reads(flag, out):
    t = cuda.threadIdx.x
    while flag[t + 1] == 0:
        pass
    out[t] = flag[t + 1]
    flag[t] = 1


def reads_with_a_fence(flag, out):
    t = cuda.threadIdx.x
    while True:
        cuda.threadfence()
        if flag[t + 1] != 0:
            break
    flag[t] = 1


def a_shared_flag(flag, out):
    own = cuda.shared.array(64, np.int32)
    t = cuda.threadIdx.x
    own[t] = 0
    cuda.syncthreads()
    if t < 32:
        while own[t + 32] == 0:
            pass
    else:
        own[t] = 1
    out[t] = own[t]


def compare_and_swap(lock, out):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    out[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


def exchange_that_waits_longer_each_time(lock, out):
    ns = 8
    while cuda.atomic.exch(lock, 0, 1) == 1:
        cuda.nanosleep(ns)
        if ns < 256:
            ns *= 2
    out[0] += 1
    lock[0] = 0


def a_look_before_each_try(lock, out):
    while True:
        while lock[0] != 0:
            pass
        if cuda.atomic.cas(lock, 0, 0, 1) == 0:
            break
    out[0] += 1
    lock[0] = 0


def an_addition_that_is_undone(lock, out):
    while True:
        if cuda.atomic.add(lock, 0, 1) == 0:
            break
        cuda.atomic.sub(lock, 0, 1)
    out[0] += 1
    cuda.atomic.sub(lock, 0, 1)


def critical_section_within_the_loop(lock, out):
    done = False
    while not done:
        if cuda.atomic.cas(lock, 0, 0, 1) == 0:
            out[0] += 1
            cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)
            done = True


def tickets(lock, out):
    own = cuda.atomic.add(lock, 0, 1)
    while cuda.atomic.add(lock, 1, 0) != own:
        pass
    out[0] += 1
    cuda.atomic.add(lock, 1, 1)


def readers_of_a_lock(lock, out):
    while True:
        old = cuda.atomic.add(lock, 0, 0)
        if old >= 0 and cuda.atomic.cas(lock, 0, old, old + 1) == old:
            break
    out[cuda.threadIdx.x] = 1
    cuda.atomic.sub(lock, 0, 1)


def a_turn_handed_on(turn, out):
    t = cuda.threadIdx.x
    while cuda.atomic.cas(turn, 0, t, t + 1) != t:
        pass
    out[t] = 1


def a_look_at_all_flags(flag, out):
    t = cuda.threadIdx.x
    if t == 0:
        while True:
            ready = True
            for k in range(1, 64):
                if flag[k] == 0:
                    ready = False
            if ready:
                break
        out[0] = 1
    else:
        flag[t] = 1


def looks_of_limited_number(flag, out):
    t = cuda.threadIdx.x
    if t == 0:
        for _ in range(1000):
            if flag[0] == 1:
                out[0] = 1
                break
    elif t == 63:
        flag[0] = 1


def backwards_until_something_is_there(state, sums):
    b = cuda.blockIdx.x
    total = 0
    k = b - 1
    while k >= 0:
        seen = cuda.atomic.add(state, k, 0)
        if seen == 0:
            continue
        total += sums[k]
        if seen == 2:
            break
        k -= 1
    sums[b] += total
    cuda.threadfence()
    cuda.atomic.exch(state, b, 2)


def a_vote_of_what_was_read(state, out):
    t = cuda.threadIdx.x
    while True:
        seen = cuda.atomic.add(state, t, 0)
        if cuda.all_sync(0xFFFFFFFF, seen != 0):
            break
    out[t] = seen
    state[(t + 32) % 64] = 1


def a_search_that_another_thread_ends(stop, x):
    k = cuda.threadIdx.x
    while stop[0] == 0:
        if x[k % x.size] == 7:
            stop[0] = 1
        k += 64


def a_state_that_what_was_read_changes(flag, out):
    t = cuda.threadIdx.x
    if t == 0:
        state = 1
        while state == 1:
            if cuda.atomic.add(flag, 0, 0) != 0:
                state = 2
        out[0] = state
    elif t == 40:
        cuda.atomic.add(flag, 0, 5)


def the_same_word_to_another_thread_in_each_iteration(flag, out):
    t = cuda.threadIdx.x
    one, other = out[0], out[1]
    if t == 0:
        while flag[one] == 0:
            flag[other] = 1
    elif t == 1:
        flag[one] = 1


def a_count_of_looks_beside_the_flag(flag, out):
    t = cuda.threadIdx.x
    if t == 0:
        while flag[1] == 0:
            flag[0] += 1
    elif t == 1:
        flag[1] = 1


def an_atomic_count_of_looks_beside_the_flag(flag, out):
    t = cuda.threadIdx.x
    if t == 0:
        while flag[1] == 0:
            cuda.atomic.add(flag, 0, 1)
    elif t == 1:
        flag[1] = 1


def a_count_of_tries_in_memory(lock, out):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        out[1] += 1
        if out[1] > 8:
            cuda.nanosleep(100)
    lock[0] = 0


@pytest.mark.parametrize(
    ("kernel", "loops"),
    [
        (plain_reads, 1),
        (reads_with_a_fence, 1),
        (a_shared_flag, 1),
        (compare_and_swap, 1),
        (exchange_that_waits_longer_each_time, 1),
        (a_look_before_each_try, 2),
        (an_addition_that_is_undone, 1),
        (critical_section_within_the_loop, 1),
        (tickets, 1),
        (readers_of_a_lock, 1),
        (a_turn_handed_on, 1),
        (a_look_at_all_flags, 1),
        (looks_of_limited_number, 1),
        (backwards_until_something_is_there, 1),
        (a_vote_of_what_was_read, 1),
        (a_search_that_another_thread_ends, 1),
        (a_state_that_what_was_read_changes, 1),
        (the_same_word_to_another_thread_in_each_iteration, 1),
        (a_count_of_looks_beside_the_flag, 1),
        (an_atomic_count_of_looks_beside_the_flag, 1),
        (a_count_of_tries_in_memory, 1),
    ],
)
def test_a_thread_gives_way_where_only_another_one_can_end_its_loop(kernel, loops):
    assert _yields(kernel, ("int32[::1]", "int32[::1]")) == loops


# ---- loops that go on by themselves ----------------------------------------------------------


def largest(most, x):
    i = cuda.grid(1)
    old = most[0]
    while old < x[i]:
        seen = cuda.atomic.cas(most, 0, old, x[i])
        if seen == old:
            break
        old = seen


def swap_what_was_read(total, x):
    i = cuda.grid(1)
    while True:
        old = total[0]
        if cuda.atomic.cas(total, 0, old, old + x[i]) == old:
            break


def atomics_of_floats(sums, x):
    for k in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.max(sums, 0, x[k])
        cuda.atomic.nanmin(sums, 1, x[k])
        cuda.atomic.add(sums, 2, x[k])


def numbers_from_a_counter(count, x):
    while True:
        i = cuda.atomic.add(count, 0, 1)
        if i >= x.size:
            break
        x[i] *= 2


def some_work_for_each_number_from_a_counter(count, x):
    while True:
        i = cuda.atomic.add(count, 0, 1)
        if i >= x.size:
            break
        if x[i] > 5:
            x[i] = 5


def a_hash_table(keys, x):
    key = x[cuda.grid(1)]
    place = key % keys.size
    while True:
        old = cuda.atomic.cas(keys, place, -1, key)
        if old in (-1, key):
            break
        place = (place + 1) % keys.size
    x[cuda.grid(1)] = place


def a_stack(head, following):
    i = cuda.grid(1)
    while True:
        old = head[0]
        following[i] = old
        if cuda.atomic.cas(head, 0, old, i) == old:
            break


def sets_that_are_joined(parent, edges):
    i = cuda.grid(1)
    a, b = edges[2 * i], edges[2 * i + 1]
    while True:
        while parent[a] != a:
            a = parent[a]
        while parent[b] != b:
            b = parent[b]
        if a == b:
            break
        if a < b:
            a, b = b, a
        if cuda.atomic.cas(parent, a, a, b) == a:
            break


def halves(x, y):
    i = cuda.grid(1)
    while x[i] > 1:
        x[i] //= 2


def a_root(x, y):
    i = cuda.grid(1)
    value = x[i]
    while abs(value * value - x[i]) > 1e-9:
        value = 0.5 * (value + x[i] / value)
    x[i] = value


def a_search_in_a_sorted_array(x, y):
    i = cuda.grid(1)
    low, high = 0, x.size
    while low < high:
        middle = (low + high) // 2
        if x[middle] < y[i]:
            low = middle + 1
        else:
            high = middle
    y[i] = low
    x[i] = 0


def a_list(following, out):
    i = cuda.grid(1)
    node = i
    while node != -1:
        out[i] += 1
        node = following[node]
    following[i] = -1


def a_loop_that_may_end_early(found, x):
    for k in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        if found[0] != 0:
            break
        if x[k] == 7:
            found[0] = 1


def a_sort_by_swaps(x, y):
    i = cuda.grid(1)
    swapped = True
    while swapped:
        swapped = False
        for k in range(7):
            if x[i * 8 + k] > x[i * 8 + k + 1]:
                x[i * 8 + k], x[i * 8 + k + 1] = x[i * 8 + k + 1], x[i * 8 + k]
                swapped = True


def a_sort_of_three(x, y):
    while True:
        if x[0] > x[1]:
            x[0], x[1] = x[1], x[0]
        elif x[1] > x[2]:
            x[1], x[2] = x[2], x[1]
        else:
            break


def a_mark_that_ends_the_loop(x, y):
    i = cuda.grid(1)
    while x[i] == 0:
        y[i] += 1
        x[i] = 1


def a_sort_by_insertion(x, y):
    i = cuda.grid(1)
    for a in range(1, 8):
        value = x[i * 8 + a]
        b = a - 1
        while b >= 0 and x[i * 8 + b] > value:
            x[i * 8 + b + 1] = x[i * 8 + b]
            b -= 1
        x[i * 8 + b + 1] = value


def turns_with_a_barrier(changed, x):
    t = cuda.threadIdx.x
    while True:
        cuda.syncthreads()
        if t == 0:
            changed[0] = 0
        cuda.syncthreads()
        if x[t] > x[(t + 1) % 64]:
            x[t] = x[(t + 1) % 64]
            changed[0] = 1
        cuda.syncthreads()
        if changed[0] == 0:
            break


def a_bound_of_work(x, y):
    i = cuda.grid(1)
    k = 0
    while x[i] < 100 and k < 1000:
        y[i] += x[i]
        k += 1
    x[i] = 1


def powers(x, factor):
    i = cuda.grid(1)
    y = x[i]
    k = 0
    while k < 50 and y > 1:
        y *= factor[0]
        k += 1
    factor[i + 1] = k


def powers_without_a_bound(x, factor):
    i = cuda.grid(1)
    y = x[i]
    while y > 1:
        y *= factor[0]
    factor[i + 1] = y


def steps_of_newton(x, tolerance):
    i = cuda.grid(1)
    value = x[i]
    step = 1.0
    while abs(step) > tolerance[0]:
        step = (value * value - x[i]) / (2 * value)
        value -= step
    x[i] = value
    tolerance[i + 1] = step


def halves_of_an_interval(x, tolerance):
    i = cuda.grid(1)
    low, high = 0.0, x[i]
    while high - low > tolerance[0]:
        middle = 0.5 * (low + high)
        if middle * middle > x[i]:
            high = middle
        else:
            low = middle
    x[i] = low
    tolerance[i + 1] = high


def escapes(parameters, turns):
    i = cuda.grid(1)
    real, imaginary = 0.0, 0.0
    n = 0
    while n < parameters[0] and real * real + imaginary * imaginary < 4:
        real, imaginary = (
            real * real - imaginary * imaginary + parameters[1],
            2 * real * imaginary + parameters[2],
        )
        n += 1
    turns[i] = n
    parameters[i] = n


def turns_of_collatz(x, last):
    i = cuda.grid(1)
    n = x[i]
    k = 0
    while n != last[0]:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        k += 1
    last[i + 1] = k


def a_common_divisor(x, last):
    i = cuda.grid(1)
    a, b = x[i], x[i + 1]
    while b != last[0]:
        a, b = b, a % b
    last[i + 1] = a


def a_random_walk(x, bound):
    i = cuda.grid(1)
    state = x[i]
    place = 0
    while abs(place) < bound[0]:
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        place += 1 if state & 65536 else -1
    bound[i + 1] = state


def a_search_in_a_hash_table(keys, x):
    i = cuda.grid(1)
    place = x[i] % keys.size
    while keys[place] not in (x[i], -1):
        place = (place + 1) % keys.size
    keys[place] = x[i]


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        (largest, F),
        (swap_what_was_read, L),
        (atomics_of_floats, F),
        (numbers_from_a_counter, L),
        (some_work_for_each_number_from_a_counter, L),
        (a_hash_table, L),
        (a_stack, L),
        (sets_that_are_joined, L),
        (halves, L),
        (a_root, F),
        (a_search_in_a_sorted_array, F),
        (a_list, L),
        (a_loop_that_may_end_early, L),
        (a_sort_by_swaps, L),
        (a_sort_of_three, L),
        (a_mark_that_ends_the_loop, L),
        (a_sort_by_insertion, L),
        (turns_with_a_barrier, L),
        (a_bound_of_work, L),
        (powers, F),
        (powers_without_a_bound, F),
        (steps_of_newton, F),
        (halves_of_an_interval, F),
        (escapes, F),
        (turns_of_collatz, L),
        (a_common_divisor, L),
        (a_random_walk, L),
        (a_search_in_a_hash_table, L),
    ],
)
def test_a_thread_that_goes_on_by_itself_gives_way_to_none(kernel, kind):
    assert _yields(kernel, (kind, kind)) == 0


# ---- the text --------------------------------------------------------------------------------

WAIT = """
define i32 @kernel(ptr %ret, ptr %flag, ptr %other) {
entry:
  br label %look
look:
  %turns = phi i32 [ 0, %entry ], [ %more, %again ]
  %value = load i32, ptr %flag
  SWITCH
again:
  %more = add i32 %turns, 1
  br label %look
end:
  %last = phi i32 [ %turns, %look ]
  store i32 %last, ptr WRITTEN
  ret i32 0
}
"""
BRANCH = "br i1 %is.zero, label %again, label %end"
SWITCH = """switch i32 %value, label %end [
    i32 0, label %again
    i32 1, label %again
  ]"""


def _marked(switch=SWITCH, written="%flag"):
    return spin_loops.marked(WAIT.replace("SWITCH", switch).replace("WRITTEN", written), "kernel")


def test_the_call_stands_on_the_way_back_to_the_head_of_the_loop():
    text = _marked()
    assert "[ 0, %entry ], [ %more, %haulage.yield.0 ]" in text
    assert f"haulage.yield.0:\n  {CALL}\n  br label %look\n" in text
    assert "%more = add i32 %turns, 1\n  br label %haulage.yield.0" in text
    assert "declare void @haulage.yield()" in text


def test_what_no_thread_writes_is_not_waited_for():
    assert _marked(written="%other") is None
