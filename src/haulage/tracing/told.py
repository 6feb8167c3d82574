"""What a command tells the program that it runs, and the processes of that, by a variable of the
environment."""

import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import ClassVar, Self


@dataclass(frozen=True, kw_only=True)
class Told:
    """What is told; each command has a class of its own, with a variable.

    Attributes:
        program: what the program was called by: its path or `-m` and its name, and its arguments.
        starter: number of the process of the command, which becomes the program.
    """

    VARIABLE: ClassVar[str]

    program: str
    starter: int

    def give_on(self) -> None:
        """Tell the processes that this one starts or becomes."""
        os.environ[self.VARIABLE] = json.dumps(asdict(self))

    @property
    def is_program(self) -> bool:
        """Whether this process is the program itself, not one that it started."""
        starter = os.getppid() if sys.platform == "win32" else os.getpid()
        return starter == self.starter

    @classmethod
    def given(cls) -> Self | None:
        """What this process was told, if it was."""
        text = os.environ.get(cls.VARIABLE)
        return cls(**json.loads(text)) if text else None
