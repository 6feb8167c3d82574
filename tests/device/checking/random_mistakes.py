"""Random kernels that are right by construction, and the same ones with a mistake.

A kernel is a sequence of steps, with a barrier of the block behind each. In a step each thread, or
each of those that a guard lets in, writes or reads one place of shared memory, no two of them the
same one. So it is known which lines race if a barrier is left out.
"""

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

THREADS = 32
# What threads a step is for: all, some, or the others.
GUARDS = {
    "": lambda t: True,
    "t % 3 == 0": lambda t: t % 3 == 0,
    "t < 20": lambda t: t < 20,
    "t & 4": lambda t: bool(t & 4),
}
MISTAKES = ("race", "bounds", "uninitialized", "barrier")


@dataclass(frozen=True)
class Step:
    """Each thread t accesses `room[(factor * t + offset) % THREADS]`; `turns` times over, if it is
    done in a loop, then with another offset in each turn."""

    writes: bool
    factor: int
    offset: int
    guard: str = ""
    turns: int = 0

    def places(self):
        """(place, thread) of all accesses."""
        return [
            ((self.factor * t + self.offset + turn) % THREADS, t)
            for t in range(THREADS)
            if GUARDS[self.guard](t)
            for turn in range(max(self.turns, 1))
        ]

    def text(self):
        """The statement."""
        turn = " + k" if self.turns else ""
        place = f"room[({self.factor} * t + {self.offset}{turn}) % {THREADS}]"
        return f"{place} = t + {self.offset}" if self.writes else f"total += {place}"


steps = st.lists(
    st.builds(
        Step,
        writes=st.booleans(),
        factor=st.sampled_from((1, 3, 5, 7, 31)),
        offset=st.integers(0, THREADS - 1),
        guard=st.sampled_from(tuple(GUARDS)),
        turns=st.sampled_from((0, 0, 2, 3)),
    ),
    min_size=2,
    max_size=7,
)


def conflicting(program):
    """The numbers of the steps that race with the one behind them if no barrier is between."""
    return [
        number
        for number, (one, other) in enumerate(pairwise(program))
        if (one.writes or other.writes)
        and any(
            place == there and t != thread
            for place, t in one.places()
            for there, thread in other.places()
        )
    ]


def source(program, mistake="", at=0):
    """(the text of a kernel, the lines that the findings of its mistake name)."""
    lines = [
        "def kernel(x, out, totals):",
        f"    room = cuda.shared.array({THREADS}, np.float64)",
        "    t, i = cuda.threadIdx.x, cuda.grid(1)",
        "    total = 0.0",
    ]
    marked = set()

    def add(text):
        lines.append(text)
        return len(lines)

    if mistake == "uninitialized":
        # The first step reads, and nobody has written what the last thread was to write.
        add(f"    if t < {THREADS - 1}:")
        add("        room[t] = t")
        add("    cuda.syncthreads()")
        marked.add(add(f"    total += room[{THREADS - 1} - t]"))
    else:
        add("    room[t] = t")
    add("    cuda.syncthreads()")
    for number, step in enumerate(program):
        indent = "    "
        if step.turns:
            add(f"    for k in range({step.turns}):")
            indent += "    "
        barrier = f"{indent}cuda.syncthreads()"
        if step.guard:
            add(f"{indent}if {step.guard}:")
            indent += "    "
        line = add(indent + step.text())
        if mistake == "race" and number in (at, at + 1):
            marked.add(line)
        if step.turns:
            # A turn may write what another thread reads, or writes, in the next one.
            add(barrier)
        if number != at:
            add("    cuda.syncthreads()")
        elif mistake == "barrier":
            add("    if t < 8:")
            marked.add(add("        cuda.syncthreads()"))
            add("    out[i] = total")
        elif mistake == "bounds":
            marked.add(add("    total += x[i + 5]"))
            add("    cuda.syncthreads()")
        elif mistake != "race" or step.turns:
            add("    cuda.syncthreads()")
    add("    cuda.atomic.add(totals, t % 3, 1)")
    add("    out[i] = total + x[i]")
    return "\n".join(lines), marked
