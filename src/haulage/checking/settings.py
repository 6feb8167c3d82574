"""What the command tells the program's process."""

from dataclasses import dataclass
from typing import ClassVar

from haulage.tracing.told import Told


@dataclass(frozen=True, kw_only=True)
class Settings(Told):
    """How a program is checked.

    Attributes:
        checks: the names of the checks, with commas between them.
        folder: where each process writes what it found.
    """

    VARIABLE: ClassVar[str] = "HAULAGE_CHECK_SETTINGS"

    checks: str
    folder: str
