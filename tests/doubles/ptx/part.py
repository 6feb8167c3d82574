"""The tests of devices that are also run by executing PTX in `make test`: some of each kind.

The others are by `make test-ptx`.
"""

# File -> names of its tests, or None for all of them.
PART: dict[str, tuple[str, ...] | None] = {
    "test_atomics.py": (
        "test_counters_that_wrap_give_each_number_equally_often",
        "test_exchanges_hand_each_value_on_once",
        "test_threads_see_what_they_added_through_another_name_of_the_array",
        "test_cas_writes_only_where_it_finds_the_old_value",
        "test_compare_and_swap_builds_other_atomics",
        "test_floats_are_swapped_where_their_bits_are_the_same",
        "test_a_nan_stays_or_counts_as_missing",
        "test_atomics_work_on_shared_and_local_and_dynamic_memory",
        "test_atomics_work_on_the_parts_of_complex_numbers",
    ),
    "test_clocks.py": None,
    "test_cooperative_grids.py": (
        "test_rows_are_made_one_after_another",
        "test_the_heat_equation",
        "test_threads_may_end_between_barriers",
        "test_words_of_warps_go_with_it",
        "test_threads_of_a_block_may_wait_at_different_places",
    ),
    "test_half.py": None,
    "test_kernels.py": None,
    "test_locks.py": None,
    "test_math.py": (
        "test_functions_of_one_number",
        "test_zeros_keep_their_sign",
        "test_special_functions",
        "test_remainders_of_ints_are_those_of_numpy",
        "test_reciprocals_of_unsigned_ints_are_those_of_numpy",
    ),
    "test_print.py": (
        "test_lines_of_values_and_strings",
        "test_values_look_as_in_python",
        "test_prints_around_barriers",
        "test_lines_without_room_are_counted",
    ),
    "test_private_arrays.py": None,
    "test_small_words.py": (
        "test_bits_of_ints",
        "test_fma_rounds_once",
        "test_barriers_gather_from_each_block",
        "test_loops_end_when_all_threads_say_so",
        "test_a_block_waits_for_another_one_with_nanosleep",
        "test_loads_and_stores_with_hints",
        "test_const_holds_an_array_of_the_program",
        "test_arrays_of_a_kernel_begin_where_they_are_asked_to",
    ),
    "test_vectors.py": None,
    "test_warp_words.py": None,
}


def has(file: str, name: str) -> bool:
    """Whether the test `name` of `file` is one of them."""
    if file not in PART:
        return False
    chosen = PART[file]
    return chosen is None or name in chosen
