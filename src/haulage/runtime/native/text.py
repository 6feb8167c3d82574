"""The emitted code as a whole, for objects as this process lays them out."""

import sys
from typing import Any

from haulage.runtime.native import fields, find_ir, free_ir, layouts, objects_ir, take_ir

EXPORTS = ("state_at", "take", "live", "dealloc")

# The clock of `time.monotonic`; on Linux as it was at the last tick, some milliseconds ago at most,
# which takes a fifth of the time: CLOCK_MONOTONIC_COARSE. On macOS it is CLOCK_UPTIME_RAW.
_CLOCK = {"linux": 6, "darwin": 8}


def text(block: list[layouts.Slot], block_bytes: int, weak: int, array: list[layouts.Slot]) -> str:
    """LLVM IR.

    Args:
        block, array: the slots that are filled in blocks and arrays; a plan has a value for each.
        block_bytes: of a `Block`.
        weak: where a block has its weak references.
    """
    item = [layouts.TUPLE_ITEMS + 8 * n for n in range(len(fields.PLAN) + len(block) + len(array))]
    first = len(fields.PLAN)
    blocks, block_items = _places(block, item[first:])
    arrays, array_items = _places(array, item[first + len(block) :])
    places: dict[str, Any] = {
        **{name: _in_state(8 * n) for n, name in enumerate(fields.STATE)},
        "watched_at": _in_state(fields.WATCHED_AT),
        "of_process_at": _in_state(fields.WATCHED_AT + 32 * fields.OF_PROCESS),
        "process_choice_at": _in_state(fields.WATCHED_AT + 32 * fields.PROCESS_CHOICE),
        "plans_at": _in_state(fields.PLANS_AT),
        "codes_at": _in_state(fields.CODES_AT),
        **{f"b_{name}": block_bytes + 8 * n for n, name in enumerate(fields.OF_BLOCK)},
        **{f"p_{name}": item[n] for n, name in enumerate(fields.PLAN)},
        **{f"n_{name}": layouts.BYTES_DATA + 8 * n for n, name in enumerate(fields.NUMBERS)},
        "b_device_ptr": blocks["device_ptr"],
    }
    counters = [places[f"n_counter{level}"] for level in range(fields.LEVELS)]
    whole = objects_ir.TEXT + find_ir.TEXT + free_ir.TEXT + take_ir.TEXT
    return whole.format(
        **places,
        state_bytes=fields.STATE_BYTES,
        most_axes=fields.MOST_AXES,
        ways=fields.WAYS,
        first_plain=fields.FIRST_PLAIN,
        last_plan=fields.PLANS - 1,
        last_code=fields.CODES - 1,
        type_at=layouts.TYPE,
        size_at=layouts.SIZE,
        dict_keys=layouts.DICT_KEYS,
        list_items=layouts.LIST_ITEMS,
        list_room=layouts.LIST_ROOM,
        tuple_items=layouts.TUPLE_ITEMS,
        item_0=item[0],
        item_1=item[1],
        weak=weak,
        count="i64" if sys.version_info < (3, 12) else "i32",
        clock=_CLOCK[sys.platform],
        one_argument=1 - 2**63,  # PY_VECTORCALL_ARGUMENTS_OFFSET: there is room before it
        compare_slots=free_ir.compare_slots(blocks, block_items),
        drop_slots=free_ir.drop_slots(blocks),
        count_down=free_ir.count_down(counters),
        fill_block=take_ir.fill_block(blocks, block_items),
        fill_array=take_ir.fill_array(arrays, array_items),
        count_up=take_ir.count_up(counters),
    )


def _places(slots: list[layouts.Slot], items: list[int]) -> tuple[dict[str, int], dict[str, int]]:
    """Where objects and plans have the value of each slot."""
    return (
        {slot.name: slot.place for slot in slots},
        {slot.name: item for slot, item in zip(slots, items, strict=False)},
    )


def _in_state(place: int) -> str:
    return f"getelementptr (i8, ptr @state, i64 {place})"
