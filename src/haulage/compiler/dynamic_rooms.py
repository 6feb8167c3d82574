"""Where shared arrays whose sizes are known at run time lie in the launch's dynamic memory.

Each place in the program that makes such an array calls `haulage.take(bytes, alignment, site)` for
the offset of its room. Rooms follow one another in the order in which a thread first comes to the
places; at one place the room is the same each time. All threads work the offsets out for
themselves, from the same sizes, so that they need not talk about it. After inlining the calls
become arithmetic on variables of the kernel, of which LLVM leaves what is needed.
"""

import re

from haulage.compiler import llvm
from haulage.compiler.simt.analysis.kernel import NotInlined
from haulage.targets.base import TAKE, Target

# The offset of an array that has no room: a place came by again with more than the first time.
NOWHERE = 1 << 62

_CALL = re.compile(
    rf"^ +(?P<result>%\S+) = (?:tail )?call i64 @{re.escape(TAKE)}"
    r"\(i64 (?P<nbytes>\S+), i64 (?P<align>\d+), i32 (?P<site>\d+)\).*$",
    re.MULTILINE,
)


def settle(text: str, kernel: str, target: Target) -> str:
    """The module of `text` with these calls worked out in the function `kernel`.

    Raises:
        NotInlined: another function has such a call.
    """
    if f"@{TAKE}(" not in text:
        return text
    module = llvm.parse(text)
    for function in module.functions:
        # Of the others nothing is to be left.
        if not function.is_declaration and function.name != kernel:
            function.linkage = "internal"
    llvm.run_passes(module, target, "always_inliner")
    text = str(module)
    lines = text.splitlines()
    start = next(
        number
        for number, line in enumerate(lines)
        if line.startswith("define") and (f"@{kernel}(" in line or f'@"{kernel}"(' in line)
    )
    end = lines.index("}", start)
    # Behind the label of the first block.
    begin = start + 2
    body = "\n".join(lines[begin:end])
    sites = sorted({found["site"] for found in _CALL.finditer(body)}, key=int)
    variables = ["take.top", *(f"take.{part}.{site}" for site in sites for part in ("at", "end"))]
    made = [f"  %{name} = alloca i64" for name in variables]
    made += [f"  store i64 {-1 if '.at.' in name else 0}, ptr %{name}" for name in variables]
    body = _CALL.sub(_arithmetic, body)
    rest = [line for line in lines[end:] if not line.startswith(f"declare i64 @{TAKE}(")]
    before = [line for line in lines[:begin] if not line.startswith(f"declare i64 @{TAKE}(")]
    text = "\n".join([*before, *made, body, *rest])
    if re.search(rf"(?m)^ .*@{re.escape(TAKE)}\(", text):
        raise NotInlined
    return text


def _arithmetic(found: re.Match[str]) -> str:
    result, nbytes, align, site = found["result"], found["nbytes"], found["align"], found["site"]
    stem = "%" + '"take.' + result[1:].strip('"') + "."
    at, end = f"%take.at.{site}", f"%take.end.{site}"

    def name(part: str) -> str:
        return f'{stem}{part}"'

    lines = [
        f"{name('known')} = load i64, ptr {at}",
        f"{name('top')} = load i64, ptr %take.top",
        f"{name('over')} = add i64 {name('top')}, {int(align) - 1}",
        f"{name('free')} = and i64 {name('over')}, {-int(align)}",
        f"{name('first')} = icmp eq i64 {name('known')}, -1",
        f"{name('offset')} = select i1 {name('first')}, i64 {name('free')}, i64 {name('known')}",
        f"{name('behind')} = add i64 {name('offset')}, {nbytes}",
        f"{name('old')} = load i64, ptr {end}",
        f"{name('end')} = select i1 {name('first')}, i64 {name('behind')}, i64 {name('old')}",
        f"{name('now')} = select i1 {name('first')}, i64 {name('behind')}, i64 {name('top')}",
        f"store i64 {name('offset')}, ptr {at}",
        f"store i64 {name('end')}, ptr {end}",
        f"store i64 {name('now')}, ptr %take.top",
        f"{name('grown')} = icmp ugt i64 {name('behind')}, {name('end')}",
        f"{result} = select i1 {name('grown')}, i64 {NOWHERE}, i64 {name('offset')}",
    ]
    return "\n".join("  " + line for line in lines)
