"""What the command tells the program's process, by a variable of the environment."""

import json
import os
import sys
from dataclasses import asdict, dataclass

VARIABLE = "HAULAGE_TRACE_SETTINGS"


@dataclass(frozen=True)
class Settings:
    """How a program is traced.

    Attributes:
        program: what the program was called by: its path or `-m` and its name, and its arguments.
        output: path of the files without their endings.
        html: whether the page is written.
        json: whether the trace is written.
        frames: how many lines of the program's stack are kept for each event.
        most: how many operations of streams, and how many changes of memory, are kept.
        compare: whether what is copied is compared with what was copied before.
        starter: number of the process of the command, which becomes the program.
    """

    program: str
    output: str
    html: bool
    json: bool
    frames: int
    most: int
    compare: bool
    starter: int

    def give_on(self) -> None:
        """Tell the processes that this one starts or becomes."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @property
    def is_program(self) -> bool:
        """Whether this process is the program itself, not one that it started."""
        starter = os.getppid() if sys.platform == "win32" else os.getpid()
        return starter == self.starter


def given() -> Settings | None:
    """What this process was told, if it was."""
    text = os.environ.get(VARIABLE)
    return Settings(**json.loads(text)) if text else None
