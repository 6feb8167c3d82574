"""Notes in a module's text that tell LLVM's code generator for PTX what options ask for."""

import re

from haulage.compiler.options import Options

_NUMBERED = re.compile(r"(?m)^!(\d+) = ")
_SUBPROGRAM = re.compile(
    r"(?m)^!(?P<number>\d+) = (?P<before>distinct !DISubprogram\(name: )\"[^\"]*\""
    r"(?:, linkageName: \"[^\"]*\")?(?P<rest>.*?line: (?P<line>\d+).*)$"
)
_VARIABLES = re.compile(r", retainedNodes: !\d+")
# LLVM's notes for launch bounds, in the order in which CUDA has them.
_BOUNDS = ("maxntidx", "minctasm", "maxclusterrank")


_VARIABLE = re.compile(r"(?m)^ +(?:#dbg_\w+\(|(?:tail )?call void @llvm\.dbg\.)[^\n]*\n")


def of_lines_only(text: str) -> str:
    """A module's text that tells debuggers of lines and not of variables."""
    return _VARIABLE.sub("", text)


def with_options(text: str, name: str, options: Options) -> str:
    """A module's text that says what the options ask of its kernel `name`."""
    notes = [
        f'!"{note}", i32 {int(value)}'
        for note, value in zip(_BOUNDS, options.launch_bounds, strict=False)
        if value
    ]
    if options.max_registers:
        notes.append(f'!"maxnreg", i32 {int(options.max_registers)}')
    number = _free(text)
    lines = []
    if notes:
        lines += [
            f"!nvvm.annotations = !{{!{number}}}",
            f"!{number} = !{{ptr @{name}, {', '.join(notes)}}}",
        ]
        number += 1
    if options.is_fast:
        # libdevice's functions ask for it.
        lines += [
            f"!llvm.module.flags = !{{!{number}}}",
            f'!{number} = !{{i32 4, !"nvvm-reflect-ftz", i32 1}}',
        ]
    return "\n".join([text, *lines, ""]) if lines else text


def with_place(text: str, body: str, name: str) -> str:
    """A module's text whose entry `name` stands where the function `body`, which it calls, does, if
    that has line information: LLVM keeps lines of inlined functions only if the caller has some."""
    defined = re.search(rf'(?m)^define [^\n]*@"?{re.escape(body)}"?\([^\n]* !dbg !(\d+) ', text)
    if defined is None:
        return text
    found = next(each for each in _SUBPROGRAM.finditer(text) if each["number"] == defined[1])
    number = _free(text)
    text = re.sub(
        rf"(?m)^(define ptx_kernel void @{name}\(.*\)) {{$", rf"\1 !dbg !{number} {{", text
    )
    start = text.index(f" @{name}(")
    end = text.index("\n}", start)
    entry = re.sub(r"(?m)^(  .*\bcall .*)$", rf"\1, !dbg !{number + 1}", text[start:end])
    return "\n".join(
        [
            text[:start] + entry + text[end:],
            f'!{number} = {found["before"]}"{name}"{_VARIABLES.sub("", found["rest"])}',
            f"!{number + 1} = !DILocation(line: {found['line']}, column: 1, scope: !{number})",
            "",
        ]
    )


def _free(text: str) -> int:
    """A number that no note of a module's text has, nor any that is greater."""
    return 1 + max(map(int, _NUMBERED.findall(text)), default=-1)
