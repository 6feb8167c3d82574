"""Why a kernel could not be compiled: the lines of the program that led there, and the reason."""

import os
import re
from contextlib import suppress
from functools import cache
from typing import Any

import numba
from numba.core import errors, ir
from numba.core.bytecode import ByteCodeInst
from numba.core.byteflow import TraceRunner

from haulage import config
from haulage.compiler.frontend.binding import NO_METHOD
from haulage.compiler.frontend.described import short
from haulage.compiler.frontend.mistakes import advice, diagnosis, nothing_like_it
from haulage.compiler.frontend.operations import function_of, operation_of
from haulage.compiler.frontend.quoting import quoted, shown_place
from haulage.compiler.frontend.refusals import INSTEAD_OF_ALLOCATING, NO_FORMATTING
from haulage.compiler.frontend.returns import NEW_ARRAY
from haulage.compiler.frontend.sentences import SENTENCES
from haulage.errors import CompileError
from haulage.spelling import did_you_mean

_LIBRARIES = tuple(
    os.path.dirname(path) + os.sep
    for path in (numba.__file__, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
)

# Python's instructions that Numba has nothing for, and what a program says with them.
_INSTRUCTIONS = {
    "STORE_GLOBAL": "a kernel cannot assign a global variable; give it an array to write to",
    "DELETE_GLOBAL": "a kernel cannot delete a global variable",
    "IMPORT_NAME": "a kernel cannot import; import the module at the top of the file",
    "LOAD_BUILD_CLASS": "a kernel cannot define a class",
    "UNPACK_EX": "a kernel cannot unpack with a star (a, *b = ...); take a slice of the tuple",
    "DICT_MERGE": "a kernel cannot call with **arguments; write them out",
    "DELETE_SUBSCR": "a kernel cannot delete an element",
    "GET_AWAITABLE": "a kernel cannot await",
    "FORMAT_WITH_SPEC": NO_FORMATTING,
}

# What Numba says of others, and what a program says with them.
_CONSTRUCTS = {
    "The 'with (context manager)": "with means nothing in a kernel",
    "format spec in f-strings": NO_FORMATTING,
    "Illegal IR, del found at": "a kernel cannot delete a variable; leave out `del`",
    "CALL_FUNCTION_EX with **kwargs": (
        "a kernel cannot call with *arguments and keywords together; write the arguments out"
    ),
    "op_MAKE_FUNCTION with kwdefaults": (
        "a function that is defined inside a kernel cannot have defaults for keyword-only "
        "parameters; define it outside of the kernel"
    ),
    NO_METHOD: NO_METHOD,
    "yield in a closure": "a kernel cannot have generators, as (x for x in y) is one; write a loop",
    "Multiple argument raise": "a kernel cannot raise one exception from another; leave out `from`",
}

# Words of Numba that mean a new array or another object of a heap that kernels do not have.
_ALLOCATES = (
    "Unknown attribute '_allocate'",
    "NRT required but not enabled",
)

# Words of Numba that mean an operation that it has not for these types.
_MISSING = ("No implementation of function", "No definition for lowering")

_NO_ALLOCATION = (
    "this would make a new array, string or list: a kernel cannot allocate memory; "
    f"{INSTEAD_OF_ALLOCATING}"
)

_PLACE = re.compile(
    r"(?:at|Raised from) (?P<at>[^\n]+?) \((?P<line>\d+)\)"
    r"|File \"(?P<file>[^\"\n]+)\", line (?P<file_line>\d+):"
)

_STAGE = re.compile(
    r"(?m)^\s*During: Pass [^\n]*\n?|^\s*Failed in [^\n]*\n|Failed in \w+ mode pipeline \([^)\n]*\)"
)

# What one of our words says of a call, in the middle of what Numba says of its templates.
_SAID = re.compile(
    r"TypingError: (?P<said>(?:(?!TypingError: ).)+?)\s+raised from (?P<file>[^\n]+)", re.S
)

# Where what Numba says goes on with the program's lines, its candidates, or its passes.
_LATER = re.compile(r"(?m)^\s*(?:File \"|During: |There (?:are|is) \d+ candidate)")
_MOST_LINES = 6

# Calls that are shown next to the failing line; of more, the outermost one.
_INNERMOST = 3

_RETURN = re.compile(r"(?m)^\s*Return of: ")

# How Numba writes the type of a constant.
_LITERAL = re.compile(r"Literal\[\w+\]\((?P<value>[^()]*)\)")

Place = tuple[str, int]

# The latter is an exception of its own.
_OF_NUMBA = (errors.NumbaError, errors.UnsupportedBytecodeError)


def compile_error(error: Exception, what: str, argument_types: tuple[Any, ...]) -> CompileError:
    """The error for the user of `what`: its name, the lines of their program, the reason.

    Where `error` is Numba's it is one of that class too, as programs for Numba expect.
    """
    message = _message(error, what, argument_types)
    made = _error(type(error), message, getattr(error, "loc", None))
    for note in getattr(error, "__notes__", ()):
        made.add_note(note)
    return made


def _error(kind: Any, message: str, loc: Any = None) -> CompileError:
    made: Any = CompileError(message)
    if issubclass(kind, _OF_NUMBA):
        made = _class_for(kind)(message)
        made.msg, made.loc = message, loc
    assert isinstance(made, CompileError)
    return made


@cache
def _class_for(kind: Any) -> Any:
    members = {
        "__init__": lambda self, message: Exception.__init__(self, message),
        "__str__": Exception.__str__,
        "__reduce__": lambda self: (_error, (kind, *self.args)),
        "__module__": CompileError.__module__,
        "__doc__": CompileError.__doc__,
    }
    return type("CompileError", (CompileError, kind), members)


def _message(error: BaseException, what: str, argument_types: tuple[Any, ...]) -> str:
    listed = ", ".join(map(short, argument_types))
    try:
        reason, mark = _reason(error)
    except Exception as failed:
        # What is wrong in here must not take the place of what is wrong with the program.
        error.add_note(f"What it is about could not be told: {failed!r}")
        reason, mark = _first_of(_without_stages(str(error))), ""
    lines = [f"{what} for ({listed}) cannot be compiled"]
    found = places(error)
    left_out = found[_INNERMOST:-1] if len(found) > _INNERMOST + 1 else []
    for number, (filename, line) in enumerate(found):
        if (filename, line) in left_out:
            if (filename, line) == left_out[0]:
                lines.append(f"  ... {len(left_out)} calls between")
            continue
        lines.append(f"  {'called from' if number else 'in'} {shown_place(filename, line)}")
        lines += quoted(filename, line, "" if number else mark)
    lines.append(reason)
    if config.full_tracebacks():
        lines.append(str(error))
    return "\n".join(lines)


def places(error: BaseException) -> list[Place]:
    """Where in the program the error arose, innermost first, then who called that."""
    first, *others = _RETURN.split(str(error))
    # Of several places where a function returns, the first one.
    text = "".join([first, *others[:1], *(each.partition("During")[2] for each in others[1:])])
    found = dict.fromkeys(map(_told, _PLACE.finditer(text)))
    # Of an error that went through several functions, the place in the outermost.
    own = getattr(error, "loc", None)
    if isinstance(own, ir.Loc):
        found[_place(own)] = None
    users = [place for place in found if _is_users(place)]
    # The statement that Numba was at, if its message does not tell.
    return users or _busy_with(error)


def _told(found: re.Match[str]) -> Place:
    name = found["at"] or found["file"]
    # Numba names files from the current folder. Cells of notebooks have names of other kinds.
    if not name.startswith("<"):
        with suppress(FileNotFoundError):  # the current folder may be gone
            name = os.path.abspath(name)
    return name, int(found["line"] or found["file_line"])


def _busy_with(error: BaseException) -> list[Place]:
    traceback, frames = error.__traceback__, []
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    runner = _last(frames, TraceRunner)
    if runner is not None:
        # Numba was still at the bytecode.
        instruction = _last(frames, ByteCodeInst)
        return [_place(runner.get_debug_loc(instruction.lineno))] if instruction else []
    for frame in reversed(frames):
        for value in tuple(frame.f_locals.values()):
            # Their own attributes only: some of Numba's objects answer for any name.
            where = value if isinstance(value, ir.Loc) else _attributes(value).get("loc")
            if isinstance(where, ir.Loc) and _is_users(_place(where)):
                return [_place(where)]
    return []


def _last(frames: list[Any], kind: type) -> Any:
    """The innermost frame's variable of a class, None if there is none."""
    values = (value for frame in reversed(frames) for value in frame.f_locals.values())
    return next((value for value in values if isinstance(value, kind)), None)


def _attributes(value: Any) -> dict[str, Any]:
    found = getattr(value, "__dict__", None)
    return found if isinstance(found, dict) else {}


def _place(where: Any) -> Place:
    return str(where.filename), int(where.line)


def _is_users(place: Place) -> bool:
    return not place[0].startswith(_LIBRARIES)


def _reason(error: BaseException) -> tuple[str, str]:
    """The reason in words of the program, and the expression that it is about, "" if unknown."""
    text = _without_stages(str(error))
    if isinstance(error, errors.UnsupportedBytecodeError):
        for name, sentence in _INSTRUCTIONS.items():
            if f"({name})" in text:
                return sentence, ""
    for words, sentence in _CONSTRUCTS.items():
        if words in text:
            return sentence, ""
    operation = operation_of(error)
    if said := _said_by_word(text):
        whole = "; ".join(filter(None, (said, advice(operation))))
        return whole, operation.text if operation else ""
    if found := diagnosis(operation):
        return found.reason, found.mark
    if NEW_ARRAY in text:
        return _first_of(text), ""
    if any(words in text for words in _ALLOCATES):
        return _NO_ALLOCATION, operation.text if operation else ""
    missing = any(words in text for words in _MISSING)
    if missing and (found := nothing_like_it(operation)):
        return found.reason, found.mark
    for pattern, told in SENTENCES:
        if matched := pattern.search(text):
            return told(matched, function_of(error)), ""
    if isinstance(error, (errors.NumbaError, AttributeError)):
        return f"{_first_of(text)}{_near(error)}", ""
    return f"{type(error).__name__}: {text or 'Numba has nothing for what stands there'}", ""


def _near(error: BaseException) -> str:
    """The attribute that was meant, if Python tells of which object it is none."""
    owner = getattr(error, "obj", None)
    return (
        did_you_mean(str(error.name), dir(owner))
        if isinstance(error, AttributeError) and owner is not None
        else ""
    )


def _first_of(text: str) -> str:
    """What Numba says first, without the program's lines, its candidates and its passes."""
    head = _LATER.split(text, maxsplit=1)[0].strip()
    lines = [line for line in head.splitlines() if line.strip()]
    return "\n".join(lines[:_MOST_LINES]) or text.strip()


def _said_by_word(text: str) -> str:
    """The reason that a kernel word gives, or nothing."""
    for found in _SAID.finditer(text):
        if found["file"].startswith(_LIBRARIES[1]):
            return _LITERAL.sub(lambda literal: literal["value"], found["said"])
    return ""


def _without_stages(text: str) -> str:
    """Numba's message without the words that tell in which of its passes it was raised."""
    return _STAGE.sub("", text).strip()
