"""Notes in a module's text that tell debuggers and profilers of source lines."""

import re

_NUMBERED = re.compile(r"(?m)^!(\d+) = ")
_SUBPROGRAM = re.compile(
    r"(?m)^!(?P<number>\d+) = (?P<before>distinct !DISubprogram\(name: )\"[^\"]*\""
    r"(?:, linkageName: \"[^\"]*\")?(?P<rest>.*?line: (?P<line>\d+).*)$"
)
_VARIABLES = re.compile(r", retainedNodes: !\d+")
_VARIABLE = re.compile(r"(?m)^ +(?:#dbg_\w+\(|(?:tail )?call void @llvm\.dbg\.)[^\n]*\n")


def of_lines_only(text: str) -> str:
    """A module's text that tells debuggers of lines and not of variables; Numba's own functions,
    such as that of `abs` for complex numbers, would tell of both, and make all of the PTX such."""
    text = text.replace("emissionKind: FullDebug", "emissionKind: DebugDirectivesOnly")
    has_variables = "#dbg_" in text or "llvm.dbg." in text
    return _VARIABLE.sub("", text) if has_variables else text


def with_unit(text: str) -> str:
    """A module's text whose lines can be found in an ELF file, by what says which table is of which
    code; Numba's is for assembly text, where nothing has to be found."""
    return text.replace("emissionKind: DebugDirectivesOnly", "emissionKind: LineTablesOnly")


def with_place(text: str, body: str, name: str) -> str:
    """A module's text whose entry `name` stands where the function `body`, which it calls, does, if
    that has line information: LLVM keeps lines of inlined functions only if the caller has some."""
    if " !dbg !" not in text:
        return text
    defined = re.search(rf'(?m)^define [^\n]*@"?{re.escape(body)}"?\([^\n]* !dbg !(\d+) ', text)
    if defined is None:
        return text
    found = next(each for each in _SUBPROGRAM.finditer(text) if each["number"] == defined[1])
    number = free_number(text)
    text = re.sub(rf"(?m)^(define \w[\w ]* void @{name}\(.*) {{$", rf"\1 !dbg !{number} {{", text)
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


def free_number(text: str) -> int:
    """A number that no note of a module's text has, nor any that is greater."""
    return 1 + max(map(int, _NUMBERED.findall(text)), default=-1)
