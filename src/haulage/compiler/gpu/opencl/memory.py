"""Which memory each pointer of a kernel is of: SPIR-V wants every one's type to say so.

Until here all pointers are LLVM's plain ones, with which its passes do most. The kernel is one
function by now. What comes from a parameter, an address that is a number or a variable of the
module is of the device's memory, what comes from an `alloca` the thread's own, and shared arrays
have their address space already; where it may be one of several, or was loaded, the pointer is
generic.
"""

import re
from collections.abc import Iterable

from haulage.compiler.simt.ir import reader, writer
from haulage.compiler.simt.ir.model import Function, Instruction, Operand, Parameter
from haulage.targets.opencl_ir import HIDDEN, HIDDEN_KINDS

# Address spaces, as LLVM's code generator for SPIR-V numbers them.
_OWN, _GLOBAL, _GENERIC = 0, 1, 4

_PLAIN = re.compile(r"\bptr\b(?! addrspace\()")
_NAME = r'(?:"[^"]*"|[-\w.$]+)'
_CAST_VARIABLE = re.compile(rf"\bptr addrspacecast \((ptr addrspace\(\d\) @{_NAME}) to ptr\)")
_VARIABLE = re.compile(rf"\bptr (@{_NAME})")
_NUMBER = re.compile(r"\bptr inttoptr \((i64 -?\d+) to ptr\)")
_COUNTED = re.compile(r"\bptr (getelementptr [a-z ]*\([^()]*, ptr addrspace\((\d)\) )")
_DEFINED_VARIABLE = re.compile(rf"(?m)^(@{_NAME} = (?:[\w]+ )*?)(global|constant) (?!addrspace)")
_SPACE = re.compile(r"ptr addrspace\((\d)\)")
_MEMORY = re.compile(r"^(llvm\.mem(?:cpy|move|set)(?:\.inline)?)\.p0(?:\.p0)?\.(i\d+)$")
# Calls that say something to LLVM only, or that a stack may be used again.
_NOTES = (
    *("llvm.assume", "llvm.experimental.noalias.", "llvm.lifetime.", "llvm.dbg."),
    *("llvm.stacksave", "llvm.stackrestore"),
)
_NULL = frozenset(("null", "poison", "undef"))


def with_address_spaces(text: str, name: str) -> tuple[str, tuple[str, ...]]:
    """The text of a module with the kernel `name`, all of whose pointers say of which memory they
    are; and the parameters that were added, of `HIDDEN_KINDS`."""
    function = reader.read(text, name)
    made = _Kernel(function)
    hidden = made.rewrite()
    start = text.index("\n".join(reader.definition(text, name)))
    end = text.index("\n}", start) + 2
    head = text[start : text.index("\n", start)]
    before, after = text[:start], text[end:]
    parameters = ", ".join(f"{each.type} {each.name}" for each in function.parameters)
    opening = head.index("(", head.index("@"))
    head = f"{head[:opening]}({parameters}){_behind(head, opening)}"
    body = "\n".join([head, writer.listing(function), "}"])
    rest = _DEFINED_VARIABLE.sub(r"\1addrspace(1) \2 ", before) + "\n" + after
    kept = _declarations(rest, body)
    return f"{kept}\n{body}\n{made.declared(kept)}\n{_notes(rest)}", hidden


def _behind(head: str, opening: int) -> str:
    from haulage.compiler.simt.ir.types import matching

    return head[matching(head, opening) + 1 :]


def _declarations(text: str, body: str) -> str:
    """The lines of a module's text that are no definitions of functions nor notes, of declarations
    those that `body` needs."""
    kept = []
    for line in text.split("\n"):
        if line.startswith("declare "):
            called = re.search(rf"@({_NAME})\(", line)
            assert called is not None, line
            # Those of memory have names that say of which: `_Kernel.declared` has them.
            if f"@{called[1]}(" not in body or called[1].startswith("llvm.mem"):
                continue
            line = _PLAIN.sub(f"ptr addrspace({_GENERIC})", line)
        if not line.startswith(("!", ";")):
            kept.append(line)
    return "\n".join(kept)


def _notes(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if line.startswith("!"))


class _Kernel:
    """Rewrites a function in place."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._casts = 0
        self._aliases: dict[str, Operand] = {}
        self._types: dict[str, str] = {}
        self._declared: dict[str, str] = {}
        self._items: dict[str, Instruction] = {}

    def rewrite(self) -> tuple[str, ...]:
        """Rewrite all of it; gives the names of the parameters that were added."""
        function = self._function
        self._drop_notes()
        hidden = self._take_parameters()
        self._items = function.items()
        self._find_types()
        for block in function.blocks.values():
            made: list[Instruction] = []
            for item in block.body:
                if item.result not in self._aliases or item.result is None:
                    made += self._changed(item)
            end = block.terminator
            assert isinstance(end, Instruction)
            block.body = made
            block.terminator = end.changed(
                operands=tuple(self._operand(each) for each in end.operands)
            )
        self._change_phis()
        return hidden

    def declared(self, kept: str) -> str:
        """Declarations of the functions that are called by other names than before."""
        return "\n".join(line for name, line in self._declared.items() if f"@{name}(" not in kept)

    def _drop_notes(self) -> None:
        for block in self._function.blocks.values():
            block.body = [
                item
                for item in block.body
                if not (item.opcode == "call" and (item.callee or "").startswith(_NOTES))
            ]

    def _take_parameters(self) -> tuple[str, ...]:
        """Pointers come as numbers, and what calls ask for comes behind the user's arguments."""
        function = self._function
        asked: list[str] = []
        for item in function.instructions():
            callee = item.callee or ""
            if callee.startswith(HIDDEN):
                what = callee.removeprefix(HIDDEN)
                asked.append(what)
                assert item.result is not None
                name = parameter(what)
                self._aliases[item.result] = Operand(HIDDEN_KINDS[what], name)
        hidden = tuple(each for each in HIDDEN_KINDS if each in asked)
        addresses, parameters = [], []
        for each in function.parameters:
            kind = each.type
            if kind.startswith("ptr"):
                given = '%"' + each.name[1:].strip('"') + '.address"'
                addresses.append(
                    Instruction(
                        "inttoptr", f"ptr addrspace({_GLOBAL})", each.name, (Operand("i64", given),)
                    )
                )
                parameters.append(Parameter("i64", given))
            else:
                parameters.append(Parameter(kind.split(" ")[0], each.name))
        parameters += [Parameter(HIDDEN_KINDS[each], parameter(each)) for each in hidden]
        function.parameters = tuple(parameters)
        function.blocks[function.entry].body[:0] = addresses
        return hidden

    def _find_types(self) -> None:
        """The address space of each pointer, as the least that its sources allow."""
        spaces: dict[str, int | None] = {}
        pointers = [item for item in self._items.values() if item.type == "ptr"]
        for item in pointers:
            spaces[str(item.result)] = None
            if item.opcode == "addrspacecast":
                # The same address, by the name that it had.
                self._aliases[str(item.result)] = _constant(item.operands[0])
        grown = True
        while grown:
            grown = False
            for item in pointers:
                name = str(item.result)
                found = self._space_of(item, spaces)
                if found != spaces[name]:
                    spaces[name] = found
                    grown = True
        self._types = {
            name: f"ptr addrspace({_GENERIC if space is None else space})" if space else "ptr"
            for name, space in spaces.items()
        }
        for name, space in spaces.items():
            if space is None:
                self._types[name] = f"ptr addrspace({_GENERIC})"

    def _space_of(self, item: Instruction, spaces: dict[str, int | None]) -> int | None:
        if item.opcode == "alloca":
            return _OWN
        if item.opcode == "inttoptr":
            is_number = not item.operands[0].is_local
            return _GLOBAL if is_number else _GENERIC
        if item.opcode in ("phi", "select"):
            sources: Iterable[Operand] = (
                item.operands[-2:] if item.opcode == "select" else item.operands
            )
        elif item.opcode in ("getelementptr", "freeze", "addrspacecast"):
            sources = item.operands[:1]
        else:
            return _GENERIC
        known = {self._of_operand(each, spaces) for each in sources} - {None}
        if len(known) > 1:
            return _GENERIC
        return known.pop() if known else None

    def _of_operand(self, operand: Operand, spaces: dict[str, int | None]) -> int | None:
        if operand.text in spaces:
            return spaces[operand.text]
        operand = self._resolved(operand)
        if operand.text in spaces:
            return spaces[operand.text]
        if operand.text in _NULL:
            return None
        found = _SPACE.match(operand.type)
        return int(found[1]) if found else _OWN

    def _resolved(self, operand: Operand) -> Operand:
        """What an operand is called now, with the type that it has now."""
        seen = operand
        while seen.text in self._aliases:
            seen = self._aliases[seen.text]
        if seen.is_local:
            kind = self._types.get(seen.text) or _kind(seen.type)
            return Operand(kind, seen.text, operand.attributes)
        made = _constant(seen)
        return Operand(made.type, made.text, operand.attributes)

    def _operand(self, operand: Operand) -> Operand:
        return self._resolved(operand)

    def _as(self, operand: Operand, kind: str) -> tuple[list[Instruction], Operand]:
        """An operand as a pointer of a type, and what makes it that."""
        if operand.type == kind:
            return [], operand
        if operand.text in _NULL:
            return [], Operand(kind, operand.text, operand.attributes)
        name = f'%"haulage.generic.{self._casts}"'
        self._casts += 1
        plain = Operand(operand.type, operand.text)
        cast = Instruction("addrspacecast", kind, name, (plain,))
        return [cast], Operand(kind, name, operand.attributes)

    def _number(self, pointer: Operand) -> tuple[list[Instruction], Operand]:
        """A pointer's generic address as an int, and what makes it that."""
        made, generic = self._as(pointer, f"ptr addrspace({_GENERIC})")
        name = f'%"haulage.number.{self._casts}"'
        self._casts += 1
        source = (Operand(generic.type, generic.text),)
        return [*made, Instruction("ptrtoint", "i64", name, source)], Operand("i64", name)

    def _changed(self, item: Instruction) -> list[Instruction]:
        """An instruction with what it needs in front of it."""
        operands = [self._operand(each) for each in item.operands]
        if item.opcode == "call":
            return self._changed_call(item, operands)
        before: list[Instruction] = []
        kind = _kind(item.type)
        if item.type == "ptr" and item.result is not None:
            kind = self._types[item.result]
        if item.opcode in ("select", "icmp") and operands[-1].type.startswith("ptr"):
            wanted = kind if item.opcode == "select" else _common(operands)
            pair = []
            for each in operands[-2:]:
                more, made = self._as(each, wanted)
                before += more
                pair.append(made)
            operands[-2:] = pair
        elif item.opcode == "store" and operands[0].type.startswith("ptr"):
            more, operands[0] = self._as(operands[0], f"ptr addrspace({_GENERIC})")
            before += more
        elif item.opcode == "insertvalue" and operands[1].type.startswith("ptr"):
            more, operands[1] = self._number(operands[1])
            before += more
        elif item.opcode == "extractvalue" and item.type == "ptr":
            name = f'%"haulage.number.{self._casts}"'
            self._casts += 1
            number = item.changed(operands=tuple(operands), type="i64", result=name)
            source = (Operand("i64", name),)
            return [number, Instruction("inttoptr", kind, item.result, source)]
        source_type = _kind(item.source_type) if item.source_type else ""
        changed = item.changed(operands=tuple(operands), type=kind, source_type=source_type)
        if item.opcode == "alloca":
            changed = item.changed(source_type=source_type)
        return [*before, _as_read(changed, item)]

    def _changed_call(self, item: Instruction, operands: list[Operand]) -> list[Instruction]:
        found = _MEMORY.match(item.callee or "")
        if found is not None:
            pointers = [each for each in operands if each.type.startswith("ptr")]
            spaces = [_SPACE.match(each.type) for each in pointers]
            listed = ".".join(f"p{space[1] if space else 0}" for space in spaces)
            name = f"{found[1]}.{listed}.{found[2]}"
            kinds = [each.type for each in operands]
            kinds[-1] = "i1 immarg"
            self._declared[name] = f"declare void @{name}({', '.join(kinds)})"
            return [item.changed(operands=tuple(operands), callee=name, called=f"@{name}")]
        before: list[Instruction] = []
        for place, operand in enumerate(operands):
            if item.operands[place].type == "ptr":
                more, operands[place] = self._as(operand, f"ptr addrspace({_GENERIC})")
                before += more
        kind = _kind(item.source_type)
        return [
            *before,
            item.changed(operands=tuple(operands), type=_kind(item.type), source_type=kind),
        ]

    def _change_phis(self) -> None:
        function = self._function
        for block in function.blocks.values():
            made = []
            for phi in block.phis:
                operands = [self._operand(each) for each in phi.operands]
                kind = _kind(phi.type)
                if phi.type == "ptr":
                    kind = self._types[str(phi.result)]
                    for place, source in enumerate(phi.sources):
                        more, operands[place] = self._as(operands[place], kind)
                        function.blocks[source].body += more
                made.append(phi.changed(operands=tuple(operands), type=kind))
            block.phis = made


def parameter(name: str) -> str:
    """The name that a hidden parameter has in the code, by which a driver knows it."""
    return f"%haulage_{name}"


def _as_read(changed: Instruction, item: Instruction) -> Instruction:
    """The instruction as it was read, if nothing about it has changed."""
    same = changed.operands == item.operands and changed.type == item.type
    return item if same and changed.source_type == item.source_type else changed


def _common(operands: list[Operand]) -> str:
    kinds = {each.type for each in operands if each.text not in _NULL}
    return kinds.pop() if len(kinds) == 1 else f"ptr addrspace({_GENERIC})"


def _kind(kind: str) -> str:
    """A type as it is from now on: pointers are generic, but ints in structures, of which a pointer
    in SPIR-V would have to say what it points to."""
    return _PLAIN.sub("i64" if kind[0] in "{[<" else f"ptr addrspace({_GENERIC})", kind)


def _constant(operand: Operand) -> Operand:
    """A constant whose variables and numbers have their address spaces."""
    if operand.type[0] in "{[<":
        text = operand.text.replace("ptr null", "i64 0")
        return Operand(_kind(operand.type), _kind(text), operand.attributes)
    if operand.is_local or "ptr" not in operand.type + operand.text:
        return operand
    text = f"{operand.type} {operand.text}"
    text = _CAST_VARIABLE.sub(r"\1", text)
    text = _VARIABLE.sub(r"ptr addrspace(1) \1", text)
    text = _NUMBER.sub(r"ptr addrspace(1) inttoptr (\1 to ptr addrspace(1))", text)
    known = ""
    while known != text:
        known = text
        text = _COUNTED.sub(r"ptr addrspace(\2) \1", text)
    from haulage.compiler.simt.ir.types import first_type

    kind = first_type(text)
    return Operand(kind, text[len(kind) + 1 :], operand.attributes)
