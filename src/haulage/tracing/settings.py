"""What the command tells the program's process."""

from dataclasses import dataclass
from typing import ClassVar

from haulage.tracing.told import Told


@dataclass(frozen=True, kw_only=True)
class Settings(Told):
    """How a program is traced.

    Attributes:
        output: path of the files without their endings.
        html: whether the page is written.
        json: whether the trace is written.
        frames: how many lines of the program's stack are kept for each event.
        most: how many operations of streams, and how many changes of memory, are kept.
        compare: whether what is copied is compared with what was copied before.
    """

    VARIABLE: ClassVar[str] = "HAULAGE_TRACE_SETTINGS"

    output: str
    html: bool
    json: bool
    frames: int
    most: int
    compare: bool
