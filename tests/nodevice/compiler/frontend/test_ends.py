"""Which `return` of a function is one amid it, from its bytecode."""

import dis

from haulage.compiler.frontend.ends import early_returns


def lines_of(function):
    """The lines, counted from the `def`, with a `return` amid the function."""
    early = early_returns(function.__code__)
    first = function.__code__.co_firstlineno
    return [
        instruction.positions.lineno - first
        for instruction in dis.get_instructions(function)
        if instruction.offset in early
    ]


def many(x, n):
    if n >= 3: return  # fmt: skip # noqa: E701
    if n > 2:
        return None
    for k in range(3):
        if k == n:
            return
        x[k] = 1
    while True:
        x[n] += 1
        if x[n]:
            break
    if n < 1:
        x[n] = 2
    else:
        x[n] = (
            3)  # fmt: skip


def with_a_last_one(x, n):
    if n > 2:
        x[2] = 1
    elif n < 1:
        return
    x[3] = 1
    return


def in_the_last_line(x, n):
    while x[n]:
        x[n] -= 1
        if x[n] == 3:
            return


def test_returns_amid_a_function_are_told_from_its_ends():
    assert lines_of(many) == [1, 3, 6]
    assert lines_of(with_a_last_one) == [4]
    assert lines_of(in_the_last_line) == [4]


def test_each_return_counts_where_python_keeps_no_columns():
    code = with_a_last_one.__code__.replace(co_linetable=b"")
    returns = [
        item.offset for item in dis.get_instructions(code) if item.opname.startswith("RETURN")
    ]
    assert early_returns(code) == set(returns)
