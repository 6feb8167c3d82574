GLOBAL: int
SHARED: int
BRANCH: int
LOOP: int
COUNT: int
FOR_KERNELS: dict[str, int]

Site = tuple[int, int, int, bool, bool, bool]

def begin(
    sites: list[Site],
    groups: int,
    threads: int,
    lanes: int,
    measured: list[int] | None,
    shifts: list[tuple[int, int, int]],
    *,
    keeps: bool,
) -> None: ...
def end(sites: int, groups: int) -> tuple[int, int, int, list[list[int]], list[list[int]]]: ...
