RACE: int
UNWRITTEN: int
ANOTHER_BARRIER: int
NOT_IN_MASK: int
ABSENT_LANE: int
MISSED_BARRIER: int
WIDE_WARP: int
KIND_AT: int
FROM_NONE: int
FROM: dict[str, int]
SITE_BITS: int
SIZE_AT: int
RANGE_AT: int
NO_RANGE: int
SHARED: int
HAS_VALUE: int
ONLY_READS: int
TAKES: int
ARRAYS: int
COUNTERS: int
ENTRY: int
FOR_KERNELS: dict[str, int]

Range = tuple[int, int, int, int, bool]
Found = tuple[int, int, int | None, int, int, int, int, int, int, bool, int, int]

def begin(
    ranges: list[Range],
    blocks: int,
    threads: int,
    shared_shift: int,
    *,
    races: bool,
    unwritten: bool,
    keeps: bool,
    parallel: bool,
) -> None: ...
def sample_blocks(samples: list[tuple[int, int]], plain: int, checked: int) -> None: ...
def end() -> tuple[int, list[Found]]: ...
def stray(address: int) -> tuple[int, int, int] | None: ...
def counts(number: int) -> list[int]: ...
