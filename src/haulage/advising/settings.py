"""What the command tells the program's process, by a variable of the environment."""

import json
import os
import sys
from dataclasses import asdict, dataclass

VARIABLE = "HAULAGE_ADVISE_SETTINGS"


@dataclass(frozen=True)
class Settings:
    """How a program is advised.

    Attributes:
        program: what the program was called by: its path or `-m` and its name, and its arguments.
        json: whether the advice is given as JSON.
        output: path of the file for it; '': it is printed.
        starter: number of the process of the command, which becomes the program.
    """

    program: str
    json: bool
    output: str
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
