"""What the command tells the program's process."""

from dataclasses import dataclass
from typing import ClassVar

from haulage.tracing.told import Told


@dataclass(frozen=True, kw_only=True)
class Settings(Told):
    """Where a program stops.

    Attributes:
        kernel: the name of the kernel; '': the first one that is launched.
        block, thread: three ints, or None: nothing was said.
        launch: which launch of the kernel, counted from 1.
    """

    VARIABLE: ClassVar[str] = "HAULAGE_DEBUG_SETTINGS"

    kernel: str
    block: list[int] | None
    thread: list[int] | None
    launch: int
