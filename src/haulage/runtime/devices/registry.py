"""The devices that there are, and which of them is meant where none is named.

All of it is the `Runtime`'s; see `runtime.process.runtime`.
"""

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from haulage import config, forks
from haulage._core.memory import conditions
from haulage.backends.base import Backend, KernelStopped, Probe
from haulage.errors import DeviceNotFound, warn
from haulage.runtime.devices import faults, printing
from haulage.runtime.devices.device import Device
from haulage.runtime.process import runtime


@dataclass(frozen=True)
class Protocols:
    """What other packages call the memory and the streams of a kind of device.

    `memory`, `pinned` and `managed` are DLPack's device types: of the device's own memory, and of
    pinned and managed memory where those have a type of their own; None where there is none.
    `default_streams` are the numbers that DLPack and the CUDA array interface have for the default
    stream and, second, for that of each thread. With `cuda` its memory has the CUDA array interface
    and its streams the CUDA stream protocol.
    """

    memory: int | None = None
    pinned: int | None = None
    managed: int | None = None
    default_streams: tuple[int, ...] = (1, 2)
    cuda: bool = False


@dataclass(frozen=True)
class Driver:
    """A kind of device: how to look for its driver, and how to get its `Backend` if it has one.

    `refusal` says why no code can be made for an architecture, and nothing if it can.
    `checks_kernels` says that kernels can be checked there, and stop in a debugger.
    `is_likely` says without a driver's calls whether one of its devices may be the best one.
    """

    kind: str
    probe: Callable[[], Probe]
    backend: Callable[[], Backend] | None
    refusal: Callable[[str], str] = lambda architecture: ""
    protocols: Protocols = Protocols()
    checks_kernels: bool = False
    is_likely: Callable[[], bool] = lambda: True


# Called where a kind is asked for that is not known: each may register more of them.
further: list[Callable[[], None]] = []

_lock = threading.RLock()
forks.held(lambda: _lock)


def register(driver: Driver) -> None:
    """Add a kind of device; those that are registered first are preferred."""
    now = runtime.current
    with _lock:
        now.drivers[driver.kind] = driver
        now.found.pop(driver.kind, None)
        now.probes.pop(driver.kind, None)


def probe_of(kind: str) -> Probe:
    """What looking for the driver of a kind of device gave; looked for once."""
    now = runtime.current
    with _lock:
        if kind not in now.probes:
            now.probes[kind] = now.drivers[kind].probe()
        return now.probes[kind]


def devices_of(kind: str) -> tuple[Device, ...]:
    """The devices of one kind that are present; looked for once."""
    now = runtime.current
    found = now.found.get(kind)
    if found is None:
        with _lock:
            found = now.found.get(kind)
            if found is None:
                found = now.found[kind] = _look_for(now.drivers[kind])
    return found


def _look_for(driver: Driver) -> tuple[Device, ...]:
    if config.cuda_is_disabled() or driver.backend is None:
        return ()
    if not probe_of(driver.kind).available:
        return ()
    backend = driver.backend()
    return tuple(Device(driver.kind, backend, number) for number in range(backend.count()))


def devices() -> list[Device]:
    """All devices that are present, the preferred ones first."""
    _look_further()
    found = [device for kind in tuple(runtime.current.drivers) for device in devices_of(kind)]
    return sorted(found, key=lambda device: device.properties.on_processor)


def _look_further() -> None:
    for look in further:
        look()


# Of the number of a device.
_MOST_DIGITS = 9


def find(choice: str | Device, source: str = "") -> Device:
    """The device that is named explicitly: 'cpu', 'nvidia:1' or a `Device`.

    Args:
        choice: a kind (its device 0 is meant), or kind and number with a colon between.
        source: where the choice was made, for the message.

    Raises:
        DeviceNotFound: it is not there; says what was looked for and what the driver answered.
    """
    if isinstance(choice, Device):
        return choice
    if not isinstance(choice, str):
        raise TypeError(f"device {choice!r}: expected a name such as 'cpu' or 'nvidia:1'")
    asked = f"{source or 'device'} {choice!r}"
    kind, colon, number = choice.strip().lower().partition(":")
    if kind not in runtime.current.drivers:
        _look_further()
    known = runtime.current.drivers
    is_number = number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS
    if kind not in known or (colon and not is_number):
        raise DeviceNotFound(
            f"{asked}: expected one of {', '.join(known)}, or a name and number as in 'cpu:0'"
        )
    present = devices_of(kind)
    if not present:
        _refuse_where_disabled(asked)
        probe = probe_of(kind)
        looked_for = ", ".join(probe.looked_for) or "nothing"
        raise DeviceNotFound(f"{asked}: not found; looked for {looked_for}: {probe.answer}")
    if int(number or 0) >= len(present):
        there = ", ".join(str(device) for device in present)
        raise DeviceNotFound(f"{asked}: the {kind} driver has {len(present)} device(s): {there}")
    return present[int(number or 0)]


def tell_unraised() -> None:
    """At exit: show what was printed, and name the failures, that nobody has waited for."""
    printing.flush()
    for found in tuple(runtime.current.found.values()):
        for backend in {id(device.backend): device.backend for device in found}.values():
            for error in backend.unraised():
                told = faults.translate(error) if isinstance(error, KernelStopped) else error
                print(
                    f"haulage: nothing waited for work that failed: {type(told).__name__}: {told}",
                    file=sys.stderr,
                )


# ---- the choice -------------------------------------------------------------------------------


def current_device() -> Device:
    """The device that is meant where none is named.

    That is the one of an enclosing `with use(...)`, else that of the thread's `select` or of the
    last `use(...)`, whichever came later, else `HAULAGE_DEVICE`, else the best one present.

    Raises:
        DeviceNotFound: `HAULAGE_DEVICE` names a device that is not there.
    """
    now = runtime.current
    entered = now.entered.get()
    if entered is not None:
        return entered
    selected = now.selected.get()
    if selected is not None and selected[1] is now.choice:
        return selected[0]
    if now.chosen is not None:
        return now.chosen
    named = config.device_choice()
    if not named:
        return now.best or _best_present()
    known = now.named
    if known is not None and known[0] == named and now.found.get(known[2].kind) is known[1]:
        return known[2]
    device = find(named, "HAULAGE_DEVICE")
    now.named = named, devices_of(device.kind), device
    return device


conditions.current_device = current_device


def why_current() -> str:
    """In words: why `current_device()` is the one that it is."""
    now = runtime.current
    if now.entered.get() is not None:
        return "chosen by an enclosing 'with haulage.use(...)'"
    selected = now.selected.get()
    if selected is not None and selected[1] is now.choice:
        return "chosen by select_device(...)"
    if now.chosen is not None:
        return "chosen by haulage.use(...)"
    named = config.device_choice()
    if named:
        return f"chosen by HAULAGE_DEVICE={named}"
    return "the best device present"


def _best_present() -> Device:
    now = runtime.current
    for kind, driver in tuple(now.drivers.items()):
        if not driver.is_likely():
            continue
        present = [each for each in devices_of(kind) if not each.properties.on_processor]
        now.best = next((each for each in present if not each.refusal), None)
        if now.best is not None:
            return now.best
        told = [f"{each} is not used: {each.refusal}" for each in present]
        if kind in now.probes and now.probes[kind].advice:
            told.append(now.probes[kind].advice)
        for advice in told:
            warn(advice)
    _refuse_where_disabled("no device is present")
    raise DeviceNotFound(f"no device is present; looked for {', '.join(now.drivers)}")


def _refuse_where_disabled(what: str) -> None:
    if config.cuda_is_disabled():
        raise DeviceNotFound(
            f"{what}: CUDA is disabled due to setting NUMBA_DISABLE_CUDA=1 in the environment; "
            "unset it to use a device"
        )


def select(device: Device) -> None:
    """Make `device` the current one of this thread (or task), until a later choice.

    Inside a `with` that chooses a device it holds to the end of that.
    """
    now = runtime.current
    if now.outer.get():
        now.entered.set(device)
    else:
        now.selected.set((device, now.choice))


class use:
    """Choose the device: `use("cpu")` for the process, `with use("cpu"):` for a context.

    As a context manager it holds for the thread or task inside the `with` only, and the choice for
    the process is again what it was before. `with` gives the `Device`.

    Args:
        choice: 'cpu', 'nvidia', 'amd', 'opencl', one of these with a number as in 'nvidia:1', or
            a `Device`.

    Raises:
        DeviceNotFound: that device is not there; says what was looked for, and the answer.
    """

    def __init__(self, choice: str | Device) -> None:
        now = runtime.current
        self.device = find(choice)
        self._before = now.chosen
        now.chosen, now.choice = self.device, self

    def __enter__(self) -> Device:
        now = runtime.current
        if now.choice is self:
            now.chosen, now.choice = self._before, None
        now.enter(self.device)
        return self.device

    def __exit__(self, *exception: Any) -> None:
        runtime.current.leave()

    def __repr__(self) -> str:
        return f"<haulage.use {self.device}>"
