"""The roll of a block whose threads are coroutines: at which ends threads came out (`ends.py`), and
which ends the barriers miss threads at where others wait now. A set of ends is a mask.
"""

from haulage.compiler.ends import code_of

# The two masks that `%roll` points to; nobody waits at first and nobody has ended.
OPEN = [
    "  %roll = alloca { i32, i32 }, align 8",
    "  store { i32, i32 } zeroinitializer, ptr %roll",
    "  %roll.missed = getelementptr inbounds { i32, i32 }, ptr %roll, i32 0, i32 1",
]

# Behind the count of a block's threads: may those that wait go on? All that do are then resumed.
JUDGE = [
    "  %roll.gone.now = load i32, ptr %roll",
    "  %roll.missed.now = load i32, ptr %roll.missed",
    "  store i32 0, ptr %roll.missed",
    "  %roll.both = and i32 %roll.gone.now, %roll.missed.now",
    "  %roll.none = icmp eq i32 %roll.both, 0",
    "  %roll.sound = icmp eq i32 %failed.now, 0",
    "  %roll.waits = icmp ne i32 %waiting.now, 0",
    "  %roll.complete = and i1 %roll.none, %roll.sound",
    "  %none.missed = and i1 %roll.complete, %roll.waits",
]


def wait(stem: str, missed: int) -> list[str]:
    """Lines in which a thread begins to wait at a barrier that misses threads at ends `missed`."""
    return [
        f'  %"{stem}.roll.at" = getelementptr inbounds {{ i32, i32 }}, ptr %roll, i32 0, i32 1',
        *_add(stem, f'%"{stem}.roll.at"', str(missed & 0xFFFFFFFF)),
    ]


def leave(stem: str, code: str) -> list[str]:
    """Lines in which a thread ends with a code."""
    return [
        f'  %"{stem}.is.end" = icmp uge i32 {code}, {code_of(1)}',
        f'  %"{stem}.is.first" = icmp eq i32 {code}, 0',
        f'  %"{stem}.number" = and i32 {code}, 31',
        f'  %"{stem}.one" = zext i1 %"{stem}.is.end" to i32',
        f'  %"{stem}.other" = shl i32 %"{stem}.one", %"{stem}.number"',
        f'  %"{stem}.first" = zext i1 %"{stem}.is.first" to i32',
        f'  %"{stem}.end" = or i32 %"{stem}.other", %"{stem}.first"',
        *_add(stem, "%roll", f'%"{stem}.end"'),
    ]


def _add(stem: str, address: str, mask: str) -> list[str]:
    return [
        f'  %"{stem}.roll" = load i32, ptr {address}',
        f'  %"{stem}.rolled" = or i32 %"{stem}.roll", {mask}',
        f'  store i32 %"{stem}.rolled", ptr {address}',
    ]
