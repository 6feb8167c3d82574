"""Operations of LLVM's that SPIR-V has no instruction for, in terms of others.

They are written out when all is optimised, or LLVM would make the same operations of them again.
"""

import re

_NAME = r"%(?:\"[^\"]*\"|[-\w.$]+)"
_VALUE = rf"(?:{_NAME}|-?\d+)"
_REVERSE = re.compile(
    rf"(?m)^  (?P<result>{_NAME}) = (?:tail )?call (?:range\([^)]*\) )?i(?P<bits>\d+) "
    rf"@llvm\.bitreverse\.i\d+\(i\d+ (?P<x>{_VALUE})\)[^\n]*$"
)
_OVERFLOW = re.compile(
    rf"(?m)^  (?P<result>{_NAME}) = (?:tail )?call \{{ i(?P<bits>\d+), i1 \}} "
    rf"@llvm\.(?P<word>[su](?:add|sub|mul))\.with\.overflow\.i\d+"
    rf"\(i\d+ (?P<x>{_VALUE}), i\d+ (?P<y>{_VALUE})\)[^\n]*$"
)
_PAIR_PHI = re.compile(
    rf"(?m)^  (?P<result>{_NAME}) = phi (?P<type>\{{ i\d+, i1 \}}) (?P<listed>[^\n]*)$"
)
_INCOMING = re.compile(rf"\[ ({_NAME}|undef|poison), ({_NAME}) \]")


def expanded(text: str) -> str:
    """A module's text without such operations; every value has a name."""
    if "@llvm.bitreverse." in text:
        text = _REVERSE.sub(_reversed, text)
    if ".with.overflow." in text:
        text = _OVERFLOW.sub(_checked, text)
    if "phi { i" in text:
        text = _with_single_phis(text)
    return text


def _part(result: str, part: str) -> str:
    return '%"' + result[1:].strip('"') + f'.{part}"'


def _reversed(found: re.Match[str]) -> str:
    """Neighbouring bits change places, then pairs of them, and so on."""
    result, bits = found["result"], int(found["bits"])
    value, lines, width = found["x"], [], 1
    while width < bits:
        period = (1 << width) - 1
        mask = sum(period << place for place in range(0, bits, 2 * width))
        signed = mask - (1 << bits) if mask >> (bits - 1) else mask
        stem = f"bits.{width}"
        down, low, high, up = (
            _part(result, f"{stem}.{each}") for each in ("down", "low", "high", "up")
        )
        made = result if 2 * width == bits else _part(result, stem)
        lines += [
            f"  {down} = lshr i{bits} {value}, {width}",
            f"  {low} = and i{bits} {down}, {signed}",
            f"  {high} = and i{bits} {value}, {signed}",
            f"  {up} = shl i{bits} {high}, {width}",
            f"  {made} = or i{bits} {low}, {up}",
        ]
        value, width = made, 2 * width
    return "\n".join(lines)


def _checked(found: re.Match[str]) -> str:
    """A sum, difference or product, and whether it is not the right one."""
    result, kind, word = found["result"], f"i{found['bits']}", found["word"]
    x, y = found["x"], found["y"]
    value, wrong = _part(result, "value"), _part(result, "wrong")
    first = _part(result, "first")
    lines = [f"  {value} = {word[1:]} {kind} {x}, {y}"]

    def line(name: str, how: str) -> str:
        made = _part(result, name)
        lines.append(f"  {made} = {how}")
        return made

    if word == "uadd":
        lines.append(f"  {wrong} = icmp ult {kind} {value}, {x}")
    elif word == "usub":
        lines.append(f"  {wrong} = icmp ult {kind} {x}, {y}")
    elif word in ("sadd", "ssub"):
        # Both signs differ from that of the result; of a difference y's is the other one.
        one = line("one", f"xor {kind} {x}, {value}")
        source = y if word == "sadd" else x
        other = line("other", f"xor {kind} {source}, {value if word == 'sadd' else y}")
        both = line("both", f"and {kind} {one}, {other}")
        lines.append(f"  {wrong} = icmp slt {kind} {both}, 0")
    else:
        # Divided by one factor it is the other one; what is divided by is never 0, nor is the
        # least number divided by -1.
        division = "sdiv" if word == "smul" else "udiv"
        none = line("none", f"icmp eq {kind} {x}, 0")
        if word == "smul":
            turns = line("turns", f"icmp eq {kind} {x}, -1")
            least = line("least", f"icmp eq {kind} {y}, {-(1 << (int(found['bits']) - 1))}")
            special = line("special", f"or i1 {none}, {turns}")
            by = line("by", f"select i1 {special}, {kind} 1, {kind} {x}")
            back = line("back", f"{division} {kind} {value}, {by}")
            differs = line("differs", f"icmp ne {kind} {back}, {y}")
            turned = line("turned", f"and i1 {turns}, {least}")
            plain = line("plain", f"xor i1 {special}, true")
            counted = line("counted", f"and i1 {plain}, {differs}")
            lines.append(f"  {wrong} = or i1 {turned}, {counted}")
        else:
            by = line("by", f"select i1 {none}, {kind} 1, {kind} {x}")
            back = line("back", f"{division} {kind} {value}, {by}")
            differs = line("differs", f"icmp ne {kind} {back}, {y}")
            some = line("some", f"xor i1 {none}, true")
            lines.append(f"  {wrong} = and i1 {some}, {differs}")
    pair = f"{{ {kind}, i1 }}"
    lines += [
        f"  {first} = insertvalue {pair} poison, {kind} {value}, 0",
        f"  {result} = insertvalue {pair} {first}, i1 {wrong}, 1",
    ]
    return "\n".join(lines)


def _with_single_phis(text: str) -> str:
    """The text with a phi for each part of a pair in place of one for pairs, which come from
    comparing and swapping; LLVM's code generator fails on the latter."""
    blocks = re.split(r"(?m)^(?=(?:\"[^\"]*\"|[-\w.$]+):)", text)
    # Extractions go to the ends of the blocks that the pairs come from.
    added: dict[str, list[str]] = {}
    names: dict[str, str] = {}

    def single(found: re.Match[str]) -> str:
        result, kind = found["result"], found["type"]
        kinds = kind[2:-2].split(", ")
        lines = []
        for number, part in enumerate(kinds):
            listed = []
            for value, label in _INCOMING.findall(found["listed"]):
                made = _part(result, f"{part}.of.{label[1:].strip(chr(34))}")
                if value in ("undef", "poison"):
                    made = value
                else:
                    line = f"  {made} = extractvalue {kind} {value}, {number}\n"
                    if line not in added.setdefault(label[1:], []):
                        added[label[1:]].append(line)
                listed.append(f"[ {made}, {label} ]")
            name = _part(result, part)
            lines.append(f"  {name} = phi {part} {', '.join(listed)}")
            names[f"extractvalue {kind} {result}, {number}"] = (
                f"or {part} {name}, {'false' if part == 'i1' else 0}"
            )
        return "\n".join(lines)

    blocks = [_PAIR_PHI.sub(single, block) for block in blocks]
    made = []
    for block in blocks:
        label = re.match(r"(\"[^\"]*\"|[-\w.$]+):", block)
        lines = added.get(label[1], []) if label else []
        if lines:
            at = re.search(r"(?m)^  (?:br|switch|ret|unreachable)\b", block)
            assert at is not None, block
            block = block[: at.start()] + "".join(lines) + block[at.start() :]
        made.append(block)
    text = "".join(made)
    for old, new in names.items():
        # Names of LLVM's have no backslashes.
        text = re.sub(re.escape(old) + r"(?=[,\n])", new, text)
    return text
