"""What is measured of SmartArrays: statements, by what they are given, and programs."""

from dataclasses import dataclass

# Processes: in the second one host arrays are copied as on devices with memory of their own.
IN_PLACE, APART = "in place", "apart"

SMART, DEVICE, HOST = "SmartArray", "device array", "host array"


@dataclass(frozen=True)
class Use:
    """Something done with arrays, as statements by the kind of array."""

    title: str
    statements: dict[str, str]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of the arrays that it is measured with."""
        return tuple(self.statements)


def _launch(title: str, names: str) -> Use:
    """Of a kernel called as its arguments; the arrays have the letter of their kind before."""
    by_kind = {
        kind: ", ".join(letter + name for name in names)
        for kind, letter in ((SMART, "s"), (DEVICE, "d"), (HOST, "h"))
    }
    return Use(title, {kind: f"{names}({given})" for kind, given in by_kind.items()})


def _on_host(title: str, statement: str) -> Use:
    return Use(title, {SMART: statement.format("sa"), HOST: statement.format("ha")})


USES = {
    "launch-1": _launch("a launch with 1 array, which it writes", "a"),
    "launch-2": _launch("a launch with 2 arrays, of which it writes 1", "ab"),
    "launch-4": _launch("a launch with 4 arrays, of which it writes 2", "abcd"),
    "njit": _on_host("a function of `numba.njit` with 1 array", "compiled({})"),
    "read": _on_host("`a[3]`", "{}[3]"),
    "write": _on_host("`a[3] = 1`", "{}[3] = 1"),
    "asarray": _on_host("`np.asarray(a)`", "asarray({})"),
    "get": Use("`a.get()`; NumPy: `a[:]`", {SMART: "sa.get()", HOST: "ha[:]"}),
}


@dataclass(frozen=True)
class Program:
    """A function of `examples/jacobi.py`, and in which process it runs."""

    title: str
    function: str
    process: str = IN_PLACE


PROGRAMS = {
    "smart": Program("SmartArrays", "with_smart_arrays"),
    "by hand": Program("device arrays, copied by hand", "by_hand"),
    "host": Program("host arrays, used in place", "with_host_arrays"),
    "apart": Program("host arrays, copied there and back", "with_host_arrays", APART),
}
