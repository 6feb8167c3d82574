"""Products and sums become fused operations here, once, as far as a kernel's flags allow it.

LLVM's code generator would do so by itself where it sees both in one block of its code. But what
that holds depends on where a kernel is cut and what was widened, and a thread would get other bits
in another way of running it. So the pairs are chosen in the clean body, and the flag that allows
more is taken away. Only kernels with `reassoc`, as with all of fastmath, keep it: their bits may
change anyway, and LLVM knows sums of products only while they are two operations.
"""

import re
from collections import Counter

from haulage.targets.base import Target

_NAME = r'%(?:"[^"]*"|[-\w.$]+)'
_VALUE = rf"(?:{_NAME}|[-+\w.]+)"
_OPERATION = re.compile(
    rf"^  (?P<result>{_NAME}) = (?P<word>fmul|fadd|fsub) (?P<flags>(?:\w+ )*)"
    rf"(?P<type>float|double) (?P<first>{_VALUE}), (?P<second>{_VALUE})(?P<notes>, !.*)?$"
)
_FLAG = re.compile(r"(?m)^(  [^\n\"]*= [^\n\"@%]*?)\bcontract ")
_LABEL = re.compile(r'^(?:"[^"]*"|[-\w.$]+):')


def contract(text: str, target: Target) -> str:
    """A module's text whose sums of products are fused, if the target can do that."""
    functions = re.split(r"(?m)(?=^define )", text)
    done = [_settled(each, target.has_fused) for each in functions]
    if target.has_fused:
        joined = "".join(done)
        declared = [
            f"declare {kind} @{_fma(kind)}({kind}, {kind}, {kind})\n"
            for kind in ("float", "double")
            if f"@{_fma(kind)}(" in joined
            and f" {kind} @{_fma(kind)}({kind}, " not in text
            and not re.search(rf"(?m)^declare .*@{re.escape(_fma(kind))}\(", joined)
        ]
        done += declared
    return "".join(done)


def _fma(kind: str) -> str:
    return f"llvm.fma.{'f32' if kind == 'float' else 'f64'}"


def _may_fuse(flags: str) -> bool:
    return "contract" in flags.split()


def _settled(function: str, fused: bool) -> str:
    if "contract " not in function:
        return function
    if fused:
        function = _fused(function)
    lines = function.split("\n")
    return "\n".join(
        line if "reassoc " in line else _FLAG.sub(r"\1", line, count=1) for line in lines
    )


def _fused(function: str) -> str:
    """The function with each product that only one sum of the same block uses made part of it."""
    uses = Counter(re.findall(_NAME, function))
    lines: list[str | None] = list(function.split("\n"))
    products: dict[str, tuple[int, re.Match[str]]] = {}
    for number, line in enumerate(lines):
        assert line is not None
        if _LABEL.match(line):
            products.clear()
            continue
        found = _OPERATION.match(line)
        if found is None or not _may_fuse(found["flags"]):
            continue
        if found["word"] == "fmul":
            # Named where it is made and where it is used.
            if uses[found["result"]] == 2:
                products[found["result"]] = (number, found)
            continue
        for side in ("first", "second"):
            if found[side] in products:
                place, product = products.pop(found[side])
                lines[place] = None
                lines[number] = _written(found, product, side == "second")
                break
    return "\n".join(line for line in lines if line is not None)


def _written(total: re.Match[str], product: re.Match[str], is_second: bool) -> str:
    """The lines of `product + other`, `product - other` or `other - product`."""
    kind, result = total["type"], total["result"]
    first, second = product["first"], product["second"]
    other = total["first" if is_second else "second"]
    lines = []
    if total["word"] == "fsub":
        negated = _also(result)
        lines.append(f"  {negated} = fneg {kind} {first if is_second else other}")
        if is_second:
            first = negated
        else:
            other = negated
    lines.append(
        f"  {result} = call {total['flags']}{kind} @{_fma(kind)}"
        f"({kind} {first}, {kind} {second}, {kind} {other}){total['notes'] or ''}"
    )
    return "\n".join(lines)


def _also(name: str) -> str:
    """Another name, made of one."""
    return f'{name[:-1]}.negated"' if name.endswith('"') else f"{name}.negated"
