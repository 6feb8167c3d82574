"""Writes what happens between the two sides of an exchange: all lanes' answers are worked out.

The values of a warp are one LLVM vector. A shuffle by a power of two that all lanes have in common
is one permutation with constant places; by another number one for each bit that is set. A vote
compares all values at once and turns the result into a mask.
"""

from collections.abc import Iterable, Sequence

from haulage.compiler.simt.regions.exchanges import Exchange


def rooms(exchanges: Iterable[Exchange], lanes: int) -> dict[str, int]:
    """Name and bytes of the rooms of all exchanges of a kernel whose warps have so many lanes."""
    found: dict[str, int] = {}
    for exchange in exchanges:
        for name in exchange.needed:
            found[name] = lanes * int(name.rsplit(".", 1)[1]) // 8
    return found


def functions(exchanges: Iterable[Exchange]) -> list[str]:
    """LLVM text of the functions that the lines of `answer` call."""
    found: dict[str, str] = {}
    for exchange in exchanges:
        if exchange.kind in ("up", "down", "xor") and exchange.asked_alike:
            found[_permutation_name(exchange)] = _permutation(exchange)
    return list(found.values())


def answer(exchange: Exchange, stem: str, leader: str, there: str) -> list[str]:
    """Lines that work out the answers, in a block named `stem` and those behind it.

    `leader` is the number of a lane that is there, an i64, and `there` the mask of all that are.
    """
    kind = f"<{exchange.lanes} x i{exchange.bits}>"
    lines = [
        f"  %{stem}.loaded = load {kind}, ptr {exchange.storage('value')}, align 64",
        # What lanes give that are not there is anything.
        f"  %{stem}.values = freeze {kind} %{stem}.loaded",
    ]
    if exchange.kind == "match":
        write = _match_alike if exchange.alike else _match_each
    else:
        write = _shuffle_alike if exchange.asked_alike else _shuffle_each
    return lines + write(exchange, stem, leader, there)


def _asked(
    exchange: Exchange, stem: str, part: str, constant: str | None, lane: str
) -> tuple[list[str], str]:
    """(lines, the value) of what the lane `lane` gave as `part`."""
    if constant is not None:
        return [], constant
    kind, name = f"i{exchange.width(part)}", f"%{stem}.{part}"
    return [
        f"  {name}.at = getelementptr inbounds {kind}, ptr {exchange.storage(part)}, i64 {lane}",
        f"  {name} = load {kind}, ptr {name}.at",
    ], name


def _shuffle_alike(exchange: Exchange, stem: str, leader: str, there: str) -> list[str]:
    vector = f"<{exchange.lanes} x i{exchange.bits}>"
    lines, number = _asked(exchange, stem, "asked", exchange.asked, leader)
    if exchange.alike:
        kind = f"i{exchange.bits}"
        return [
            *lines,
            f"  %{stem}.one = extractelement {vector} %{stem}.values, i32 {number}",
            f"  store {kind} %{stem}.one, ptr {exchange.storage('answer')}, align 64",
        ]
    return [
        *lines,
        f"  %{stem}.moved = call {vector} {_permutation_name(exchange)}"
        f"({vector} %{stem}.values, i32 {number})",
        f"  store {vector} %{stem}.moved, ptr {exchange.storage('answer')}, align 64",
    ]


def _permutation_name(exchange: Exchange) -> str:
    return f"@haulage.permute.{exchange.kind}.{exchange.bits}.{exchange.lanes}"


def _permutation(exchange: Exchange) -> str:
    """The function that gives each lane the value which is `%number` away, or its own."""
    lanes = exchange.lanes
    vector = f"<{lanes} x i{exchange.bits}>"
    bits = range(lanes.bit_length() - 1)
    cases = " ".join(f"i32 {1 << bit}, label %by.{1 << bit}" for bit in bits)
    lines = [
        f"define internal {vector} {_permutation_name(exchange)}({vector} %values, i32 %number) {{",
        f"  switch i32 %number, label %by.any [ {cases} ]",
    ]
    for bit in bits:
        lines += [
            f"by.{1 << bit}:",
            *_move(exchange, f"%moved.{bit}", "%values", bit),
            f"  ret {vector} %moved.{bit}",
        ]
    lines += ["by.any:"]
    now = "%values"
    for bit in bits:
        lines += [
            *_move(exchange, f"%also.{bit}", now, bit),
            f"  %masked.{bit} = and i32 %number, {1 << bit}",
            f"  %is.{bit} = icmp ne i32 %masked.{bit}, 0",
            f"  %now.{bit} = select i1 %is.{bit}, {vector} %also.{bit}, {vector} {now}",
        ]
        now = f"%now.{bit}"
    if exchange.kind in ("up", "down"):
        lines += _own_beyond(exchange.kind, lanes, vector, now)
        now = "%or.own"
    return "\n".join([*lines, f"  ret {vector} {now}", "}"])


def _move(exchange: Exchange, result: str, values: str, bit: int) -> list[str]:
    """The line that gives each lane the value which is a power of two away, or its own."""
    lanes = exchange.lanes
    vector = f"<{lanes} x i{exchange.bits}>"
    places = [_source(exchange.kind, lane, 1 << bit, lanes) for lane in range(lanes)]
    return [
        f"  {result} = shufflevector {vector} {values}, {vector} poison, "
        f"<{lanes} x i32> {_constant(places)}"
    ]


def _source(kind: str, lane: int, step: int, lanes: int) -> int:
    if kind == "xor":
        return lane ^ step
    place = lane - step if kind == "up" else lane + step
    return place if 0 <= place < lanes else lane


def _own_beyond(kind: str, lanes: int, vector: str, now: str) -> list[str]:
    """Lines that leave lanes with their own value for which there is none that far away."""
    indices = f"<{lanes} x i32>"
    order = _constant(range(lanes)) if kind == "up" else _constant(range(lanes - 1, -1, -1))
    return [
        f"  %number.first = insertelement {indices} poison, i32 %number, i32 0",
        f"  %number.all = shufflevector {indices} %number.first, {indices} poison, "
        f"{indices} zeroinitializer",
        f"  %is.within = icmp uge {indices} {order}, %number.all",
        f"  %or.own = select <{lanes} x i1> %is.within, {vector} {now}, {vector} %values",
    ]


def _constant(numbers: Sequence[int] | range) -> str:
    return "<" + ", ".join(f"i32 {number}" for number in numbers) + ">"


def _loop(stem: str, lanes: int, body: list[str]) -> list[str]:
    """Lines that do `body` for each lane `%stem.lane`."""
    return [
        f"  br label %{stem}.before",
        f"{stem}.before:",
        f"  br label %{stem}.each",
        f"{stem}.each:",
        f"  %{stem}.lane = phi i64 [ 0, %{stem}.before ], [ %{stem}.after, %{stem}.each ]",
        *body,
        f"  %{stem}.after = add nuw nsw i64 %{stem}.lane, 1",
        f"  %{stem}.more = icmp ult i64 %{stem}.after, {lanes}",
        f"  br i1 %{stem}.more, label %{stem}.each, label %{stem}.done",
        f"{stem}.done:",
    ]


def _shuffle_each(exchange: Exchange, stem: str, leader: str, there: str) -> list[str]:
    lanes, kind = exchange.lanes, f"i{exchange.bits}"
    asked, number = _asked(exchange, stem, "asked", exchange.asked, f"%{stem}.lane")
    own = f"%{stem}.own"
    body = [*asked, f"  {own} = trunc i64 %{stem}.lane to i32"]
    place = f"%{stem}.place"
    if exchange.kind == "lane":
        place = number
    elif exchange.kind == "xor":
        body.append(f"  {place} = xor i32 {own}, {number}")
    else:
        sign = "sub" if exchange.kind == "up" else "add"
        body += [
            f"  {place}.far = {sign} i32 {own}, {number}",
            f"  {place}.is = icmp ult i32 {place}.far, {lanes}",
            f"  {place} = select i1 {place}.is, i32 {place}.far, i32 {own}",
        ]
    body += [
        # Lanes that are not there ask for anything.
        f"  {place}.sure = and i32 {place}, {lanes - 1}",
        f"  %{stem}.from = getelementptr inbounds {kind}, ptr {exchange.storage('value')}, "
        f"i32 {place}.sure",
        f"  %{stem}.one = load {kind}, ptr %{stem}.from",
        f"  %{stem}.to = getelementptr inbounds {kind}, ptr {exchange.storage('answer')}, "
        f"i64 %{stem}.lane",
        f"  store {kind} %{stem}.one, ptr %{stem}.to",
    ]
    return _loop(stem, lanes, body)


def _equal(exchange: Exchange, stem: str, wanted: str) -> list[str]:
    """Lines that make `%stem.equal`, the mask of the lanes whose value is `wanted`."""
    lanes, vector = exchange.lanes, f"<{exchange.lanes} x i{exchange.bits}>"
    return [
        f"  %{stem}.first = insertelement {vector} poison, i{exchange.bits} {wanted}, i32 0",
        f"  %{stem}.all = shufflevector {vector} %{stem}.first, {vector} poison, "
        f"<{lanes} x i32> zeroinitializer",
        f"  %{stem}.same = icmp eq {vector} %{stem}.values, %{stem}.all",
        f"  %{stem}.equal = bitcast <{lanes} x i1> %{stem}.same to i{lanes}",
    ]


def _match(exchange: Exchange, stem: str, lane: str, there: str) -> list[str]:
    """Lines that make `%stem.answer` and `%stem.here`, for what the lane `lane` asked."""
    kind = f"i{exchange.lanes}"
    lines, wanted = _asked(exchange, stem, "asked", exchange.asked, lane)
    counted = there
    if exchange.masked:
        masked, mask = _asked(exchange, stem, "mask", exchange.mask, lane)
        lines += [*masked, f"  %{stem}.here = and {kind} {there}, {mask}"]
        counted = f"%{stem}.here"
    else:
        lines.append(f"  %{stem}.here = and {kind} {there}, -1")
    return [
        *lines,
        *_equal(exchange, stem, wanted),
        f"  %{stem}.answer = and {kind} %{stem}.equal, {counted}",
    ]


def _parts(exchange: Exchange) -> list[str]:
    return [("answer", "here")[number] for number in exchange.answers]


def _match_alike(exchange: Exchange, stem: str, leader: str, there: str) -> list[str]:
    kind = f"i{exchange.lanes}"
    return [
        *_match(exchange, stem, leader, there),
        *(
            f"  store {kind} %{stem}.{part}, ptr {exchange.storage(part)}, align 64"
            for part in _parts(exchange)
        ),
    ]


def _match_each(exchange: Exchange, stem: str, leader: str, there: str) -> list[str]:
    kind = f"i{exchange.lanes}"
    lane = f"%{stem}.lane"
    body = _match(exchange, stem, lane, there)
    for part in _parts(exchange):
        body += [
            f"  %{stem}.{part}.to = getelementptr inbounds {kind}, ptr {exchange.storage(part)}, "
            f"i64 {lane}",
            f"  store {kind} %{stem}.{part}, ptr %{stem}.{part}.to",
        ]
    return _loop(stem, exchange.lanes, body)
