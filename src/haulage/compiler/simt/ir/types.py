"""The type of an instruction's result, read from the instruction's text as LLVM prints it."""

import re

# What may stand between an opcode and the first type.
# fmt: off
_FLAGS = frozenset((
    "nuw", "nsw", "exact", "disjoint", "nneg", "samesign", "inbounds", "nusw",
    "fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc",
    "atomic", "volatile", "weak",
))
_LIKE_FIRST_OPERAND = frozenset((
    "add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor",
    "fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "freeze", "phi", "load", "insertvalue",
    "insertelement",
))
_CASTS = frozenset((
    "trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "fptosi", "uitofp", "sitofp", "ptrtoint",
    "inttoptr", "bitcast", "addrspacecast",
))
_WITHOUT_RESULT = frozenset(("store", "fence", "br", "switch", "ret", "unreachable"))
# fmt: on
_OPENING, _CLOSING = "([{<", ")]}>"
_CALLEE = re.compile(r'[@%](?:"[^"]*"|[-a-zA-Z$._0-9]+)\(')
_VECTOR = re.compile(r"<(?P<count>[^<>]* x )(?P<element>[^<>]+)>")
_VECTOR_OPERAND = re.compile(r"(?:^|, )(<[^<>]* x )(?:i\d+|ptr)>")


def split_list(text: str) -> list[str]:
    """The parts of a list between commas, but for those within brackets."""
    parts: list[str] = []
    depth = start = 0
    for index, character in enumerate(text):
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def first_type(text: str) -> str:
    """The type that `text` begins with."""
    if text[0] not in _OPENING:
        return text.split(" ", 1)[0].rstrip(",")
    depth = 0
    for index, character in enumerate(text):
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
            if depth == 0:
                return text[: index + 1]
    raise AssertionError(f"no type in {text!r}")


def _last_type(text: str) -> str:
    """The type that `text` ends with."""
    if text[-1] not in _CLOSING:
        return text.rsplit(" ", 1)[-1]
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        if text[index] in _CLOSING:
            depth += 1
        elif text[index] in _OPENING:
            depth -= 1
            if depth == 0:
                # Of a function with more arguments than it names, the type before its parameters.
                return _last_type(text[:index].rstrip()) if text[-1] == ")" else text[index:]
    raise AssertionError(f"no type in {text!r}")


def result_type(opcode: str, text: str) -> str:
    """The type of what an instruction gives; `text` is what stands behind its opcode.

    Raises:
        AssertionError: an opcode that no kernel has.
    """
    if opcode in _WITHOUT_RESULT:
        return "void"
    if opcode in ("alloca", "getelementptr"):
        vector = _VECTOR_OPERAND.search(text) if opcode == "getelementptr" else None
        return f"{vector[1]}ptr>" if vector else "ptr"
    if opcode == "call":
        before, is_assembly, _ = text.partition('"')[0].partition(" asm ")
        if is_assembly:
            return _last_type(before)
        callee = _CALLEE.search(text)
        assert callee is not None, text
        return _last_type(text[: callee.start()].rstrip())
    if opcode in _CASTS:
        return first_type(text.rsplit(" to ", 1)[1])
    text = _without_flags(text)
    if opcode in _LIKE_FIRST_OPERAND:
        return first_type(text)
    if opcode in ("icmp", "fcmp"):
        vector = _VECTOR.fullmatch(first_type(_without_flags(text.split(" ", 1)[1])))
        return f"<{vector['count']}i1>" if vector else "i1"
    parts = split_list(text)
    if opcode == "select":
        return first_type(parts[1])
    if opcode == "atomicrmw":
        return first_type(parts[1])
    if opcode == "cmpxchg":
        return f"{{ {first_type(parts[1])}, i1 }}"
    if opcode == "extractvalue":
        return _element(first_type(parts[0]), parts[1:])
    if opcode in ("extractelement", "shufflevector"):
        vector = _VECTOR.fullmatch(first_type(parts[0]))
        assert vector is not None, text
        if opcode == "extractelement":
            return vector["element"]
        mask = _VECTOR.fullmatch(first_type(parts[2]))
        assert mask is not None, text
        return f"<{mask['count']}{vector['element']}>"
    raise AssertionError(f"an instruction that kernels do not have: {opcode} {text}")


def _without_flags(text: str) -> str:
    while True:
        word, _, rest = text.partition(" ")
        if word not in _FLAGS:
            return text
        text = rest


def _element(aggregate: str, indices: list[str]) -> str:
    """The type of an element of a structure or an array."""
    for index in indices:
        if not index.isdigit():  # notes behind the indices
            break
        if aggregate[0] == "[":
            aggregate = aggregate[1:-1].split(" x ", 1)[1]
        else:
            aggregate = split_list(aggregate.strip("<>")[1:-1])[int(index)]
    return aggregate
