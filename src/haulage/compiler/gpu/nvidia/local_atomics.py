"""Atomic operations on a thread's own memory, for which GPUs have no instructions.

No other thread sees that memory, so they are plain ones there. Which memory an array lies in is
known after optimising, by where its address comes from. Where that is not known, as in a function
that calls itself, it is asked as the kernel runs.
"""

import re
from typing import NamedTuple

from haulage.targets.nvidia_atomics import SWAP_16

_NAME = r'[%@](?:"[^"]*"|[-\w.$]+)'
_RESULT = rf"^  (?P<result>{_NAME}) = "
_PLACE = rf"ptr (?P<place>{_NAME})"
_FORMS = (
    re.compile(
        rf"{_RESULT}atomicrmw (?:volatile )?(?P<word>\w+) {_PLACE}, (?P<type>\w+) (?P<x>[^\s,]+)"
    ),
    re.compile(
        rf"{_RESULT}(?P<word>cmpxchg) (?:weak )?(?:volatile )?{_PLACE}, (?P<type>\w+) "
        r"(?P<x>[^\s,]+), \w+ (?P<y>[^\s,]+)"
    ),
    re.compile(rf"{_RESULT}(?P<word>load) atomic (?:volatile )?(?P<type>\w+), {_PLACE}"),
    re.compile(
        rf"{_RESULT}(?:tail )?call (?P<type>i16) asm sideeffect "
        rf'"(?P<word>{re.escape(SWAP_16)})", "[^"]*"\(ptr (?:\w+ )*(?P<place>{_NAME}), '
        r"i16 (?P<x>[^\s,]+), i16 (?P<y>[^\s,)]+)\)"
    ),
)
_IS_ATOMIC = re.compile(rf"atomicrmw|cmpxchg|load atomic|{re.escape(SWAP_16)}")
_DEFINED = re.compile(rf"^  ({_NAME}) = (.*)$")
_SOURCES = re.compile(rf"(?:\bptr (?:addrspace\(\d+\) )?|\[ )({_NAME}|\w+)")
_ON_TO_ANOTHER = ("getelementptr", "addrspacecast", "bitcast", "freeze", "phi", "select")

_STORED = "store {type} {new}, ptr {place}"
_OLD = "{result} = load {type}, ptr {place}"
_CHOSEN = "{new} = select i1 {is}, {type} {result}, {type} {x}"
_SWAPPED = (
    "{old} = load {type}, ptr {place}",
    "{is} = icmp eq {type} {old}, {x}",
    "{new} = select i1 {is}, {type} {y}, {type} {old}",
    _STORED,
)
# The plain instructions for each operation.
_PLAIN: dict[str, tuple[str, ...]] = {
    **{
        word: (_OLD, f"{{new}} = {word} {{type}} {{result}}, {{x}}", _STORED)
        for word in ("add", "sub", "and", "or", "xor", "fadd", "fsub")
    },
    **{
        word: (_OLD, f"{{is}} = icmp {sign} {{type}} {{result}}, {{x}}", _CHOSEN, _STORED)
        for word, sign in (("max", "sgt"), ("min", "slt"), ("umax", "ugt"), ("umin", "ult"))
    },
    "xchg": (_OLD, "store {type} {x}, ptr {place}"),
    "uinc_wrap": (
        _OLD,
        "{is} = icmp uge {type} {result}, {x}",
        "{other} = add {type} {result}, 1",
        "{new} = select i1 {is}, {type} 0, {type} {other}",
        _STORED,
    ),
    "udec_wrap": (
        _OLD,
        "{other} = add {type} {result}, -1",
        # What was 0 is the largest now.
        "{is} = icmp uge {type} {other}, {x}",
        "{new} = select i1 {is}, {type} {x}, {type} {other}",
        _STORED,
    ),
    "load": (_OLD,),
    SWAP_16: tuple(line.replace("{old}", "{result}") for line in _SWAPPED),
    "cmpxchg": (
        *_SWAPPED,
        "{other} = insertvalue {pair} undef, {type} {old}, 0",
        "{result} = insertvalue {pair} {other}, i1 {is}, 1",
    ),
}


class _Place(NamedTuple):
    """An operation in a line of the text, and whether it is on the thread's own memory: None if
    that is not known."""

    line: int
    form: re.Match[str]
    is_local: bool | None


def with_plain_changes(text: str, entry: str) -> str | None:
    """A module's text without atomic operations on threads' own memory; None if it has none.

    Args:
        entry: the kernel, whose arguments lie in the device's memory.
    """
    if not _IS_ATOMIC.search(text):
        return None
    helpers: dict[str, str] = {}
    functions = re.split(r"(?m)(?=^define )", text)
    done = [_settled(each, entry, helpers) for each in functions]
    if done == functions:
        return None
    declared = "" if not helpers or "@llvm.nvvm.isspacep.local(" in text else _ASKED
    return "".join([*done, *helpers.values(), declared])


def _settled(function: str, entry: str, helpers: dict[str, str]) -> str:
    if not function.startswith("define ") or not _IS_ATOMIC.search(function):
        return function
    lines = function.split("\n")
    for place in _places(lines, None if f"@{entry}(" not in lines[0] else False):
        stem = f"%local.{place.line}."
        if place.is_local:
            lines[place.line] = _plain(place.form, place.form["result"], stem)
        else:
            lines[place.line] = _called(place.form, lines[place.line], helpers)
    return "\n".join(lines)


def _places(lines: list[str], arguments: bool | None) -> list[_Place]:
    """The operations of a function that are, or may be, on the thread's own memory; `arguments`
    says whether its arguments are that."""
    made = {found[1]: found[2] for line in lines if (found := _DEFINED.match(line))}
    places = []
    for number, line in enumerate(lines):
        form = next((form for each in _FORMS if (form := each.match(line))), None)
        if form is not None and form["word"] in _PLAIN:
            is_local = _is_local(form["place"], made, arguments)
            if is_local is not False:
                places.append(_Place(number, form, is_local))
    return places


def _is_local(place: str, made: dict[str, str], arguments: bool | None) -> bool | None:
    origins: set[bool | None] = set()
    seen: set[str] = set()
    left = [place]
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        how = made.get(name)
        if how is None:
            origins.add(arguments if name.startswith("%") else False)
            continue
        word = how.partition(" ")[0]
        sources = _SOURCES.findall(how)
        if word in _ON_TO_ANOTHER and sources:
            left += sources[:1] if word == "getelementptr" else sources
        else:
            # The host gives no addresses of threads' memory as numbers.
            origins.add({"alloca": True, "inttoptr": False}.get(word))
    return origins.pop() if len(origins) == 1 else None


def _plain(form: re.Match[str], result: str, stem: str) -> str:
    """The plain instructions; they make names that begin with `stem`."""
    known = {**form.groupdict(), "result": result, "pair": f"{{ {form['type']}, i1 }}"}
    names = {part: f"{stem}{part}" for part in ("old", "new", "is", "other")}
    return "\n".join("  " + line.format(**known, **names) for line in _PLAIN[form["word"]])


_ASKED = "\ndeclare i1 @llvm.nvvm.isspacep.local(ptr)\n"
_HELPER = """
define internal {result} @{name}({parameters}) noinline nounwind {{
  %is.local = call i1 @llvm.nvvm.isspacep.local(ptr %place)
  br i1 %is.local, label %plain, label %atomic
plain:
{plain}
  ret {result} %plain.result
atomic:
{atomic}
  ret {result} %atomic.result
}}
"""


def _called(form: re.Match[str], line: str, helpers: dict[str, str]) -> str:
    """A call of a function that asks where the place is and does the one or the other."""
    given = {part: value for part in ("x", "y") if (value := form.groupdict().get(part))}
    kind = form["type"]
    result = f"{{ {kind}, i1 }}" if form["word"] == "cmpxchg" else kind
    parameters = ", ".join(["ptr %place", *(f"{kind} %{part}" for part in given)])
    spans = {"result": "%atomic.result", "place": "%place", **{part: f"%{part}" for part in given}}
    # Notes of LLVM's, as on who else changes it, hold for this place only.
    atomic = line.partition(", !")[0]
    for part in sorted(spans, key=form.start, reverse=True):
        atomic = atomic[: form.start(part)] + spans[part] + atomic[form.end(part) :]
    if atomic not in helpers:
        inside = next(matched for each in _FORMS if (matched := each.match(atomic)))
        helpers[atomic] = _HELPER.format(
            result=result,
            name=f"haulage_changed_{len(helpers)}",
            parameters=parameters,
            plain=_plain(inside, "%plain.result", "%plain."),
            atomic=atomic,
        )
    name = f"haulage_changed_{list(helpers).index(atomic)}"
    values = ", ".join([f"ptr {form['place']}", *(f"{kind} {x}" for x in given.values())])
    return f"  {form['result']} = call {result} @{name}({values})"
