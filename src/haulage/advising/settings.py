"""What the command tells the program's process."""

from dataclasses import dataclass
from typing import ClassVar

from haulage.tracing.told import Told


@dataclass(frozen=True, kw_only=True)
class Settings(Told):
    """How a program is advised.

    Attributes:
        json: whether the advice is given as JSON.
        output: path of the file for it; '': it is printed.
    """

    VARIABLE: ClassVar[str] = "HAULAGE_ADVISE_SETTINGS"

    json: bool
    output: str
