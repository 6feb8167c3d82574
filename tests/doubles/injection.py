"""Runs programs again and again, each time with another call to the driver that fails."""

import gc
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import haulage
from doubles.programs import Bystanders, Program, numbers
from doubles.watched import GIVES_BACK, SHORTAGES, Fault, shortage_or_error
from haulage import cuda
from haulage.errors import OutOfMemory
from haulage.runtime import memory
from haulage.runtime.devices.device import Device

# Calls that a user waits in, and interrupts.
WAITS = frozenset({"synchronize", "stream_synchronize", "event_synchronize"})


@dataclass
class Outcome:
    """What came of letting each call of a program fail.

    Attributes:
        tried: how often each method was made to fail.
        survived: how often the program then ran to its end all the same; else it was told.
        lost: values that changed, errors that nobody saw, programs that did not run afterwards.
        leaked: what was held afterwards and not before, or the other way round.
        violated: what was given back twice, or too early.
    """

    tried: Counter[str] = field(default_factory=Counter)
    survived: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    violated: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        """All that was lost, leaked or violated, in words."""
        return self.lost + self.leaked + self.violated

    def add(self, other: "Outcome") -> None:
        """Count another outcome in."""
        self.tried += other.tried
        self.survived += other.survived
        self.lost += other.lost
        self.leaked += other.leaked
        self.violated += other.violated


class Injection:
    """Runs programs on a device of `watched_device`."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.driver: Any = device.backend
        self._others = Bystanders()
        values = numbers(500)
        for made in (cuda.mapped_array(500), cuda.managed_array(500), cuda.pinned_array(500)):
            made[...] = values
            self._others.expect(made, values)
        stream = cuda.stream()
        self._others.expect(cuda.to_device(values), values)
        self._others.expect(cuda.to_device(values, stream=stream)[::2], values[::2])

    def settle(self) -> None:
        """Wait for all work, and let go what can go."""
        gc.collect()
        self.device.synchronize()
        memory.flush(self.device)
        haulage.memory.trim(self.device)

    def run(
        self,
        program: Program,
        error: Fault = shortage_or_error,
        methods: Container[str] | None = None,
        for_good: bool = False,
    ) -> Outcome:
        """Let each call that the program makes fail once, with what `error` makes of its name.

        Args:
            program: what to run.
            error: makes what is raised.
            methods: which calls are meant; None: all.
            for_good: let all later calls of that method fail too, until the program ends.
        """
        gc.collect()
        gc.freeze()  # all that is older than the program need not be looked through each time
        try:
            return self._run(program, error, methods, for_good)
        finally:
            gc.unfreeze()

    def _run(
        self, program: Program, error: Fault, methods: Container[str] | None, for_good: bool
    ) -> Outcome:
        for _ in range(2):  # what is made once and kept is made before
            program(Bystanders())
            self.settle()
        before = self._held()
        self.driver.count_from_here()
        program(Bystanders())
        self.settle()
        calls = list(self.driver.stop_counting())
        outcome = Outcome()
        for number, name in enumerate(calls):
            if methods is None or name in methods:
                self._run_once(program, number, error, for_good, before, outcome)
        return outcome

    def _held(self) -> Counter[str]:
        held: Counter[str] = self.driver.held()
        del held["module"]  # the code of a kernel stays to the end of the process
        return held

    def _run_once(
        self,
        program: Program,
        number: int,
        error: Fault,
        for_good: bool,
        before: Counter[str],
        outcome: Outcome,
    ) -> None:
        # The error itself would keep the frames, and so the arrays, of those that it went by.
        made: list[str] = []

        def make(name: str) -> BaseException:
            if made:
                return error(name, made[0])
            made.append(f"the {number}th call, {name}, was made to fail")
            return error(name, made[0])

        bystanders, unraisable = Bystanders(), []
        with _unraisable(unraisable):
            self.driver.count_from_here(number, make, for_good)
            raised = _raised(program, bystanders)
            if raised is None and not made:
                raised = _raised(self.settle)
            calls = self.driver.stop_counting()
            if not made:
                return  # this time there were fewer calls
            name = calls[number]
            outcome.tried[name] += 1
            where = f"{program.__name__}, call {number}, {name}"

            if raised is None and not unraisable:
                outcome.survived[name] += 1
            seen = None
            for seen in filter(None, (raised, *unraisable)):
                # Where there is no room, Haulage says so in words of its own.
                is_told = isinstance(seen, OutOfMemory) and name in SHORTAGES
                if not (is_told or _comes_from(seen, made[0])):
                    outcome.lost.append(f"{where}: raised {seen!r}")
            if unraisable and name not in GIVES_BACK:
                outcome.lost.append(f"{where}: its error is lost in a finaliser: {unraisable}")
            for what in (*bystanders.wrong(), *self._others.wrong()):
                outcome.lost.append(f"{where}: {what} has other values")
            del bystanders, raised, seen
            unraisable.clear()
            self.settle()
        after = self._held()
        if after != before:
            outcome.leaked.append(f"{where}: held {dict(before)} before, {dict(after)} after")
            before.clear()
            before.update(after)
        outcome.violated += [f"{where}: {what}" for what in self.driver.violations]
        self.driver.violations.clear()
        again = _raised(program, Bystanders())
        if again is not None:
            outcome.lost.append(f"{where}: then failed again: {again!r}")
        self.settle()


def _raised(call: Callable[..., object], *args: Any) -> BaseException | None:
    try:
        call(*args)
    except BaseException as error:
        return error
    return None


def _comes_from(error: BaseException | None, words: str) -> bool:
    while error is not None:
        if words in error.args:
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def _unraisable(found: list[BaseException]) -> Iterator[None]:
    before = sys.unraisablehook
    sys.unraisablehook = lambda told: found.append(told.exc_value)  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.unraisablehook = before
