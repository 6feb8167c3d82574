"""Programs of the corpus with their data in place: on Haulage's device, or for Numba's `njit`."""

from typing import Any

import numpy as np

from benchmarks.corpus.program import Launch, Made, View, wrong
from haulage import cuda


class OnDevice:
    """A program whose arrays are on the current device."""

    def __init__(self, made: Made) -> None:
        self.made = made
        self._arrays: dict[int, Any] = {}
        self._restored = [(self._put(array), cuda.to_device(array)) for array in made.restore]
        self._calls = [self._call(launch) for launch in made.launches]

    def run(self) -> None:
        """Run it and wait for its end."""
        for array, start in self._restored:
            array.copy_to_device(start)
        for launch, args in self._calls:
            launch(*args)
        cuda.synchronize()

    def result(self, array: np.ndarray) -> np.ndarray:
        """What stands now in the array of the device that was made of `array`."""
        found: np.ndarray = self._put(array).copy_to_host()
        return found

    def disagreement(self) -> str | None:
        """What is wrong with the results after a run; None if nothing is."""
        return _disagreement(self)

    def kernels(self) -> list[Any]:
        """Its kernels, each once, in the order of their launches."""
        return list({id(each.kernel): each.kernel for each in self.made.launches}.values())

    def _call(self, launch: Launch) -> tuple[Any, list[Any]]:
        configured = launch.kernel[launch.grid, launch.block, 0, launch.shared]
        return configured, [self._argument(value) for value in launch.args]

    def _argument(self, value: Any) -> Any:
        if isinstance(value, View):
            return value.of(self._put(value.array))
        return self._put(value) if isinstance(value, np.ndarray) else value

    def _put(self, array: np.ndarray) -> Any:
        if id(array) not in self._arrays:
            self._arrays[id(array)] = cuda.to_device(array)
        return self._arrays[id(array)]


class AsLoops:
    """A program's loops, with arrays of their own."""

    def __init__(self, made: Made) -> None:
        self.made = made
        self._arrays: dict[int, np.ndarray] = {}
        self._restored = [(self._put(array), array) for array in made.restore]
        self._calls = [
            (function, [self._argument(value) for value in args]) for function, args in made.loops
        ]

    def run(self) -> None:
        """Run them."""
        for array, start in self._restored:
            np.copyto(array, start)
        for function, args in self._calls:
            function(*args)

    def result(self, array: np.ndarray) -> np.ndarray:
        """What stands now in the copy of `array`."""
        return self._put(array)

    def disagreement(self) -> str | None:
        """What is wrong with the results after a run; None if nothing is."""
        return _disagreement(self)

    def _argument(self, value: Any) -> Any:
        if isinstance(value, View):
            return value.of(self._put(value.array))
        return self._put(value) if isinstance(value, np.ndarray) else value

    def _put(self, array: np.ndarray) -> np.ndarray:
        if id(array) not in self._arrays:
            self._arrays[id(array)] = array.copy()
        return self._arrays[id(array)]


def _disagreement(running: OnDevice | AsLoops) -> str | None:
    for number, (array, expected) in enumerate(running.made.expect()):
        told = wrong(running.result(array), expected, running.made.tolerance)
        if told:
            return f"result {number}: {told}"
    return None
