"""Random programs of streams, events, copies, kernels and host accesses, and what is not ordered in
them, worked out from the rules of docs/streams.md alone: by a graph of what waits for what."""

import random
from dataclasses import dataclass, field

SIZE = 64
_PARTS = (
    slice(0, 64),
    slice(0, 32),
    slice(32, 64),
    slice(16, 48),
    slice(0, 64, 2),
    slice(1, 64, 2),
)
ARRAYS, HOSTS = ("x", "y"), ("p", "q")
# The default stream, two that wait for it and it for them, and one that does not.
STREAMS = ("default", "a", "b", "free")
EVENTS = ("e", "f")


@dataclass
class Node:
    """Something that is done: by a stream, or a step of the host."""

    line: int
    after: set[int] = field(default_factory=set)
    # (array, its elements, whether they are written)
    uses: list[tuple[str, frozenset[int], bool]] = field(default_factory=list)


class Program:
    """A random program: `text` has one step on each line from 1 on; `conflicts` the pairs of lines
    whose work is on the same memory, at least once to write, and not ordered."""

    def __init__(self, seed: int) -> None:
        steps = 3 + seed % 24
        self._random = random.Random(seed)
        self._nodes: list[Node] = []
        self._host = self._add(0, set())
        self._last: dict[str, int] = {}
        self._records: dict[str, int] = {}
        lines = []
        for number in range(1, steps + 1):
            lines.append(self._step(number))
        lines.append("cuda.synchronize()")
        self.text = "\n".join(lines)
        self.conflicts = self._conflicts()

    # ---- steps --------------------------------------------------------------------------------

    def _step(self, line: int) -> str:
        pick = self._random
        kind = pick.choices(
            ("kernel", "upload", "download", "within", "access", "record", "wait", "synchronize"),
            (6, 3, 3, 2, 3, 3, 4, 2),
        )[0]
        return getattr(self, f"_{kind}")(line)

    def _add(self, line: int, after: set[int]) -> int:
        self._nodes.append(Node(line, after))
        return len(self._nodes) - 1

    def _go_on(self, line: int, after: set[int] = frozenset()) -> int:
        self._host = self._add(line, {self._host, *after})
        return self._host

    def _hand_over(self, line: int, stream: str) -> Node:
        """Work of a stream, which comes after what the host has done."""
        step = self._go_on(line)
        after = {step}
        if stream in self._last:
            after.add(self._last[stream])
        if stream == "default":
            after |= {self._last[other] for other in ("a", "b") if other in self._last}
        elif stream != "free" and "default" in self._last:
            after.add(self._last["default"])
        self._last[stream] = self._add(line, after)
        return self._nodes[self._last[stream]]

    def _wait_if_default(self, line: int, stream: str) -> None:
        if stream == "default":
            self._go_on(line, {self._last[stream]})

    def _part(self) -> tuple[str, frozenset[int]]:
        part = self._random.choice(_PARTS)
        sizes = (part.start, part.stop) if part.step is None else (part.start, part.stop, part.step)
        return ":".join(map(str, sizes)), frozenset(range(SIZE)[part])

    def _kernel(self, line: int) -> str:
        name, stream = self._random.choice(("change", "copy")), self._random.choice(STREAMS)
        to, of = self._random.sample(ARRAYS, 2)
        part, elements = self._part()
        node = self._hand_over(line, stream)
        node.uses.append((to, elements, True))
        if name == "change":
            return f"change[1, 64, {stream}]({to}[{part}])"
        other = part if self._random.random() < 0.5 else "0:64"
        read = elements if other == part else frozenset(range(len(elements)))
        node.uses.append((of, read, False))
        return f"copy[1, 64, {stream}]({to}[{part}], {of}[{other}])"

    def _upload(self, line: int) -> str:
        stream, to, of = map(self._random.choice, (STREAMS, ARRAYS, HOSTS))
        part, elements = self._part()
        node = self._hand_over(line, stream)
        node.uses += [(to, elements, True), (of, elements, False)]
        self._wait_if_default(line, stream)
        return f"{to}[{part}].copy_to_device({of}[{part}], stream={stream})"

    def _download(self, line: int) -> str:
        stream, to, of = map(self._random.choice, (STREAMS, HOSTS, ARRAYS))
        part, elements = self._part()
        node = self._hand_over(line, stream)
        node.uses += [(to, elements, True), (of, elements, False)]
        self._wait_if_default(line, stream)
        return f"{of}[{part}].copy_to_host({to}[{part}], stream={stream})"

    def _within(self, line: int) -> str:
        stream = self._random.choice(STREAMS)
        to, of = self._random.sample(ARRAYS, 2)
        part, elements = self._part()
        node = self._hand_over(line, stream)
        node.uses += [(to, elements, True), (of, elements, False)]
        self._wait_if_default(line, stream)
        return f"{to}[{part}].copy_to_device({of}[{part}], stream={stream})"

    def _access(self, line: int) -> str:
        array, writes = self._random.choice(HOSTS), self._random.random() < 0.5
        part, elements = self._part()
        self._nodes[self._go_on(line)].uses.append((array, elements, writes))
        return f"{array}[{part}] = 3" if writes else f"{array}[{part}].sum()"

    def _record(self, line: int) -> str:
        event, stream = self._random.choice(EVENTS), self._random.choice(STREAMS)
        self._hand_over(line, stream)
        self._records[event] = self._last[stream]
        return f"{event}.record({stream})"

    def _wait(self, line: int) -> str:
        event, stream = self._random.choice(EVENTS), self._random.choice(STREAMS)
        if event in self._records:
            self._hand_over(line, stream).after.add(self._records[event])
        return f"{event}.wait({stream})"

    def _synchronize(self, line: int) -> str:
        what = self._random.choice((*STREAMS, *EVENTS, "cuda"))
        if what == "cuda":
            self._go_on(line, set(self._last.values()))
            return "cuda.synchronize()"
        waited = self._last.get(what) if what in STREAMS else self._records.get(what)
        if waited is not None:
            self._go_on(line, {waited})
        return f"{what}.synchronize()"

    # ---- what is not ordered ------------------------------------------------------------------

    def _conflicts(self) -> set[frozenset[int]]:
        before: list[set[int]] = []
        for node in self._nodes:  # each comes after nodes with lower numbers only
            before.append(set(node.after).union(*(before[each] for each in node.after)))
        found = set()
        for late, node in enumerate(self._nodes):
            for early in range(late):
                if early not in before[late] and _meet(node, self._nodes[early]):
                    found.add(frozenset((node.line, self._nodes[early].line)))
        return found


def _meet(one: Node, other: Node) -> bool:
    return any(
        array == also and (writes or overwrites) and elements & those
        for array, elements, writes in one.uses
        for also, those, overwrites in other.uses
    )
