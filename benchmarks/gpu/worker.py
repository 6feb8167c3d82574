"""One package in a process of its own: `python -m benchmarks.gpu.worker MODULE`."""

import gc
import importlib
import sys
from typing import Any

from benchmarks import worker
from benchmarks.gpu.measures import MEASURES, possible


class Worker:
    """The module of one package, and the measure that is prepared."""

    def __init__(self, module: str) -> None:
        self.module = importlib.import_module(module)
        self.offers = self.module.offers()
        self.once: Any = None

    def about(self) -> str:
        """What the package says of itself."""
        said: str = self.module.about()
        return said

    def measures(self) -> list[str]:
        """The names of the measures that it takes part in."""
        return possible(self.offers)

    def prepare(self, name: str, small: bool) -> None:
        """Get ready for a measure, and take it once."""
        self.once = None
        self.once = MEASURES[name].prepare(self.offers, small)
        self.once()

    def turn(self) -> float:
        """The figure, measured once."""
        value: float = self.once()
        return value

    def drop(self) -> None:
        """Let go of the data, and of memory that the package keeps for later."""
        self.once = None
        gc.collect()
        if "trim" in self.offers:
            self.offers["trim"]()


if __name__ == "__main__":
    worker.main(sys.argv[1], Worker)
