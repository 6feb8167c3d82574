"""What Haulage aims at on a GPU, and whether a run has it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

OURS = "haulage"
NUMBA, CUPY, DRIVER = "numba-cuda", "cupy", "driver"
# Kernels that do little but move memory of the device.
ON_DEVICE = ("saxpy", "transpose", "reduction", "stencil")
# What "near" and "at least equal" leave to the noise of medians.
_NEAR, _EQUAL = 1.5, 0.97


@dataclass(frozen=True)
class Target:
    """`name`'s figure of ours is to be at least (`is_least`) or at most `bound` times that of
    `whose` in the measure `other`."""

    name: str
    whose: str
    bound: float
    is_least: bool
    other: str

    def said(self, titles: dict[str, str]) -> str:
        """The target in words."""
        ways = {True: "at least", False: "at most"}
        what = "" if self.other == self.name else f" in {self.other}"
        return (
            f"{self.name}: {ways[self.is_least]} {self.bound:.3g} of {titles[self.whose]}'s{what}"
        )


def _targets() -> Iterable[Target]:
    for count in (0, 1, 3, 8):
        name = f"launch-{count}"
        yield Target(name, NUMBA, 1 / 3, False, name)
        yield Target(name, CUPY, _NEAR, False, name)
    for name in (*ON_DEVICE, "matmul"):
        yield Target(name, NUMBA, _EQUAL, True, name)
    for name in ON_DEVICE:
        yield Target(name, DRIVER, 0.9, True, "device-copy")
    for way in ("up", "down"):
        for size in ("256MB", "64KB"):
            yield Target(f"pinned-{way}-{size}", DRIVER, 0.95, True, f"pinned-{way}-{size}")
            yield Target(f"pageable-{way}-{size}", DRIVER, 1.0, True, f"pageable-{way}-{size}")
    for size in ("4KB", "1MB"):
        yield Target(f"allocate-{size}", CUPY, 1.0, False, f"allocate-{size}")


TARGETS = tuple(_targets())


def judged(found: dict[str, Any], titles: dict[str, str]) -> list[dict[str, Any]]:
    """The targets whose measure was taken: {"target", "met", "ratio", ...}; `met` is None, with
    "why", where one of the two figures is missing."""
    made = []
    for target in TARGETS:
        if target.name not in found["measures"]:
            continue
        ours = _figure(found, target.name, OURS)
        theirs = _figure(found, target.other, target.whose)
        told: dict[str, Any] = {"target": target.said(titles), **asdict(target)}
        if ours is None or not theirs:
            whose = OURS if ours is None else target.whose
            told |= {"met": None, "why": f"there is no figure of {titles[whose]}'s"}
        else:
            ratio = ours / theirs
            is_met = ratio >= target.bound if target.is_least else ratio <= target.bound
            told |= {"met": is_met, "ratio": float(f"{ratio:.3g}")}
        made.append(told)
    return made


def lines(told: list[dict[str, Any]]) -> list[str]:
    """What `judged` gives, for people."""
    made = []
    for each in told:
        words = {True: "met", False: "NOT MET", None: "not known"}[each["met"]]
        made.append(f"- {words}: {each['target']}; {each.get('why') or each['ratio']}")
    return made


def shares(found: dict[str, Any], titles: dict[str, str]) -> list[str]:
    """What share of the bandwidth of a copy on the device, the driver's if it is there, Haulage's
    kernels reach, for people."""
    whose = DRIVER if _figure(found, "device-copy", DRIVER) else OURS
    copy = _figure(found, "device-copy", whose)
    reached = {name: _figure(found, name, OURS) for name in ON_DEVICE}
    return [
        f"- {name}: {100 * speed / copy:.0f} % of the bandwidth of a copy by {titles[whose]}"
        for name, speed in reached.items()
        if copy and speed
    ]


def _figure(found: dict[str, Any], name: str, package: str) -> float | None:
    values = found["measures"].get(name, {"values": {}})["values"].get(package)
    return median(values) if values else None
