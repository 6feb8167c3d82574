"""Writes lines of LLVM: new names, memory of the function, vectors made of scalars, masks."""

from collections.abc import Sequence

from haulage.compiler.simt.vectorize.operations import BYTES

# A mask with all lanes on.
EVERY_LANE = "splat (i1 true)"


class Text:
    """Lines of LLVM, with names for what is new."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[str] = []
        self.rooms: list[str] = []
        self.declarations: dict[str, None] = {}
        self._count = 0
        # The block that lines are added to.
        self.current = ""
        # What holds until the next label: loaded values, vectors made of scalars.
        self.at_hand: dict[object, str] = {}

    def fresh(self, kind: str = "v") -> str:
        """A new name."""
        self._count += 1
        return f"%lanes.{kind}.{self._count}"

    def add(self, text: str) -> str:
        """A line that makes a value; its name."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """A line that makes no value."""
        self.lines.append(f"  {text}")

    def label(self, name: str, *, inside: bool = False) -> None:
        """Begin a block; `inside` if the last one is always passed on the way there."""
        self.lines.append(f"{name[1:]}:")
        self.current = name
        if not inside:
            self.at_hand = {}

    def room(self, kind: str) -> str:
        """Memory of the function for one value."""
        name = self.fresh("room")
        self.rooms.append(f"  {name} = alloca {kind}")
        return name

    def vector_type(self, kind: str) -> str:
        return f"<{self.width} x {kind}>"

    def splat(self, kind: str, value: str) -> str:
        """A vector that has `value`, a scalar or a constant, in each lane."""
        vector = self.vector_type(kind)
        if not value.startswith("%"):
            if value in ("null", "zeroinitializer", "poison", "undef"):
                return "zeroinitializer" if value == "null" else value
            return f"splat ({kind} {value})"
        known = self.at_hand.get((kind, value))
        if known is None:
            one = self.add(f"insertelement {vector} poison, {kind} {value}, i64 0")
            known = self.add(
                f"shufflevector {vector} {one}, {vector} poison, "
                f"<{self.width} x i32> zeroinitializer"
            )
            self.at_hand[kind, value] = known
        return known

    def steps(self, kind: str, value: str, step: int) -> str:
        """A vector that begins with the scalar `value` and goes up by `step`."""
        if not step:
            return self.splat(kind, value)
        known = self.at_hand.get((kind, value, step))
        if known is None:
            whole = "i64" if kind == "ptr" else kind
            bits = int(whole[1:])
            numbers = ", ".join(
                f"{whole} {_signed(lane * step, bits)}" for lane in range(self.width)
            )
            if kind == "ptr":
                known = self.add(
                    f"getelementptr i8, ptr {value}, {self.vector_type(whole)} <{numbers}>"
                )
            else:
                known = self.add(
                    f"add {self.vector_type(kind)} {self.splat(kind, value)}, <{numbers}>"
                )
            self.at_hand[kind, value, step] = known
        return known

    def lanes_between(self, first: str, end: str) -> str:
        """The lanes from one, an i32, up to another, not included: a comparison of bytes."""
        kind = "i8" if self.width < 256 else "i16"
        numbers = ", ".join(f"{kind} {_signed(lane, int(kind[1:]))}" for lane in range(self.width))
        vector = self.vector_type(kind)
        low = self.splat(kind, self.add(f"trunc i32 {first} to {kind}"))
        high = self.splat(kind, self.add(f"trunc i32 {end} to {kind}"))
        above = self.add(f"icmp uge {vector} <{numbers}>, {low}")
        return self.both(above, self.add(f"icmp ult {vector} <{numbers}>, {high}"))

    def any_lane(self, mask: str) -> str:
        """Whether any lane of a mask is on."""
        known = self.at_hand.get(("any", mask))
        if known is None:
            bits = self.bits(mask)
            known = self.add(f"icmp ne i{self.width} {bits}, 0")
            self.at_hand["any", mask] = known
        return known

    def bits(self, mask: str) -> str:
        """A mask as a number, the first lane its lowest bit."""
        return self.add(f"bitcast <{self.width} x i1> {mask} to i{self.width}")

    def both(self, mask: str, condition: str) -> str:
        """The lanes of `mask` in which `condition` holds; it may be poison in others."""
        kind = self.vector_type("i1")
        return self.add(f"select {kind} {mask}, {kind} {condition}, {kind} zeroinitializer")

    def choose(self, mask: str, kind: str, first: str, second: str) -> str:
        """`first` in the lanes of a mask, `second` in the others."""
        vector = self.vector_type(kind)
        return self.add(
            f"select {self.vector_type('i1')} {mask}, {vector} {first}, {vector} {second}"
        )

    def load_lanes(self, kind: str, address: str, mask: str, align: int | None = None) -> str:
        """The elements from `address` on for the lanes of a mask."""
        stored, align = _in_memory(kind), align or BYTES[kind]
        vector = self.vector_type(stored)
        value = self.call(
            vector,
            f"llvm.masked.load.{self.suffix(stored)}.p0",
            [
                ("ptr", address),
                ("i32", str(align)),
                (self.vector_type("i1"), mask),
                (vector, "poison"),
            ],
        )
        return self._from_memory(kind, value)

    def gather(self, kind: str, addresses: str, mask: str, align: int) -> str:
        """The elements at the addresses of the lanes of a mask."""
        stored = _in_memory(kind)
        vector = self.vector_type(stored)
        value = self.call(
            vector,
            f"llvm.masked.gather.{self.suffix(stored)}.v{self.width}p0",
            [
                (self.vector_type("ptr"), addresses),
                ("i32", str(align)),
                (self.vector_type("i1"), mask),
                (vector, "poison"),
            ],
        )
        return self._from_memory(kind, value)

    def store_lanes(
        self, kind: str, value: str, address: str, mask: str, align: int | None = None
    ) -> None:
        """Store the lanes of a mask as elements from `address` on.

        If all are on the store has no mask: with one it takes far longer on some processors.
        """
        stored, align = _in_memory(kind), align or BYTES[kind]
        vector, whole = self.vector_type(stored), self._to_memory(kind, value)
        plain = f"store {vector} {whole}, ptr {address}, align {align}"
        if mask == EVERY_LANE:
            self.do(plain)
            return
        every, some, end = self.fresh("every"), self.fresh("some"), self.fresh("stored")
        full = self.add(f"icmp eq i{self.width} {self.bits(mask)}, -1")
        self.do(f"br i1 {full}, label {every}, label {some}")
        self.label(every, inside=True)
        self.do(plain)
        self.do(f"br label {end}")
        self.label(some, inside=True)
        self.call(
            "void",
            f"llvm.masked.store.{self.suffix(stored)}.p0",
            [
                (vector, whole),
                ("ptr", address),
                ("i32", str(align)),
                (self.vector_type("i1"), mask),
            ],
        )
        self.do(f"br label {end}")
        self.label(end, inside=True)

    def scatter(self, kind: str, value: str, addresses: str, mask: str, align: int) -> None:
        """Store the lanes of a mask at their addresses, the first lane first."""
        stored = _in_memory(kind)
        self.call(
            "void",
            f"llvm.masked.scatter.{self.suffix(stored)}.v{self.width}p0",
            [
                (self.vector_type(stored), self._to_memory(kind, value)),
                (self.vector_type("ptr"), addresses),
                ("i32", str(align)),
                (self.vector_type("i1"), mask),
            ],
        )

    def _from_memory(self, kind: str, value: str) -> str:
        if kind != "i1":
            return value
        return self.add(f"trunc {self.vector_type('i8')} {value} to {self.vector_type(kind)}")

    def _to_memory(self, kind: str, value: str) -> str:
        if kind != "i1":
            return value
        return self.add(f"zext {self.vector_type(kind)} {value} to {self.vector_type('i8')}")

    def of_last_lane(self, kind: str, vector: str, mask: str) -> str:
        """The element of the last lane that is on."""
        whole = f"i{self.width}"
        above = self.call(whole, f"llvm.ctlz.{whole}", [(whole, self.bits(mask)), ("i1", "true")])
        lane = self.add(f"sub {whole} {self.width - 1}, {above}")
        return self.add(f"extractelement {self.vector_type(kind)} {vector}, {whole} {lane}")

    def suffix(self, kind: str) -> str:
        """How names of intrinsics call the vectors of a type."""
        name = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(kind, kind)
        return f"v{self.width}{name}"

    def call(
        self,
        kind: str,
        callee: str,
        arguments: Sequence[tuple[str, str]],
        words: str = "call",
    ) -> str:
        """Call an intrinsic, and declare it; its result, or "" if it has none."""
        kinds = ", ".join(each for each, _ in arguments)
        self.declarations[f"declare {kind} @{callee}({kinds})"] = None
        listed = ", ".join(f"{each} {value}" for each, value in arguments)
        if kind == "void":
            self.do(f"call void @{callee}({listed})")
            return ""
        return self.add(f"{words} {kind} @{callee}({listed})")


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) and bits > 1 else number


def _in_memory(kind: str) -> str:
    # A vector of bits would be stored with eight to a byte.
    return "i8" if kind == "i1" else kind
