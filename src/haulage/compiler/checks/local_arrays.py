"""Elements of a thread's own arrays that it reads and has not written.

Beside each array stands another one in which a byte that is 1 stands for one that was written. What
sets and tests it is plain code, so that LLVM can see that a test cannot fail, and drop both.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Block, Function, Instruction, Operand, value_name
from haulage.compiler.simt.ir.types import size_of
from haulage.targets.cpu_ir import ARRAY_NOTE

# What makes an address of others.
_DERIVED = ("getelementptr", "bitcast", "addrspacecast", "freeze", "phi", "select")
_COPIES = ("llvm.memcpy.", "llvm.memmove.")
_FILL = "llvm.memset."
_LIFETIMES = "llvm.lifetime."
# Of accesses of more bytes nothing is tested.
_MOST_BYTES = 64

FILL = "llvm.memset.p0.i64"
COPY = "llvm.memcpy.p0.p0.i64"


@dataclass
class _Put:
    """What is put around an instruction: `test` is what says that something is wrong, and `wrong`
    is what is done then, in front of the instruction."""

    before: list[Instruction] = field(default_factory=list)
    after: list[Instruction] = field(default_factory=list)
    test: str = ""
    wrong: list[Instruction] = field(default_factory=list)


class LocalArrays:
    """Those of a function that nothing but the function's own instructions can reach.

    Attributes:
        wrong: is given an access, its address, and the array that it lies in if there is just one;
            makes what tells of it.
    """

    def __init__(
        self,
        function: Function,
        wrong: Callable[[Instruction, str, str | None], list[Instruction]],
    ) -> None:
        _fold(function)
        self._function = function
        self._wrong = wrong
        self._items = function.items()
        self._users = function.users()
        self._count = 0
        self._rooms = self._own()
        self._derived = self._addresses(self._rooms)
        self._widths = {item.operands[0].text: item.operands[2].number for item in self._notes()}
        self._copied = {
            item.result
            for item in function.instructions()
            if item.result is not None
            and item.address is not None
            and item.address.text in self._derived
            and self._is_copy(item.result)
        }

    # ---- which arrays --------------------------------------------------------------------------

    def _notes(self) -> Iterator[Instruction]:
        for item in self._function.instructions():
            if (item.callee or "").startswith(ARRAY_NOTE):
                yield item

    def _own(self) -> set[str]:
        rooms = {item.operands[0].text for item in self._notes()}
        rooms = {
            room for room in rooms if room in self._items and self._items[room].opcode == "alloca"
        }
        while True:
            inside = self._addresses(rooms)
            lost = {room for room in rooms if self._is_reached({room}, inside)}
            if not lost:
                return rooms
            rooms -= lost

    def _addresses(self, rooms: set[str]) -> set[str]:
        """The rooms, and what is made of them that is an address in one of them."""
        found, waiting = set[str](), list(rooms)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += [
                    user.result
                    for user in self._users.get(name, ())
                    if user.opcode in _DERIVED and user.result is not None
                ]
        return found

    def _is_reached(self, room: set[str], inside: set[str]) -> bool:
        """Whether an address in a room goes where it is not followed."""
        for name in self._addresses(room):
            item = self._items[name]
            if item.opcode in ("phi", "select"):
                taken = item.operands[1:] if item.opcode == "select" else item.operands
                if any(each.text not in inside for each in taken):
                    return True
            for user in self._users.get(name, ()):
                if not self._is_followed(user, name):
                    return True
        return False

    @staticmethod
    def _is_followed(user: Instruction, name: str) -> bool:
        if user.opcode in _DERIVED or user.opcode == "icmp":
            return True
        if user.address is not None:
            others = [each.text for each in user.operands if each is not user.address]
            return name not in others
        callee = user.callee or ""
        return callee.startswith((ARRAY_NOTE, _FILL, _LIFETIMES, *_COPIES))

    # ---- what is put in --------------------------------------------------------------------------

    def instrument(self) -> None:
        """Put in what notes and tests which elements are written."""
        if not self._rooms:
            return
        for block in tuple(self._function.blocks.values()):
            self._instrument(block)

    def _fresh(self) -> str:
        self._count += 1
        return f"%haulage.local.{self._count}"

    def _shadow(self, name: str) -> str:
        """The address in the array beside that belongs to one in an array."""
        return value_name(name, "written")

    def _instrument(self, block: Block) -> None:
        for phi in tuple(block.phis):
            if phi.result in self._derived:
                block.phis.append(self._beside(phi))
        body: list[Instruction] = []
        tests: list[tuple[int, _Put]] = []
        for item in block.body:
            put = self._put(item)
            body += put.before
            if put.test:
                tests.append((len(body), put))
            body += [item, *put.after]
        block.body = body
        for index, put in reversed(tests):
            label, behind = self._fresh(), self._fresh()
            branch = Builder.branch(put.test, label, behind)
            self._function.split(block.label, index, behind, branch)
            self._function.blocks[label] = Block(label, [], put.wrong, Builder.jump(behind))

    def _beside(self, item: Instruction) -> Instruction:
        names = {
            each.text: self._shadow(each.text)
            for each in item.operands
            if each.text in self._derived
        }
        assert item.result is not None
        return item.changed(
            result=self._shadow(item.result),
            operands=tuple(
                Operand(each.type, names.get(each.text, each.text), each.attributes)
                for each in item.operands
            ),
            metadata=(),
        )

    def _put(self, item: Instruction) -> _Put:
        if item.result in self._rooms:
            return _Put(after=[item.changed(result=self._shadow(item.result), metadata=())])
        if item.result in self._derived:
            return _Put(after=[self._beside(item)])
        callee = item.callee or ""
        first = item.operands[0].text if item.operands else ""
        if callee.startswith(ARRAY_NOTE):
            if first not in self._rooms:
                return _Put()
            nbytes = size_of(self._items[first].source_type) or 0
            return _Put([self._fill(self._shadow(first), "0", str(nbytes))])
        if callee.startswith(_FILL) and first in self._derived:
            return _Put([self._fill(self._shadow(first), "1", item.operands[2].text)])
        if callee.startswith(_COPIES) and first in self._derived:
            return _Put([self._copy(item)])
        address = item.address
        if address is None or address.text not in self._derived:
            return _Put()
        return self._access(item, address.text)

    @staticmethod
    def _fill(address: str, value: str, nbytes: str) -> Instruction:
        given = (("ptr", address), ("i8", value), ("i64", nbytes), ("i1", "false"))
        return Builder.call("void", FILL, given)

    def _copy(self, item: Instruction) -> Instruction:
        target, source, nbytes = (each.text for each in item.operands[:3])
        if source not in self._derived:
            return self._fill(self._shadow(target), "1", nbytes)
        given = [("ptr", self._shadow(target)), ("ptr", self._shadow(source))]
        return Builder.call("void", item.callee or "", (*given, ("i64", nbytes), ("i1", "false")))

    def _access(self, item: Instruction, address: str) -> _Put:
        nbytes = size_of(item.accessed_type) or 0
        if not nbytes:
            return _Put()
        beside = self._shadow(address)
        kind = f"i{8 * nbytes}"
        put = _Put()
        if item.result in self._copied:
            return _Put([Builder.load(item.type, beside, 1, self._shadow(item.result or ""))])
        if item.opcode == "store" and item.operands[0].text in self._copied:
            value = item.operands[0]
            return _Put(after=[Builder.store(value.type, self._shadow(value.text), beside, 1)])
        if item.opcode != "store" and nbytes <= _MOST_BYTES:
            found, put.test = self._fresh(), self._fresh()
            all_written = str(int.from_bytes(b"\1" * nbytes, "little"))
            put.before = [
                Builder.load(kind, beside, 1, found),
                Builder.compare("ne", kind, found, all_written, put.test),
            ]
            roots = self._roots(address)
            put.wrong = self._wrong(item, address, min(roots) if len(roots) == 1 else None)
        if item.opcode != "load":
            put.after = [self._fill(beside, "1", str(nbytes))]
        return put

    def _is_copy(self, name: str) -> bool:
        """Whether a value is bytes that are read from a wider element only to be written elsewhere,
        as Numba copies records: they have bytes that belong to no field."""
        item = self._items.get(name)
        if item is None or item.opcode != "load" or not _is_bytes(item.type):
            return False
        if any(self._widths[room] == 1 for room in self._roots(item.operands[0].text)):
            return False
        users = self._users.get(name, ())
        return all(user.opcode == "store" and user.operands[0].text == name for user in users)

    def _roots(self, address: str) -> set[str]:
        found, waiting, seen = set[str](), [address], set[str]()
        while waiting:
            name = waiting.pop()
            if name in self._rooms:
                found.add(name)
            elif name not in seen:
                seen.add(name)
                waiting += [
                    each.text for each in self._items[name].operands if each.text in self._derived
                ]
        return found


def _is_bytes(kind: str) -> bool:
    return kind == "i8" or (kind[0] == "[" and kind.endswith(" x i8]"))


def _fold(function: Function) -> None:
    """Use what structures are made of in the place of what is taken out of them, and drop those
    that nobody uses then."""
    items = function.items()
    names: dict[str, str] = {}
    for item in items.values():
        if item.opcode == "extractvalue" and item.result is not None:
            value = _inside(items, item.operands[0].text, item.indices)
            if value is not None:
                names[item.result] = value

    def last(name: str) -> str:
        while name in names:
            name = names[name]
        return name

    whole = {name: last(name) for name in names}
    for block in function.blocks.values():
        block.body = [item for item in block.body if item.result not in whole]
    for block in function.blocks.values():
        block.change(lambda item: item.with_uses(whole))
    while True:
        users = function.users()
        dead = {
            item.result
            for item in function.instructions()
            if item.opcode in ("insertvalue", "extractvalue") and item.result not in users
        }
        if not dead:
            return
        for block in function.blocks.values():
            block.body = [item for item in block.body if item.result not in dead]


def _inside(items: dict[str, Instruction], name: str, place: tuple[int, ...]) -> str | None:
    """The value at a place of a structure; None: it is not known."""
    while place:
        item = items.get(name)
        if item is None:
            return None
        if item.opcode == "extractvalue":
            name, place = item.operands[0].text, (*item.indices, *place)
        elif item.opcode != "insertvalue":
            return None
        elif place[: len(item.indices)] == item.indices:
            name, place = item.operands[1].text, place[len(item.indices) :]
        elif item.indices[: len(place)] == place:
            return None
        else:
            name = item.operands[0].text
    return name
